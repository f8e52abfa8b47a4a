"""Kubernetes' own plugin manager and DRA manager, and the libraries that read what a driver writes, in a Go program
beside this file that is steered by JSON lines."""
