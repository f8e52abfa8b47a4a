"""Expanding a VirtualMachine by its instancetype and preference, as KubeVirt does (K-16).

Must not do I/O: the objects that a VM names come in through a function.
"""
