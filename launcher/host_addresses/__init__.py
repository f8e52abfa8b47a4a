"""Addresses of devices on their host, as values: of PCI functions, mediated devices and USB devices."""
