"""What there is and who has it: VMs, devices, claims, pools and drivers as rows, made of a cluster's objects. For
``virt-dra get`` and ``describe``.

Pure. Must not read, write, decide what should be, or know the terminal.
"""
