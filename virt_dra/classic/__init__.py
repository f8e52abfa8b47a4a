"""Classic DRA (KEP-3063, Kubernetes 1.26 to 1.31; C-18): a driver's controller allocates, and negotiates a node with
the scheduler.

Complete in itself: only ``virt_dra.simulator.control_plane`` imports it, a table whose rows make it known to scenarios.
Must not import a clock or randomness, nor be imported by anything else.
"""
