"""A real cluster behind the port: an API server asked through the ``kubernetes`` package, which is imported here only.

Must not be imported by controllers.
"""
