"""Inputs for experiments that tests and benchmarks need."""
