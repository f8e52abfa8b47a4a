"""End to end on a real control plane: our overlays as installed, our components as processes with the rights of their
ServiceAccounts.

kube-scheduler allocates and kube-controller-manager makes claims; drivers, kubelets and (where there is to be one)
KubeVirt are the tests' own (``devtools/agents``) and live in the test process. Nothing of ours is called but its
command line.

* :mod:`devtools.deployed.overlay`: one of our overlays, installed and running
* :mod:`devtools.deployed.worlds`: a cluster with an overlay and agents, of which one is there at a time
* :mod:`.cases`: VMs with their hardware and what is to become of them, read from ``cases/``
* :mod:`devtools.agents.launchers`: ``virt-dra-launcher`` as the program of a pod's container
"""
