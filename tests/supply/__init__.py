"""Lock files, audit, releases."""
