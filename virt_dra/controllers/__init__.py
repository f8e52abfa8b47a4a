"""The control loops, one module each: ``gather(reader)``, a pure ``plan(inputs)`` and ``apply(writer, actions)``.

They see the cluster only through :mod:`virt_dra.cluster.port`: no module here imports an implementation of it, the command line,
``webhooks`` or ``launcher``, nor reads a clock; the time comes in as an argument. What a loop has to tell (a condition that isn't
met yet, a write that was refused) is data, never an exception.

    claims            ResourceClaims from templates, their reservations and release (C-10)
    device_status     where the devices of a VMI are (K-5); the resolution itself is in device_resolution, which reads the
                      pod (current_pod), the slices (published_devices) and the attributes (attribute_keys, K-6)
"""
