"""Edits of texts."""
