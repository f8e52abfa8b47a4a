"""One immutable picture of a cluster, below everything that decides: objects with indexes (``cluster``), ``devices``,
who holds them since when (``usage``), what isn't known (``unknown``), and which ``kinds`` a capability reads. Must not
read, write or wait. Knows no clock, cluster or scheduler."""
