"""``virt-dra cel``."""
