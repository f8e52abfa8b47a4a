"""Selectors matched with published devices."""
