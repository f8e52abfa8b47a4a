"""Placement policies by name: pure scores of what nodes would give to a VM."""
