"""The plugin DynamicResources: a pod's claims are allocated and reserved for it (C-4 to C-6).

`claim_cache` and `device_ledger` are what it knows between attempts, `pod_devices` is one pod's claims on node after
node (also for :mod:`virt_dra.scheduling.placement`), `binding_conditions` reads what drivers report, `claim_hints` says
what wakes waiting pods, and `plugin` puts them together.
"""
