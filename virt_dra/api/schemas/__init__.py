"""Schemas of objects: strict decoding, pruning, dropped fields, unknown fields, and the schemas of our own resources
and KubeVirt's.

Must not do I/O or know a cluster.
"""
