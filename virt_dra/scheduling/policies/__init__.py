"""Placement policies by name: pure scores of what nodes would give to a VM. No clusters, clocks or random sources are
imported."""
