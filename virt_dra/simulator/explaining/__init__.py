"""Why a pod of a VM, or a claim, gets no node, and ways out that were tried. Pure.

``subject`` finds the pod and the claims that are asked about; ``state`` is the cluster as far as it matters, of which
:mod:`virt_dra.scheduling.why` judges the nodes; ``ways_out`` changes a copy of the cluster or of the pod until it fits.
``answer`` puts them together.
"""
