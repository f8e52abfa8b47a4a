"""Placing pods: nodes, claim references, extended resources."""
