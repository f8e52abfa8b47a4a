"""One reconcile of one VMI beside KubeVirt: publish its devices, fill in its pods' metadata, make KubeVirt retry
(decision 0012).

Must not import ``standalone``.
"""
