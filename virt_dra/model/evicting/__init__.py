"""When NoExecute taints evict whoever uses a claim (C-11).

    causes      the moment for one claim, and the taints that are to blame
    published   the taints of slices, which follow slices one at a time
    rules       the DeviceTaintRules that evict, found by device
    of_model    the moment for a claim of a model

Whom this concerns, pods and stopped VMs that keep devices, is decided above.
"""
