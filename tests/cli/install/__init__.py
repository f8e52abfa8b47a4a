"""``virt-dra install`` and ``virt-dra uninstall``."""
