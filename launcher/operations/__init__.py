"""Attaching devices to a running domain and detaching them: as a whole, or not at all.

:mod:`~launcher.operations.obstacles` decides what can be attached, :mod:`~launcher.operations.hotplug` does it through
a :class:`~launcher.operations.hotplug.PluggableDomain`, such as :class:`launcher.process.libvirt_conn.Guest`. KubeVirt
does so with SR-IOV NICs only, never with gpus and hostDevices (K-8.10). Must not import libvirt.
"""

from launcher.operations.hotplug import PluggableDomain, attach, detach

__all__ = ["PluggableDomain", "attach", "detach"]
