"""The controllers: each gathers its inputs from the cluster, makes a pure plan, and applies it.

They see the cluster only through :mod:`virt_dra.cluster.port` and :mod:`virt_dra.cluster.watching`; no module imports an implementation of
the port, the command line, ``webhooks`` or ``launcher``. Time and randomness are arguments. What a controller reports (an Event, a refused
write) is data, never an exception.

    operator          the operator's controller: which VMIs a watch event affects, its work queue, why pods wait
    beside_kubevirt   the reconcile of a VMI beside KubeVirt: devices object, fill-ins of its pods, retries of KubeVirt's
    standalone        the reconcile of a VMI and of a VM without KubeVirt: pod, phase, devices, run strategy
    loops             the controllers of the embedded cluster: VMs, claims, scheduler, device status
    devices           where the devices of a VMI are: pod -> claim -> allocation -> slice -> address
    pods              the launcher pod of a VMI: rendering, resources, which one is current

Shared: ``sources`` (what a reconcile reads), ``writes`` (what a plan may write), ``reconciled`` (the result of a reconcile), ``events``,
``conditions``, ``kubevirt_failures`` and ``transforms`` (what informers keep of objects).
"""
