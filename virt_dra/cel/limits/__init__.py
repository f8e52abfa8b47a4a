"""Limits on evaluations: budgets of time and memory, and a cache limited in bytes.

Must not know expressions, functions or devices.
"""
