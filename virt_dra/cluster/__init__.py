"""Where objects live: the ports through which controllers see a cluster, and the clusters that implement them.

Must not decide anything about devices; must not be imported by the allocator or by scheduling.
"""
