"""Kubernetes' own CEL package as the witness for ours: how to ask it, random expressions, comparing, recording.

    python -m devtools.upstream.cel.compare 20000 [--seed N]   compare random expressions with the reference
    python -m devtools.upstream.cel.record [FILE]              answer the cases of tests/cel/cases anew, and FILE's

Both build main.go, so they need Go.
"""
