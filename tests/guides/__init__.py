"""Guides, followed as a new user would: their commands, on a real control plane."""
