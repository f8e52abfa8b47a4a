"""``virt-dra topology``: a cluster's devices by node, NUMA node and PCIe root, as a tree, a picture or a page."""
