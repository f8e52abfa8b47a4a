"""What a policy makes of a node's hardware: which devices are published, and why the others aren't (D-39 to D-43).

Pure: :func:`node_driver.policy.deciding.published_set` maps hardware, policies and the node's labels to one value.

    deciding     the sets of all policies in order; what nobody names
    selecting    which functions a set selects
    functions    whole functions, IOMMU groups and cards as devices
    partitions   mediated devices and vGPU profiles as devices, and their counters
    attributes   what is said of a device
    exclusions   the reasons why a device isn't published
    documents    policies as text

Must not know: sysfs, the cluster.
"""
