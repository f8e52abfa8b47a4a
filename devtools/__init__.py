"""Tools for maintainers: lock files, vulnerability audit, releases. Not installed for users: the wheel doesn't contain this package."""
