"""The cluster port and its implementations."""
