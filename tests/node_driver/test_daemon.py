"""The driver's process: starts, follows, leaves; on the embedded cluster, with a node in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

import pytest

from devtools.node.disk import Disk, ProcessDisk
from devtools.node.faults import Process, no_faults
from devtools.node.world import DRIVER, NODE
from node_driver.daemon import DaemonSettings, DeviceSurvey, drive
from node_driver.devices import DeviceKind, ExcludedDevice, PassthroughDevice, PublishedSet
from node_driver.exposition import exposition
from node_driver.hardware.inventory import Hardware, PciFunction, VfCount
from node_driver.hardware.links import read_links
from node_driver.host.changes import HostBusy, HostProperty
from node_driver.host.file_locks import FileLocks
from node_driver.metrics import DriverMetrics, MeasuredClaims
from node_driver.plain_port import serve_plain
from node_driver.publishing import Publisher
from node_driver.state.checkpoint import Checkpoint
from node_driver.state.records import ClaimRecord, DeviceRecord, Stage
from node_driver.vf_making import VfMaker
from node_driver.wire.service import ClaimName, FailedClaim, Health, ReadyClaim, ReleasedClaim
from virt_dra.api.core_v1 import Node
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.embedded import embedded_cluster

PLUGIN_FOLDER = "/plugin"


class Machine:
    """The node's hardware, and a policy that publishes all its functions."""

    def __init__(self, *addresses: str) -> None:
        self.functions = {address: PciFunction(address, "8086", "10d3", "020000") for address in addresses}
        self.carriers: dict[str, bool] = {}
        self.excluded: tuple[ExcludedDevice, ...] = ()
        self.event = asyncio.Event()
        self.reported: frozenset[str] | None = None
        self.read_anew: list[frozenset[str]] = []

    async def read(self) -> Hardware:
        return Hardware(dict(self.functions))

    async def read_again(self, earlier: Hardware, touched: frozenset[str]) -> Hardware:
        self.read_anew.append(touched)
        return await self.read()

    async def links(self) -> Mapping[str, bool]:
        return dict(self.carriers)

    def published(self, hardware: Hardware) -> PublishedSet:
        return PublishedSet(tuple(device(address) for address in sorted(hardware.functions)), self.excluded)

    async def changed(self) -> frozenset[str] | None:
        await self.event.wait()
        self.event.clear()
        return self.reported

    def plug(self, address: str) -> None:
        self.functions[address] = PciFunction(address, "8086", "10d3", "020000")
        self.event.set()

    def unplug(self, address: str) -> None:
        del self.functions[address]
        self.event.set()


class NoPolicyChanges:
    def __init__(self, machine: Machine) -> None:
        self.published = machine.published

    def wanted_vfs(self, hardware: Hardware) -> Mapping[str, VfCount]:
        return {}

    async def changed(self) -> None:
        await asyncio.Event().wait()


class HostWithObstacles:
    """``obstacles``: by address."""

    def __init__(self) -> None:
        self.obstacles: dict[str, str] = {}

    async def value(self, host_property: HostProperty, target: str) -> str:
        return ""

    async def set_value(self, host_property: HostProperty, target: str, value: str) -> None:
        raise HostBusy("the kernel hasn't finished")

    async def obstacle(self, members: Sequence[str], target_driver: str) -> str:
        return self.obstacles.get(members[0], "")

    async def vfio_nodes(self, address: str) -> tuple[str, ...]:
        return ()

    async def holders(self, address: str) -> tuple[str, ...]:
        return ()

    async def reset(self, members: Sequence[str]) -> None: ...
    async def erase(self, address: str) -> None: ...


class Diary(list[str]):
    """What happened, in order. It is the repair and the server, too."""

    async def at_start(self) -> None:
        self.append("repaired")

    async def release_orphans(self, now: float) -> None:
        self.append("orphans")

    async def erase_unclean(self) -> None:
        """Nothing waits for it."""

    async def __aenter__(self) -> None:
        self.append("serving")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.append("closed")


def device(address: str) -> PassthroughDevice:
    return PassthroughDevice(f"pci-{address[5:7]}", DeviceKind.VFIO, address, (address,))


def claim_of(address: str) -> ClaimRecord:
    record = DeviceRecord(device(address).name, DeviceKind.VFIO, "r", address, members=(address,))
    return ClaimRecord("uid-1", "ns", "claim", Stage.DONE, devices=(record,))


