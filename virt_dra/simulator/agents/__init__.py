"""The agents of nodes: DRA drivers with their hardware, and kubelets. Over :class:`virt_dra.cluster.port.Cluster`
alone, so on the embedded cluster and on a real API server.

* :mod:`.hardware`: a short description of devices, and the ResourceSlices it makes
* :mod:`.driver`: publishes them, prepares claims, writes metadata files; can be slow, fail, vanish and come back
* :mod:`.claim_manager`: the kubelet's DRA manager: which claims are prepared for which pods on a node (C-16)
* :mod:`.downward`: what pods see of themselves, as the kubelet resolves it
* :mod:`.kubelet`: starts the pods of its nodes in folders that stand for their containers' file systems

Must not know the command line.
"""
