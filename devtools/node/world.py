"""A node in memory with its driver: what the API server says of claims, what the policy publishes, and as many
instances of the driver as are started."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from devtools.node.disk import Disk, MemoryLocks, ProcessDisk
from devtools.node.faults import Faults, Process, no_faults
from devtools.node.kernel import Kernel, ProcessKernel, ProcessPrograms
from node_driver.claims.carrying_out import ClaimSteps
from node_driver.claims.placement import FilePlacement
from node_driver.claims.repairing import ClaimRepair
from node_driver.claims.service import NodeClaims
from node_driver.devices import PassthroughDevice, PublishedSet
from node_driver.hardware.inventory import Hardware, MediatedDevice, PciFunction
from node_driver.host.changes import Host
from node_driver.host.node_host import NodeHost
from node_driver.last_reading import LastReading
from node_driver.state.checkpoint import Checkpoint, decoded
from node_driver.state.records import DriverState
from node_driver.vf_making import VfMaker
from node_driver.wire.service import ClaimName
from virt_dra.api.meta import ObjectT
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.port import ApiError, Listed, NotFound

DRIVER = "passthrough.virt-dra.io"
NODE = "worker-1"
PLUGIN_FOLDER = f"/var/lib/kubelet/plugins/{DRIVER}"
CDI_FOLDER = "/var/run/cdi"


class ClaimReader:
    """The API server, for claims only. ``error``: what it answers instead."""

    def __init__(self) -> None:
        self.claims: dict[tuple[str, str], ResourceClaim] = {}
        self.error: ApiError | None = None

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        if self.error is not None:
            raise self.error
        claim = self.claims.get((namespace, name))
        if claim is None:
            raise NotFound(f'resourceclaims.resource.k8s.io "{name}" not found')
        assert isinstance(claim, kind)
        return claim

    async def list(
        self, kind: type[ObjectT], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listed[ObjectT]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class DriverInstance:
    process: Process
    host: Host
    checkpoint: Checkpoint
    claims: NodeClaims
    repair: ClaimRepair
    vfs: VfMaker
    reading: LastReading


@dataclass(slots=True)
class Node:
    """``boot_id`` changes at a reboot."""

    kernel: Kernel = field(default_factory=Kernel)
    disk: Disk = field(default_factory=Disk)
    locks: MemoryLocks = field(default_factory=MemoryLocks)
    reader: ClaimReader = field(default_factory=ClaimReader)
    devices: tuple[PassthroughDevice, ...] = ()
    boot_id: str = "boot-1"
    faults: Faults = no_faults
    """What befalls the instances that are started from now on."""
    _decoded: tuple[str, DriverState] = ("", DriverState())

    def published(self) -> PublishedSet:
        return PublishedSet(self.devices)

    def start(self) -> DriverInstance:
        """Another instance of the driver."""
        process = Process(self.faults)
        disk = ProcessDisk(self.disk, process)
        checkpoint = Checkpoint(PLUGIN_FOLDER, disk, self.locks, self.boot_id)
        host = NodeHost(ProcessKernel(self.kernel, process), ProcessPrograms(self.kernel, process))
        work = ClaimSteps(
            host,
            disk,
            FilePlacement(DRIVER, NODE, PLUGIN_FOLDER, CDI_FOLDER),
        )
        claims = NodeClaims(self.reader, self, work, checkpoint, self.locks)
        repair = ClaimRepair(claims, work, checkpoint, self.locks, self.reader)
        vfs = VfMaker(host, checkpoint, self.locks)
        return DriverInstance(process, host, checkpoint, claims, repair, vfs, LastReading(self))

    @property
    def hardware(self) -> Hardware:
        """The PCI functions, as sysfs would show them."""
        parents = {
            vf: (pf, index) for pf in self.kernel.functions.values() for index, vf in enumerate(pf.virtual_functions)
        }
        functions = {}
        for address, function in self.kernel.functions.items():
            pf, index = parents.get(address, (None, None))
            functions[address] = PciFunction(
                address, "8086", "10c9", function.class_code.removeprefix("0x"), driver=function.driver,
                driver_override=function.override, iommu_group=function.group,
                reset_methods=("flr",) if function.resets else (), physical_function=pf.address if pf else "",
                vf_index=index, virtual_functions=tuple(function.virtual_functions), total_vfs=function.total_vfs,
            )  # fmt: skip
        mdevs = {
            uuid: MediatedDevice(uuid, mdev.parent, mdev.type_id, mdev.group)
            for uuid, mdev in self.kernel.mdevs.items()
        }
        return Hardware(functions, mdevs=mdevs)

    async def read(self) -> Hardware:
        """:class:`node_driver.last_reading.HardwareReader`."""
        await asyncio.sleep(0)
        return self.hardware

    async def read_again(self, earlier: Hardware, touched: frozenset[str]) -> Hardware:
        """As :func:`node_driver.hardware.reading.read_again`, of functions and mdevs."""
        await asyncio.sleep(0)
        now = self.hardware
        if now.functions.keys() != earlier.functions.keys() or now.mdevs.keys() != earlier.mdevs.keys():
            return now
        read = {address: now.functions[address] for address in touched & now.functions.keys()}
        return replace(earlier, functions={**earlier.functions, **read})

    def reboot(self) -> None:
        self.kernel.reboot()
        self.disk.contents = {
            path: text for path, text in self.disk.contents.items() if not path.startswith(CDI_FOLDER)
        }
        self.boot_id = f"{self.boot_id}'"

    @property
    def state(self) -> DriverState:
        text = self.disk.contents.get(f"{PLUGIN_FOLDER}/checkpoint.json")
        if text is None:
            return DriverState()
        if self._decoded[0] != text:
            self._decoded = text, decoded(text)
        return self._decoded[1]


def claim(
    name: str,
    *devices: str,
    uid: str = "",
    pods: tuple[str, ...] = ("pod-1",),
    requests: tuple[str, ...] = (),
    admin_access: bool = False,
    parameters: Any = None,
    annotations: dict[str, str] | None = None,
) -> ResourceClaim:
    """An allocated claim in the namespace ``default``, a request a device."""
    results = [
        {
            "request": requests[index] if requests else f"request-{index}",
            "driver": DRIVER,
            "pool": NODE,
            "device": device,
            **({"adminAccess": True} if admin_access else {}),
        }
        for index, device in enumerate(devices)
    ]
    config = (
        [{"source": "FromClaim", "requests": [], "opaque": {"driver": DRIVER, "parameters": parameters}}]
        if parameters is not None
        else []
    )
    return ResourceClaim.from_wire(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": uid or f"uid-{name}",
                "annotations": annotations or {},
            },
            "status": {
                "allocation": {"devices": {"results": results, "config": config}},
                "reservedFor": [{"resource": "pods", "name": pod, "uid": pod} for pod in pods],
            },
        }
    )


def claim_name(claim: ResourceClaim) -> ClaimName:
    return ClaimName(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid)
