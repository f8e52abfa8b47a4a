"""The agents of nodes: DRA drivers with their :mod:`.hardware`, and kubelets. Over
:class:`virt_dra.cluster.port.Cluster` alone, so on the embedded cluster and on a real API server. Must not know the
command line."""
