"""Decides on which guest NUMA cell and PCIe root a passed-through device is placed (K-8).

:mod:`~launcher.placement.host` and :mod:`~launcher.placement.guest` are the facts about the two sides,
:mod:`~launcher.placement.placing` decides. Only :mod:`~launcher.placement.sysfs` reads files.
"""
