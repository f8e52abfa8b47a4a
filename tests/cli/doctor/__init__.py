"""``virt-dra doctor``."""
