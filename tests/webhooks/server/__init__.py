"""The server over TLS: limits, lifetimes, callers, certificates."""
