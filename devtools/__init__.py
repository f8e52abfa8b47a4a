"""Programs and parts for those who work on virt-dra: clusters to test and measure on, witnesses, releases. Not in the
wheel.

Tests, ``bench`` and the Makefile use these packages. They import nothing of tests or bench; the product imports nothing
of them.

* :mod:`.cluster`: a real control plane on loopback, and our components as processes beside it
* :mod:`.agents`: what else a cluster has: DRA drivers, kubelets, a small KubeVirt
* :mod:`.deployed`: virt-dra as users deploy it, on such a cluster
* :mod:`.faults`: failures while VMs start; :mod:`.webhooks`: hostile and slow admission reviews
* :mod:`.play`: ``make cluster``
* :mod:`.libvirt`: libvirt as a witness; :mod:`.upstream`: Kubernetes' own code and API server as witnesses
* :mod:`.allocator`, :mod:`.cel`: problems in a short notation, a plain allocator, answers as the Go witnesses write
  them
* :mod:`.site`: the documentation as a site, and its reference
* :mod:`.allow_list`: the contract type of ``.importlinter``; :mod:`.commit_message`: what a commit's message must have
* :mod:`.audit`, :mod:`.locks`, :mod:`.release`: vulnerabilities, lock files, releases
"""
