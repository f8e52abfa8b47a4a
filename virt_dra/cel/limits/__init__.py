"""Limits on what expressions may cost: budgets of time and memory, static weights, caches limited in bytes.

Must not know what an expression is evaluated for.
"""
