"""Schemas of objects: strict decoding, pruning, dropped fields, unknown fields, and the schemas of KubeVirt's kinds.

Must not do I/O or know a cluster.
"""
