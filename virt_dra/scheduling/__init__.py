"""The choice of a node for a pod: pure functions over nodes, claims and an allocator snapshot. No cluster, no clock, no
I/O.

`place` is the decision; `claim_references` (C-3) reads pods' claims, `claim_checks` (C-5.1, C-5.2) decides which of
them can be used, `node_fit` is the part of kube-scheduler's node filters that is about other things than devices.
"""
