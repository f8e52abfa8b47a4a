"""The elements of a domain, declared: each class lists its properties in the order in which they are written."""
