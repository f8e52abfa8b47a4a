"""What locks, audits and releases this project, and nothing that a user installs: the wheel doesn't have this package."""
