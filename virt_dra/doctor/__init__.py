"""The checks of ``virt-dra doctor``: facts gathered from a cluster, and pure functions from facts to findings.

Must not print or know the command line.
"""
