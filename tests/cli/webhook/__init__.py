"""``virt-dra webhook`` and ``webhook-certificates``."""
