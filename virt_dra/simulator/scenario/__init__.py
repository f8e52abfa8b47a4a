"""Scenarios of the control loops: `reading`, a `player` over a small port, and the normal form of what it saw
(docs/spec/scenarios.md). Must not know the command line."""
