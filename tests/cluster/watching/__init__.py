"""Informers, the work queue, Events."""
