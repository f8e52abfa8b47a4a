"""Which guest NUMA cell and which PCIe root a passed-through device is placed on (K-8).

:mod:`~launcher.placement.host` and :mod:`~launcher.placement.guest` are what is known of the two sides,
:mod:`~launcher.placement.placing` decides. Only :mod:`~launcher.placement.sysfs` reads files.
"""
