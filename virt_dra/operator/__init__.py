"""The operator's process: start, stop, leader election, probes, metrics, and the child process that explains.

Must not decide; the only package that imports kopf.
"""
