"""``virt-dra render-profile``."""
