"""Kubernetes' own CEL package as the witness for ours: how to ask it, random expressions, comparing, recording.

    python -m tests.upstream.cel.compare 20000 [--seed N]     compare random expressions and selectors with the reference
    python -m tests.upstream.cel.record [FILE]                answer the cases of tests/cel/cases anew, adding FILE's expressions

Both build main.go, so they need Go.
"""