@dataclass
class World:
    machine: Machine
    locks: FileLocks
    cluster: MemoryCluster = field(default_factory=embedded_cluster)
    disk: Disk = field(default_factory=Disk)
    host: HostWithObstacles = field(default_factory=HostWithObstacles)
    diary: Diary = field(default_factory=Diary)
    metrics: DriverMetrics = field(default_factory=DriverMetrics)

    def __post_init__(self) -> None:
        self.checkpoint = Checkpoint(
            PLUGIN_FOLDER,
            ProcessDisk(self.disk, Process(no_faults)),
            self.locks,
            "boot",
            self.metrics.checkpoint_written,
        )

    async def claimed(self, *claims: ClaimRecord) -> None:
        await self.checkpoint.update(
            lambda state: (replace(state, claims={record.uid: record for record in claims}), None)
        )

    @asynccontextmanager
    async def running(self, machine: Machine | None = None) -> AsyncIterator[DeviceSurvey]:
        """An instance of the driver, which is stopped at the end."""
        machine, stop = machine or self.machine, asyncio.Event()
        publisher = Publisher(self.cluster, DRIVER, NODE, observer=self.metrics, settling=0.01, chance=lambda: 0.0)
        devices = self.survey(machine, publisher)
        task = asyncio.create_task(drive(devices, self.diary, publisher, self.diary, self.locks, stop))
        try:
            yield devices
        finally:
            stop.set()
            await asyncio.wait_for(task, 60)

    def survey(self, machine: Machine, publisher: Publisher, rescan: float = 0.2) -> DeviceSurvey:
        vfs = VfMaker(self.host, self.checkpoint, self.locks)
        return DeviceSurvey(
            DaemonSettings(DRIVER, NODE, rescan=rescan, pause=0.01), machine, NoPolicyChanges(machine), self.host, vfs,
            self.checkpoint, publisher, self.metrics, clock=lambda: 1000.0,
        )  # fmt: skip

    async def slices(self) -> dict[str, list[str]]:
        """The names of devices with their taints, below the driver's domain."""
        listed = (await self.cluster.list(ResourceSlice)).items
        return {
            entry.name: [f"{taint.key.removeprefix(f'{DRIVER}/')}:{taint.effect}" for taint in entry.taints]
            for obj in listed
            for entry in obj.spec.devices
        }

    async def until(self, wanted: dict[str, list[str]]) -> None:
        for _ in range(300):
            if await self.slices() == wanted:
                return
            await asyncio.sleep(0.01)
        assert await self.slices() == wanted

    def counted(self) -> dict[str, float]:
        """The metrics that aren't 0, without what measures time."""
        lines = (line for line in exposition(self.metrics.all).decode().splitlines() if not line.startswith("#"))
        samples = ((name, float(value)) for name, _, value in (line.rpartition(" ") for line in lines))
        return {
            name: value
            for name, value in samples
            if value and not any(part in name for part in ("_bucket", "_seconds_sum"))
        }

    async def until_counted(self, name: str) -> None:
        for _ in range(300):
            if name in self.counted():
                return
            await asyncio.sleep(0.01)
        assert name in self.counted()


async def world(tmp_path: Path, *addresses: str) -> World:
    made = World(Machine(*addresses), FileLocks(str(tmp_path)))
    await made.cluster.create(Node(metadata=ObjectMeta(name=NODE)))
    return made


ONE, TWO = "0000:01:00.0", "0000:02:00.0"


async def test_it_repairs_looks_publishes_and_serves_and_taints_before_it_goes(tmp_path: Path) -> None:
    here = await world(tmp_path, ONE)
    async with here.running():
        await here.until({"pci-01": []})
        assert here.diary == ["repaired", "serving"]
    assert here.diary == ["repaired", "serving", "closed"]
    assert await here.slices() == {"pci-01": ["driver-away:NoSchedule"]}
    async with here.running():
        await here.until({"pci-01": []})


async def test_devices_that_come_and_go_are_published(tmp_path: Path) -> None:
    here = await world(tmp_path, ONE)
    async with here.running():
        await here.until({"pci-01": []})
        here.machine.plug(TWO)
        await here.until({"pci-01": [], "pci-02": []})
        here.machine.unplug(ONE)
        await here.until({"pci-02": []})


async def test_a_device_in_use_that_vanishes_stays_published_until_it_is_released(tmp_path: Path) -> None:
    here = await world(tmp_path, ONE, TWO)
    here.machine.functions[ONE] = replace(here.machine.functions[ONE], driver="vfio-pci")
    await here.claimed(claim_of(ONE))
    async with here.running() as devices:
        await here.until({"pci-01": [], "pci-02": []})
        healthy = {report.device: report.health for report in devices.reports()}
        assert healthy == {"pci-01": Health.HEALTHY, "pci-02": Health.HEALTHY}
        changed = asyncio.create_task(devices.changed())
        here.machine.unplug(ONE)
        await here.until({"pci-02": [], "pci-01": ["gone:NoExecute"]})
        await asyncio.wait_for(changed, 60)
        assert [(report.device, report.health, report.message) for report in devices.reports()] == [
            ("pci-02", Health.HEALTHY, ""),
            ("pci-01", Health.UNHEALTHY, f"{ONE} isn't on its bus any more"),
        ]
        await here.claimed()
        devices.wake()
        await here.until({"pci-02": []})


