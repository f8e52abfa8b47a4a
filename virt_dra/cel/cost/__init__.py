"""Kubernetes' cost of CEL (L-4.*): the run-time cost, counted while an expression is evaluated, and the static estimate
of the worst case."""
