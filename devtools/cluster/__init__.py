"""A real control plane on loopback (etcd, kube-apiserver, scheduler, controllers), and processes beside it that end
with their parent.

It knows nothing of KubeVirt, drivers or deployments: those are in :mod:`devtools.agents` and :mod:`devtools.deployed`.
See ../README.md.
"""
