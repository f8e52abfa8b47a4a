"""``virt-dra extender``."""
