"""The webhook for launcher pods: mutates a pod for the integration path of its devices, or refuses it (K-11). Pure.

Must not import an I/O library, a clock or the server, and doesn't know which devices a claim will get.
"""
