"""The embedded cluster: an API server's rules over objects in memory, behind the port.

Must not be imported by controllers; must not do I/O. The clock and randomness come in as arguments (``embedded``
supplies the system's).
"""
