"""The choice of a node for a pod (`placement`), and why there is none (`why`): pure functions over a model of the
cluster. No cluster, no clock, no I/O."""
