"""The checks, one module per topic. Each is a function from a :class:`~webhooks.lint.linted.Linted` to the issues that
it finds.

Their order, ids and severities are in :mod:`webhooks.lint.registry`.
"""
