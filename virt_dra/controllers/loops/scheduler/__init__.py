"""The scheduler: pending pods to nodes, claims to devices (C-4 to C-6, C-9). What it decides is
:mod:`virt_dra.scheduling`.

`loop` runs it on a cluster: informers feed `known_cluster`, one scheduling cycle follows the other, and `binding_cycle`
runs beside them. `batch` schedules given pods once, for ``virt-dra run``. Both write with `claim_writes` and
`pod_writes`, in the order of C-21.
"""
