"""``virt-dra run``."""
