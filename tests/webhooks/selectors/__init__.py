"""Answers about selectors."""
