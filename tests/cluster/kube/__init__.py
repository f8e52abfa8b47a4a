"""The client of a real API server."""
