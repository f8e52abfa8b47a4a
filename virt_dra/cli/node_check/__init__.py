"""``virt-dra node-check``: what would stop a VM with devices on this node."""
