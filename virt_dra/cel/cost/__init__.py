"""Kubernetes' cost of CEL (L-4.*): counted while an expression is evaluated, and estimated for the worst case from its text."""
