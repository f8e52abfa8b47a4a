"""``virt-dra simulate``."""
