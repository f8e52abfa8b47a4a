"""Kubernetes' own structured allocator (main.go) as the witness for ours: random problems, comparing, shrinking what
differs."""
