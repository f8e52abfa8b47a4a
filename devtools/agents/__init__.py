"""What a cluster has beside its control plane, for tests: DRA drivers with their hardware, kubelets, and a small
KubeVirt.

All of it works over :class:`virt_dra.cluster.port.Cluster` alone, so on the embedded cluster and on a real API server.

* :mod:`.hardware`: a short description of devices, and the ResourceSlices it makes
* :mod:`.driver`: publishes them, prepares claims, writes metadata files; can be slow, fail, vanish and come back
* :mod:`.downward`: what pods see of themselves, as the kubelet resolves it
* :mod:`.kubelet`: starts the pods of its nodes in folders that stand for their containers' file systems
* :mod:`.kubevirt`: renders launcher pods, sets phases, starts domains; :mod:`.kubevirt_admission`: what it lets
  outsiders write
"""
