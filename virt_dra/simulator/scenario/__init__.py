"""Scenarios of the control loops: their format, a player, and the normal form of what it saw (docs/spec/scenarios.md).

`reading` reads and checks them, `player` performs them on a cluster behind a small port (`embedded_target`,
`server_target`); `normal_form` and `comparing` make answers that can be compared. Must not know the command line.
"""