async def test_what_claims_have_changed_and_the_kernel_reports_is_read_anew(tmp_path: Path) -> None:
    here = await world(tmp_path, ONE, TWO)
    machine = here.machine
    devices = here.survey(machine, Publisher(here.cluster, DRIVER, NODE), rescan=3600.0)
    await devices.look()
    await devices.look()
    await here.claimed(claim_of(ONE))
    await devices.look()
    await devices.look()
    await here.claimed()
    await devices.look()
    assert machine.read_anew == [frozenset(), {ONE}, frozenset(), {ONE}]

    following = asyncio.create_task(devices.follow())
    machine.reported = frozenset({TWO})
    machine.event.set()
    async with asyncio.timeout(60):
        while {TWO} not in machine.read_anew:
            await asyncio.sleep(0.01)
    following.cancel()


@pytest.mark.parametrize(("rescan", "lost"), [(3600.0, True), (0.05, False)], ids=["reports lost", "rescan due"])
async def test_everything_is_read_once_a_rescan_is_due_or_reports_were_lost(
    rescan: float, lost: bool, tmp_path: Path
) -> None:
    class UnreportedMachine(Machine):
        """On which nothing was reported of what changed."""

        async def read_again(self, earlier: Hardware, touched: frozenset[str]) -> Hardware:
            return earlier

    here, machine = await world(tmp_path), UnreportedMachine(ONE)
    devices = here.survey(machine, Publisher(here.cluster, DRIVER, NODE), rescan=rescan)
    await devices.look()
    machine.functions[TWO] = replace(machine.functions[ONE], address=TWO)
    await devices.look()
    assert [entry.address for entry in devices.published().devices] == [ONE]
    following = asyncio.create_task(devices.follow())
    if lost:
        machine.event.set()
    async with asyncio.timeout(60):
        while len(devices.published().devices) < 2:
            await asyncio.sleep(0.01)
    following.cancel()


async def test_a_claim_that_is_prepared_while_its_node_is_read_has_no_wrong_device(tmp_path: Path) -> None:
    class BusyMachine(Machine):
        """On which a claim is prepared just after sysfs was read."""

        async def read(self) -> Hardware:
            await here.claimed(claim_of(ONE))
            return await super().read()

    here = await world(tmp_path)
    devices = here.survey(BusyMachine(ONE), Publisher(here.cluster, DRIVER, NODE))
    await devices.look()
    assert [report.message for report in devices.reports()] == [""]
    await devices.look()
    assert [report.message for report in devices.reports()] == [f"{ONE} is bound to no driver instead of vfio-pci"]


async def test_what_keeps_a_device_from_being_prepared_is_seen_by_itself(tmp_path: Path) -> None:
    here = await world(tmp_path, ONE, TWO)
    async with here.running():
        await here.until({"pci-01": [], "pci-02": []})
        here.host.obstacles[ONE] = "eth0 is up"
        await here.until({"pci-01": ["obstructed:NoSchedule"], "pci-02": []})
        here.host.obstacles.clear()
        await here.until({"pci-01": [], "pci-02": []})


async def test_obstacles_are_looked_for_once_the_devices_are_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = await world(tmp_path, ONE)
    published: list[dict[str, list[str]]] = []

    async def obstacle(members: Sequence[str], target_driver: str) -> str:
        published.append(await here.slices())
        return "eth0 is up"

    monkeypatch.setattr(here.host, "obstacle", obstacle)
    async with here.running():
        await here.until({"pci-01": ["obstructed:NoSchedule"]})
    assert published[0] == {"pci-01": []}


async def test_of_two_instances_one_publishes_and_the_next_takes_over_without_taints(tmp_path: Path) -> None:
    here = await world(tmp_path, ONE)
    taints_seen: list[dict[str, list[str]]] = []
    newer = Machine(TWO)
    old = here.running()
    await old.__aenter__()
    await here.until({"pci-01": []})
    async with here.running(newer):
        await asyncio.sleep(0.3)
        assert await here.slices() == {"pci-01": []}
        await old.__aexit__(None, None, None)
        taints_seen.append(await here.slices())
        await here.until({"pci-02": []})
    assert taints_seen in ([{"pci-01": []}], [{"pci-02": []}])
    assert await here.slices() == {"pci-02": ["driver-away:NoSchedule"]}


