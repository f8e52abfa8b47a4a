"""Scenarios of classic DRA on real control planes of 1.30.14 and 1.31.14 and on the embedded one (C-18).

``tests/classic/cases/<release>.yaml`` has the scenarios, ``tests/classic/answers/<release>.jsonl`` what the real
control plane and a driver on Kubernetes' own library answered. ``python -m devtools.classic`` plays all on both.
"""
