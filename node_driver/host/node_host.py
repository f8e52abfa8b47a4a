"""The host of this node: each property's own module behind one port."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from node_driver.host.binding import PCI, DriverBinding
from node_driver.host.changes import HostBusy, HostError, HostProperty
from node_driver.host.kernel_files import KernelFiles
from node_driver.host.mediated import MDEVS, MediatedDevices
from node_driver.host.network_functions import NetworkFunctions
from node_driver.host.obstacles import Obstacles, first_of
from node_driver.host.sanitizing import Programs, Sanitizer
from node_driver.host.vgpu import VgpuProfiles
from node_driver.host.virtual_functions import VirtualFunctions

CONTAINER_NODE: Final = "/dev/vfio/vfio"
IOMMUFD_NODE: Final = "/dev/iommu"
SHARED_NODES: Final = frozenset((CONTAINER_NODE, IOMMUFD_NODE))
"""Of all devices: who has one of these open holds none by it."""
NODE_LIMIT: Final = 5.0
"""Seconds in which udev or devtmpfs makes a node (D-44)."""
NODE_PAUSE: Final = 0.02


class PropertyOfHost(Protocol):
    """One kind of change: :meth:`Host.value` and :meth:`Host.set_value` of one property."""

    async def value(self, target: str) -> str: ...

    async def set_value(self, target: str, value: str) -> None: ...


class NodeHost:
    """:class:`node_driver.host.changes.Host`."""

    def __init__(
        self, files: KernelFiles, programs: Programs, hung: Callable[[HostProperty], None] = lambda host_property: None
    ) -> None:
        """``hung`` is called for each change that the kernel didn't finish in time, for the metrics."""
        self._files, self._hung = files, hung
        self._sanitizer = Sanitizer(files, programs)
        self._obstacles = Obstacles(files)
        self._properties: Mapping[HostProperty, PropertyOfHost] = {
            HostProperty.DRIVER: DriverBinding(files),
            HostProperty.MDEV: MediatedDevices(files),
            HostProperty.VGPU_PROFILE: VgpuProfiles(files),
            HostProperty.NETWORK_FUNCTION: NetworkFunctions(files, programs),
            HostProperty.VF_COUNT: VirtualFunctions(files, self._use),
        }

    async def value(self, host_property: HostProperty, target: str) -> str:
        return await self._properties[host_property].value(target)

    async def set_value(self, host_property: HostProperty, target: str, value: str) -> None:
        try:
            await self._properties[host_property].set_value(target, value)
        except HostBusy:
            self._hung(host_property)
            raise

    async def obstacle(self, members: Sequence[str], target_driver: str) -> str:
        return await self._obstacles.first(members, target_driver)

    async def vfio_nodes(self, address: str) -> tuple[str, ...]:
        waited = 0.0
        while not (nodes := self._nodes(address)):
            if waited >= NODE_LIMIT:
                raise HostError(self._why_no_node(address))
            await self._files.sleep(NODE_PAUSE)
            waited += NODE_PAUSE
        return nodes

    async def holders(self, address: str) -> tuple[str, ...]:
        return await self._files.holders(frozenset(self._nodes(address)) - SHARED_NODES)

    async def reset(self, members: Sequence[str]) -> None:
        await self._sanitizer.reset(members)

    async def erase(self, address: str) -> None:
        if obstacle := await self._obstacles.in_use(address):
            raise HostError(obstacle)
        await self._sanitizer.erase(address)

    async def _use(self, address: str) -> str:
        """What a function is in use for, by the node or through VFIO; "" if for nothing."""
        if obstacle := await self._obstacles.in_use(address):
            return obstacle
        holders = await self.holders(address)
        return f"{address} is held by {first_of(holders)}; end the process first" if holders else ""

    def _why_no_node(self, address: str) -> str:
        """Why the device has no node: the first thing that was waited for in vain."""
        group = self._files.link(f"{_folder(address)}/iommu_group")
        limit = f"within {NODE_LIMIT:.0f} s"
        if not group:
            return f"the kernel gave {address} no IOMMU group {limit}; see dmesg for the IOMMU's errors"
        node = f"/dev/vfio/{group}" if self._files.is_character_device(CONTAINER_NODE) else CONTAINER_NODE
        return f"{node} of {address} didn't appear {limit}; is udev running?"

    def _nodes(self, address: str) -> tuple[str, ...]:
        """Both ways to open a device that the kernel may have, each only if it is whole: by its group, and by a node of
        its own through iommufd, which sysfs shows also where there is none (D-30)."""
        folder = _folder(address)
        group = self._files.link(f"{folder}/iommu_group")
        by_group = (CONTAINER_NODE, f"/dev/vfio/{group}") if group else ()
        own = tuple(f"/dev/vfio/devices/{name}" for name in self._files.names(f"{folder}/vfio-dev"))
        ways = (by_group, (*own, IOMMUFD_NODE) if own else ())
        return tuple(node for way in ways if all(map(self._files.is_character_device, way)) for node in way)


def _folder(address: str) -> str:
    """Of a PCI function, or of an mdev, whose names have no colon."""
    return f"{PCI}/devices/{address}" if ":" in address else f"{MDEVS}/{address}"
