"""Pool status: the answer to a ResourcePoolStatusRequest, how much of a driver's pools is in use (C-12)."""
