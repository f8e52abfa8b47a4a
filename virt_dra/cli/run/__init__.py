"""``virt-dra run``: the command and its report. What happens to the VMs is :mod:`virt_dra.simulator`."""
