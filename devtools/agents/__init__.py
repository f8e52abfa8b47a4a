"""What a cluster has beside its control plane, for tests: DRA drivers with their hardware, kubelets, and a small
KubeVirt.

All of it works over :class:`virt_dra.cluster.port.Cluster` alone, so on the embedded cluster and on a real API server.

* :mod:`virt_dra.simulator.agents`: drivers and kubelets; :mod:`.launchers`: what a launcher pod's container runs
* :mod:`.kubevirt`: renders launcher pods, sets phases, starts domains; :mod:`.kubevirt_admission`: what it lets
  outsiders write
"""
