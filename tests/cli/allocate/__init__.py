"""``virt-dra allocate``."""
