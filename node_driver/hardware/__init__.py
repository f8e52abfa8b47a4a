"""What a node's hardware is, read of a sysfs tree: ``inventory`` has the types, the other modules read it.

Must not know: which devices are published (``policy``), and must not write.
"""
