"""The scheduler: pending pods to nodes, claims to devices (C-4 to C-6, C-9), as :mod:`virt_dra.scheduling` decides.
`loop` runs it on a cluster, `batch` schedules given pods once, for ``virt-dra run``. Both write in the order of
C-21."""
