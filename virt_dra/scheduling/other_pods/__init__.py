"""Plugins whose answer depends on the pods that are there: affinity between pods, topology spread, host ports."""
