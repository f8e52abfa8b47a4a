"""Kubernetes' own allocator placing pod after pod (main.go), as the peer of ``virt-dra allocate --workload``."""
