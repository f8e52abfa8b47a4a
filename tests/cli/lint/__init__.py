"""``virt-dra lint``."""
