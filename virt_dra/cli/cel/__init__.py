"""``virt-dra cel``: the command and its report.

Must not decide: that is :mod:`virt_dra.cel`.
"""
