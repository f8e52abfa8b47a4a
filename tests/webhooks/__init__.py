"""Admission reviews: rules and verdicts."""
