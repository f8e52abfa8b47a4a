"""The keeper: makes the claims that VMs keep, holds their devices for them while they are stopped, and releases them.

A VM is a consumer of its claims, which the claim controller never drops (P-1). A release clears allocation and
consumers in one write, by resourceVersion, and only while no pod is a consumer (P-3). When it is due, and why, says
virt_dra/model/keep_ends.py. Must not decide about devices.
"""
