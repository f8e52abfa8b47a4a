"""Pruning: leaves subtrees without a solution out of the search (the port is pruning_port.py). Never changes a solution
or an error.

`pruner` combines the techniques: `nogoods` (learned failures), `interchangeability` (symmetry breaking), `lower_bounds`
with `resource_model`, `matching` and `bin_packing` (relaxations that prove infeasibility), `reportable` (what may not
be skipped).
"""
