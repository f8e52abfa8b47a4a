"""``virt-dra diff``: which VMs start or stop fitting between two states of a cluster, and why."""
