"""``virt-dra report``: one page about a cluster's devices and VMs."""
