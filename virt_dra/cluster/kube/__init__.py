"""A real cluster behind the port: an API server. The ``kubernetes`` package is imported here only, to read kubeconfigs.

Must not be imported by controllers.
"""