async def test_without_a_checkpoint_nothing_can_be_given_out(tmp_path: Path) -> None:
    here = await world(tmp_path, ONE)
    here.disk.contents[f"{PLUGIN_FOLDER}/checkpoint.json"] = "{"
    async with here.running() as devices:
        await here.until({"pci-01": ["stuck:NoSchedule"]})
        (report,) = devices.reports()
        assert report.health is Health.UNHEALTHY
        assert "checkpoint was damaged" in report.message


async def test_it_serves_while_the_api_server_is_away(tmp_path: Path) -> None:
    here = World(Machine(ONE), FileLocks(str(tmp_path)))  # its Node isn't there: nothing can be published
    async with here.running() as devices:
        await asyncio.sleep(0.1)
        assert here.diary == ["repaired", "serving"]
        assert [entry.name for entry in devices.published().devices] == ["pci-01"]
        await here.cluster.create(Node(metadata=ObjectMeta(name=NODE)))
        await here.until({"pci-01": []})


# --- metrics --------------------------------------------------------------------------------------------------------


class AnsweringClaims:
    async def prepare(self, name: ClaimName) -> ReadyClaim | FailedClaim:
        return FailedClaim("no") if name.name == "bad" else ReadyClaim(())

    async def unprepare(self, name: ClaimName) -> ReleasedClaim | FailedClaim:
        return ReleasedClaim()


async def test_metrics_count_devices_calls_and_hung_writes(tmp_path: Path) -> None:
    """D-66 says which there are."""
    here = await world(tmp_path, ONE, TWO)
    here.machine.carriers[TWO] = False
    here.machine.excluded = (ExcludedDevice("0000:00:1f.2", "root-disk", "it has the root disk"),)
    here.machine.functions[ONE] = replace(here.machine.functions[ONE], driver="vfio-pci")
    await here.claimed(claim_of(ONE))
    calls = 0

    def after() -> None:
        nonlocal calls
        calls += 1

    claims = MeasuredClaims(AnsweringClaims(), here.metrics, after)
    async with here.running():
        await here.until({"pci-01": [], "pci-02": ["link-down:NoExecute"]})
        await claims.prepare(ClaimName("ns", "good", "1"))
        await claims.prepare(ClaimName("ns", "bad", "2"))
        await claims.unprepare(ClaimName("ns", "good", "1"))
        here.metrics.hung(HostProperty.DRIVER)
        # A slice is seen before the answer to its write, after which the write is counted.
        await here.until_counted('virt_dra_driver_slice_writes_total{verb="create"}')
        counted = here.counted()
    assert counted == {
        'virt_dra_driver_prepare_seconds_count{result="ready"}': 1,
        'virt_dra_driver_prepare_seconds_count{result="failed"}': 1,
        'virt_dra_driver_unprepare_seconds_count{result="released"}': 1,
        'virt_dra_driver_devices{kind="vfio",state="free"}': 1,
        'virt_dra_driver_devices{kind="vfio",state="claimed"}': 1,
        'virt_dra_driver_tainted_devices{reason="link-down"}': 1,
        "virt_dra_driver_excluded_devices": 1,
        'virt_dra_driver_hung_writes_total{property="driver"}': 1,
        "virt_dra_driver_checkpoint_writes_total": 1,
        'virt_dra_driver_slice_writes_total{verb="create"}': 1,
    }
    assert calls == 3


async def test_the_plain_port_says_whether_it_runs(unused_tcp_port: int) -> None:
    metrics, ready = DriverMetrics(), False
    serving = asyncio.create_task(serve_plain("127.0.0.1", unused_tcp_port, metrics.all, lambda: ready))

    async def status(path: str) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", unused_tcp_port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = (await reader.read()).decode()
        writer.close()
        return answer

    await asyncio.sleep(0.1)
    assert (await status("/healthz")).startswith("HTTP/1.0 200 OK\r\n")
    assert (await status("/readyz")).startswith("HTTP/1.0 503")
    ready = True
    assert (await status("/readyz")).startswith("HTTP/1.0 200")
    assert "virt_dra_driver_checkpoint_writes_total 0.0" in await status("/metrics")
    assert (await status("/" + "a" * 9000)) == ""
    assert (await status("/other")).startswith("HTTP/1.0 404")
    serving.cancel()


def test_links_are_read_of_sysfs(tmp_path: Path) -> None:
    for interface, address, carrier in (
        ("eth0", ONE, "1"), ("eth1", TWO, "0"), ("down", "0000:03:00.0", None), ("veth", "virtual", "1"),
    ):  # fmt: skip
        folder = tmp_path / "class" / "net" / interface
        folder.mkdir(parents=True)
        (folder / "device").symlink_to(f"../../../{address}")
        if carrier is not None:
            (folder / "carrier").write_text(f"{carrier}\n")
    assert read_links(str(tmp_path)) == {ONE: True, TWO: False}
    assert read_links(str(tmp_path / "nothing")) == {}
