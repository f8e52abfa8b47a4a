"""A node in memory for the driver's tests: a kernel with PCI functions, a disk, locks, and faults at every step."""
