"""``virt-dra lint --fix``."""
