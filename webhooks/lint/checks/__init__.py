"""The checks, one module for what is judged together. Each takes a :class:`~webhooks.lint.linted.Linted` and yields what it finds.

They are put in order, and given ids and severities, by :mod:`webhooks.lint.registry`.
"""
