"""One reconcile of one VMI or VM where there is no KubeVirt: pods, phases, devices, run strategies (decision 0012).

Must not import ``beside_kubevirt``.
"""
