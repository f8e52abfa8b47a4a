"""Which devices of a node are published, by VirtDraNodePolicies (D-39 to D-43). Pure.

Must not know: sysfs files, claims, the kubelet.
"""
