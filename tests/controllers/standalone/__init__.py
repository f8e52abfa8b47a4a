"""VMs without KubeVirt."""
