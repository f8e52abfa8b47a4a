"""The control loops, one module each: ``gather(reader)``, a pure ``plan(inputs)`` and ``apply(writer, actions)``.

They see the cluster only through :mod:`virt_dra.cluster.port`: no module here imports an implementation of it, the command line,
``webhooks`` or ``launcher``, nor reads a clock; the time comes in as an argument. What a loop has to tell (a condition that isn't
met yet, a write that was refused) is data, never an exception.

    virtual_machines  the VMI of a VM
    launcher_pods     the launcher pod of a VMI (K-4)
    claims            ResourceClaims from templates, their reservations and release (C-10)
    scheduler         a node and devices for each pod: the cluster around virt_dra.scheduling (C-4 to C-6)
    device_status     where the devices of a VMI are (K-5); the resolution itself is in device_resolution, which reads the
                      pod (current_pod), the slices (published_devices) and the attributes (virt_dra.api.integration.attribute_keys, K-6)
    events            what a loop has to tell

On a real cluster one VMI is put right at a time; what it is gathered from is behind ``sources`` (lists, or informers' stores: ``watched``),
and what is written goes through ``writes``:

    beside_kubevirt   device_publication (into devices_object), metadata_shim (into pods), pending (why a pod waits)
    standalone        standalone_pod, instance_phase; of VMs: vm_lifecycle
    settling          what is told of devices, for both
"""
