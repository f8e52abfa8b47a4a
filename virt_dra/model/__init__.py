"""One immutable picture of a cluster, below everything that decides: objects with indexes (``cluster``), the devices
that pools offer (``devices``), who holds them since when (``usage``), what isn't known (``unknown``), and which kinds a
capability reads (``kinds``).

Must not read, write or wait: files, lists and informers feed it from above. Knows no clock, cluster or scheduler.
"""
