"""The hook sidecar: a process beside KubeVirt's launcher that completes the domain before libvirt gets it (K-11.4 to
K-11.8, K-11.17).

``domain_hook`` decides and is pure, ``wire`` and ``server`` are the protocol, ``entry`` is the process.
"""
