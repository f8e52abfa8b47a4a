"""The tests' own tools: the control plane, drivers, kubelets, and the small KubeVirt."""
