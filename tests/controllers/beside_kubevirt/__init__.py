"""What the operator does for VMIs that KubeVirt runs."""
