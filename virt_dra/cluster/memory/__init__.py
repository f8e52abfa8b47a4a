"""The embedded cluster: an API server's rules over objects in memory, behind the port. Must not be imported by
controllers; must not do I/O: clock and randomness are arguments (``embedded`` supplies the system's)."""
