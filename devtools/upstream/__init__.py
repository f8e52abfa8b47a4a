"""Witnesses from Kubernetes itself: programs around its Go packages, a real API server, and comparers of their answers
with ours.

``python -m devtools.upstream.conformance`` (``make conformance``) runs the long comparisons. Recorded answers are data
of the tests (tests/cel/cases, tests/cluster/memory/recorded); only the ``record`` modules write them.
"""
