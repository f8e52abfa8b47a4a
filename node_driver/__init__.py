"""A DRA driver for devices that are passed through to VMs: PCI devices, SR-IOV functions, mediated devices and vGPUs.

It runs on each node (docs/spec/driver.md, the D-rules)::

    sysfs ──► hardware ──► policy ──► devices ──► slices, health ──► API server
    kubelet ──► wire ──► claims ──► host changes ──► CDI and metadata files

``hardware`` reads a sysfs tree, ``policy`` decides which devices are published, ``host`` changes the host in steps that
can be undone, ``state`` remembers them over crashes, ``wire`` is the kubelet's gRPC protocol. All but ``wire``, the
host's edges and the process decide without I/O of their own.

Must not know: KubeVirt, schedulers, the launcher. Of ``virt_dra`` it takes ``api`` and the cluster's port.
"""
