"""The lint: checks, findings, pages."""
