"""``virt-dra allocate``: the command, its inputs (files, JSON lines, workloads) and its report.

Must not decide: that is :mod:`virt_dra.allocator`.
"""
