"""A node in memory for the driver's tests: a kernel with PCI functions, a disk, locks, and faults at every step.

``python -m devtools.node N [--seed S]`` plays N random histories of claims on it (:mod:`devtools.node.histories`).
"""
