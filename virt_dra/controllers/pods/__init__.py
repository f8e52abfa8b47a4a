"""The launcher pod of a VMI: how it is rendered, what it requests, and which one is current (K-4, K-5.1).

Must not know a mode of the operator.
"""
