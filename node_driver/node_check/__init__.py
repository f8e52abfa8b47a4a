"""What would stop a VM with devices on this node, each with its cure (``virt-dra node-check``).

    facts           what was read of the node, as values
    gathering       reads them: the room's only edge
    checks          the checks in their order
    kernel_checks   IOMMU, VFIO, KVM, huge pages, locked memory, device nodes, programs
    device_checks   IOMMU groups, resets, what policies publish

Must not know: the cluster; it changes nothing.
"""
