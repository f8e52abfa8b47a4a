"""Launcher pods."""
