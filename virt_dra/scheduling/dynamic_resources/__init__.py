"""The plugin DynamicResources: a pod's claims are allocated and reserved for it (C-4 to C-6). `claim_cache` and
`device_ledger` are what it knows between attempts, `pod_devices` is one pod's claims on node after node."""
