"""Why a pod of a VM, or a claim, gets no node, grouped over the cluster, and ways out that were tried. Pure.

``subject`` finds the pod and the claims that are asked about; ``state`` is the cluster as far as it matters; ``misses``
judges a node, ``groups`` gathers equal judgements, the nearest first; ``ways_out`` changes a copy of the cluster or of
the pod until it fits. ``answer`` puts them together.
"""
