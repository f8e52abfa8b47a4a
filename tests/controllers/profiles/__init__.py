"""What a VM's line of device profiles becomes on a cluster."""
