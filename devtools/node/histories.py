"""Random histories of claims on a node in memory: prepare, unprepare, crash, reboot, hotplug, two instances of the
driver at once, and faults at every write of sysfs, checkpoint and files.

The scheduler is hostile: claims may want what others have. Whatever happens, no device is given to two claims, and no
group to two pods; a device isn't taken away from a claim or a running VM, by making VFs neither; nobody finds a
predecessor's data; what the node needs, or others have made, is never touched. Once all is calm, every claim is
released, and nothing of it is left on the node, a claim gets any device. What an instance reads again after claims is
what there is, though it reads what they touched only.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from devtools.node.faults import Crash, Fault, no_faults
from devtools.node.kernel import Function, Link
from devtools.node.world import CDI_FOLDER, DRIVER, PLUGIN_FOLDER, DriverInstance, Node, claim, claim_name
from node_driver.devices import DeviceKind, PassthroughDevice, Sanitizing
from node_driver.hardware.inventory import VfCount
from node_driver.state.checkpoint import CheckpointError
from node_driver.state.records import ClaimRecord, Stage
from node_driver.wire.service import ReadyClaim, ReleasedClaim
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.simulator.virtual_time import run_virtually

NIC: Final = "0000:01:00.0"
NVME: Final = "0000:02:00.0"
BRIDGE: Final = "0000:00:1c.0"
PAIR: Final = ("0000:03:00.0", "0000:03:00.1")
CARD: Final = "0000:04:00.0"
VGPU: Final = "0000:05:00.4"
BESIDE_ROUTE: Final = "0000:06:00.0"
ROUTE: Final = "0000:06:00.1"
VF: Final = "0000:07:00.1"
PF: Final = "0000:07:00.0"
PORT: Final = "0000:08:00.0"
PORT_VFS: Final = ("0000:08:00.1", "0000:08:00.2", "0000:08:00.3")
NETWORK: Final = {"network": {"vlan": 100, "mac": "02:00:00:00:00:07"}}
PARAMETERS: Final = {"apiVersion": "virt-dra.io/v1alpha1", "kind": "PassthroughConfig"}
SETTINGS: Final = {"vlan": 0, "vlanQos": 0, "mac": "02:aa:00:00:00:01"}
ROOT_DISK: Final = "0000:00:02.0"
PROTECTED: Final = frozenset((ROUTE, ROOT_DISK, BRIDGE, PF))
PROFILES: Final = ("558", "559")
NO_PROFILE: Final = "0"

WEAK: Final = ("", "", "/reset", "/unbind", "/drivers_probe", "/driver_override", "/remove", "/create", "vgpu", "nvme",
               CDI_FOLDER, "checkpoint.json")  # fmt: skip
STEPS: Final = 16
ATTEMPTS: Final = 4
"""Calls that a kubelet needs at most once all is calm: one goes on with what was stuck."""
ORPHANED: Final = 700.0
LIMIT: Final = 3600.0
"""Seconds of the loop's time that a history may take: what waits in it, waits some seconds."""


def _functions() -> list[Function]:
    return [
        Function(NIC, 12, "e1000e"),
        Function(NVME, 13, "nvme", "0x010802", {"nvme": {"nvme0": {"nvme0n1": {}}}}),
        Function(BRIDGE, 14, "pcieport", "0x060400"),
        Function(PAIR[0], 14, "e1000e"),
        Function(PAIR[1], 14),
        Function(CARD, 15, "nvidia", "0x030200"),
        Function(VGPU, 16, "nvidia", "0x030200"),
        Function(BESIDE_ROUTE, 17, "e1000e"),
        Function(ROUTE, 17, "e1000e"),
        Function(PF, 18, "e1000e", files={"net": {"enp7": {}}, "virtfn0": Link(VF)}),
        Function(VF, 19, "e1000e", files={"physfn": Link(PF)}),
        Function(PORT, 20, "e1000e", total_vfs=len(PORT_VFS)),
        Function(ROOT_DISK, 2, "nvme", "0x010802"),
    ]


_VFIO = DeviceKind.VFIO
DEVICES: Final = (
    PassthroughDevice("nic", _VFIO, NIC, (NIC,)),
    PassthroughDevice("root-disk", _VFIO, ROOT_DISK, (ROOT_DISK,)),  # it was published before it was mounted
    PassthroughDevice("nvme", _VFIO, NVME, (NVME,), sanitizing=Sanitizing.ERASE),
    PassthroughDevice("first", _VFIO, PAIR[0], PAIR, exclusive=("group-a",)),
    PassthroughDevice("second", _VFIO, PAIR[1], PAIR, exclusive=("group-a",)),
    PassthroughDevice("beside-route", _VFIO, BESIDE_ROUTE, (BESIDE_ROUTE,)),
    PassthroughDevice("card", _VFIO, CARD, (CARD,)),
    PassthroughDevice("vf", DeviceKind.SRIOV, VF, (VF,)),
    PassthroughDevice("port", _VFIO, PORT, (PORT,)),
    *(PassthroughDevice(f"port-vf-{index}", DeviceKind.SRIOV, vf, (vf,)) for index, vf in enumerate(PORT_VFS)),
    PassthroughDevice("small-0", DeviceKind.MDEV, CARD, type_id="small"),
    PassthroughDevice("small-1", DeviceKind.MDEV, CARD, type_id="small"),
    PassthroughDevice("large-0", DeviceKind.MDEV, CARD, type_id="large"),
    PassthroughDevice("profile-558", DeviceKind.VGPU, VGPU, type_id="558"),
    PassthroughDevice("profile-559", DeviceKind.VGPU, VGPU, type_id="559"),
)
NEVER: Final = frozenset({"root-disk", "beside-route"})
"""Which of them no claim gets."""
BY_NAME: Final = {device.name: device for device in DEVICES}


class Broken(AssertionError):
    """A promise that wasn't kept, with the history so far."""


@dataclass(slots=True)
class History:
    """One history.

    ``every_claim``: also those that were replaced under their names. ``wanted``: the devices that claims of the
    ``pods`` may want. ``heard``: how many of the kernel's reports have
    reached each instance. ``given``: UID -> the record of a claim whose answer was ready and that wasn't released
    since; ``open_groups``: UID -> nodes that its VM has open. ``trouble``: how likely a write fails; ``weak``: in the
    names of those that fail often.
    """

    random: random.Random
    node: Node = field(default_factory=Node)
    claims: list[ResourceClaim] = field(default_factory=list)
    every_claim: list[ResourceClaim] = field(default_factory=list)
    wanted: list[str] = field(default_factory=list)
    pods: tuple[str, ...] = ()
    instances: list[DriverInstance] = field(default_factory=list)
    heard: list[int] = field(default_factory=lambda: [0, 0])
    given: dict[str, ClaimRecord] = field(default_factory=dict)
    open_groups: dict[str, list[str]] = field(default_factory=dict)
    pulled: dict[str, Function] = field(default_factory=dict)
    foreign_profile: str = NO_PROFILE
    """What somebody else has set on the VF with vGPU profiles."""
    story: list[str] = field(default_factory=list)
    trouble: float = 0.0
    weak: str = ""
    stuck_step: str = ""
    """The write that gets stuck next."""
    faults: list[tuple[Fault, str]] = field(default_factory=list)
    now: float = 0.0
    calls: int = 0
    """How many go on."""

    async def play(self) -> None:
        """Raises :class:`Broken`."""
        self._set_up()
        actions: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self._prepare, 6),
            (self._unprepare, 4),
            (self._both, 3),
            (self._run_vm, 4),
            (self._stop_vm, 3),
            (self._take_over, 4),
            (self._restart, 2),
            (self._reboot, 1),
            (self._hotplug, 3),
            (self._settle, 2),
            (self._forget, 3),
            (self._succeed, 2),
            (self._lose_files, 1),
            (self._use_otherwise, 1),
            (self._erase, 1),
            (self._make_vfs, 2),
            (lambda: self._look(self.random.randrange(2)), 4),
        ]
        chosen = self.random.choices([action for action, _ in actions], [weight for _, weight in actions], k=STEPS)
        for action in chosen:
            await action()
            self._check()
        await self._end()

    def _set_up(self) -> None:
        kernel = self.node.kernel
        kernel.drivers.add("nvidia")
        kernel.mdev_types = {CARD: {"small": 2, "large": 1}}
        kernel.profiles = {VGPU: "0"}
        kernel.vf_settings = {VF: dict(SETTINGS)}
        for function in _functions():
            kernel.add(function)
        kernel.needed = {ROOT_DISK: "has the disk nvme0n1, which is mounted at /"}
        self.node.devices = DEVICES
        self.trouble = self.random.choice((0.0, 0.0, 0.02, 0.06, 0.2))
        self.weak = self.random.choice(WEAK)
        self.node.faults = self._fault
        self.wanted = self.random.sample(sorted(BY_NAME), self.random.choice((3, 5, len(BY_NAME))))
        self.pods = ("pod-1", "pod-2", "pod-3")[: self.random.choice((1, 2, 3, 3))]
        if self.random.random() < 0.3:
            ports = ["port", *(device.name for device in DEVICES if device.address in PORT_VFS)]
            self.wanted = self.random.choice((["first", "second", "nic"], ["first", "second", "nic"], ports))
        for index in range(5):
            self.claims.append(self._new_claim(f"c{index}", f"uid-c{index}"))
        self.every_claim = list(self.claims)
        self.node.reader.claims = {("default", claim.metadata.name): claim for claim in self.claims}
        self.instances = [self.node.start(), self.node.start()]

    def _new_claim(self, name: str, uid: str) -> ResourceClaim:
        devices = self.random.sample(self.wanted, self.random.choice((1, 1, 2)))
        pod = self.random.choice(self.pods)
        parameters = {**PARAMETERS, **NETWORK} if devices == ["vf"] and self.random.random() < 0.8 else None
        self._note(f"{uid}: {devices} for {pod}")
        return claim(name, *devices, uid=uid, pods=(pod,), parameters=parameters)

    def _fault(self, step: str) -> Fault:
        if self.stuck_step and self.stuck_step in step:
            self.stuck_step, fault = "", Fault.STUCK
        elif self.weak and self.weak in step and self.trouble and self.random.random() < 0.4:
            fault = Fault.REFUSED
        elif self.random.random() < self.trouble:
            fault = self.random.choice((Fault.REFUSED, Fault.STUCK, Fault.CRASH_BEFORE, Fault.CRASH_AFTER))
        else:
            return Fault.NONE
        self._note(f"  {fault.value}: {step}")
        self.faults.append((fault, step))
        return fault

    # --- what happens ---

    async def _prepare(self) -> None:
        claims = self._some_claims()
        index, earlier, faults = self.random.randrange(2), self.node.state.claims, len(self.faults)
        failures = await self._call(index, "prepare", claims)
        self._check_rolled_back(failures, earlier, self.faults[faults:])

    async def _unprepare(self) -> None:
        claims = self.random.sample(self.every_claim, self.random.choice((1, 1, 2)))
        await self._call(self.random.randrange(2), "unprepare", claims)

    async def _both(self) -> None:
        """Both instances at once, for different claims: the kubelet asks for one claim once at a time."""
        shuffled = self.random.sample(self.claims, 4)
        calls = [self.random.choice(("prepare", "prepare", "unprepare")) for _ in range(2)]
        await asyncio.gather(
            self._call(0, calls[0], shuffled[:2]), self._call(1, calls[1], shuffled[2:]), self._look(0), self._look(1)
        )

    def _some_claims(self) -> list[ResourceClaim]:
        return self.random.sample(self.claims, self.random.choice((1, 1, 2)))

    async def _call(self, index: int, call: str, claims: list[ResourceClaim]) -> Mapping[str, str]:
        """Why claims couldn't be prepared or released, by UID; nothing after a crash."""
        instance = self.instances[index]
        names = [claim_name(claim) for claim in claims]
        self._note(f"{call} {[name.name for name in names]} at {index}")
        if call == "unprepare":  # the kubelet has stopped the containers, or lost them
            for name in names:
                self.given.pop(name.uid, None) if name.uid not in self.open_groups else None
        before = dict(self.given)
        self.calls += 1
        try:
            work = instance.claims.prepare if call == "prepare" else instance.claims.unprepare
            answers = await asyncio.gather(*map(work, names))
        except Crash:
            self.calls -= 1
            await self._replace(index)
            return {}
        self.calls -= 1
        failures: dict[str, str] = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, ReadyClaim):
                self._check_ready(name.uid)
                self.given[name.uid] = self.node.state.claims[name.uid]
            elif isinstance(answer, ReleasedClaim):
                self.given.pop(name.uid, None)
                if name.uid in self.open_groups and before:
                    raise self._broken(f"{name.uid} was released while its VM runs")
            else:
                failures[name.uid] = answer.message
                self._note(f"  {name.name}: {answer.message}")
        return failures

    async def _run_vm(self) -> None:
        """A VM of a given claim opens its devices, and leaves its data in them."""
        idle = [uid for uid in self.given if uid not in self.open_groups]
        if not idle:
            return
        uid = self.random.choice(idle)
        document = self.node.disk.contents.get(f"{CDI_FOLDER}/{DRIVER}_{uid}.json", "")
        kernel = self.node.kernel
        nodes = [
            f"/dev/vfio/{function.group}"
            for function in kernel.functions.values()
            if any(
                function.address in device.members or function.address == device.address
                for device in self.given[uid].devices
            )
        ]
        nodes += [
            f"/dev/vfio/{mdev.group}"
            for mdev_uuid, mdev in kernel.mdevs.items()
            if any(mdev_uuid == device.address for device in self.given[uid].devices)
        ]
        nodes = [node for node in dict.fromkeys(nodes) if f'"{node}"' in document and node not in kernel.open_nodes]
        if not nodes:
            return
        self._note(f"the VM of {uid} opens {nodes}")
        self.open_groups[uid] = nodes
        kernel.open_nodes |= dict.fromkeys(nodes, f"qemu ({uid})")
        for device in self.given[uid].devices:
            for member in device.members:
                if member in kernel.functions and f"/dev/vfio/{kernel.functions[member].group}" in nodes:
                    kernel.functions[member].tenant = self.given[uid].pods[0]

    async def _stop_vm(self) -> None:
        if self.open_groups:
            self._stop(self.random.choice(sorted(self.open_groups)))

    def _stop(self, uid: str) -> None:
        self._note(f"the VM of {uid} ends")
        for node in self.open_groups.pop(uid):
            self.node.kernel.open_nodes.pop(node, None)

    async def _take_over(self) -> None:
        """A VM ends, its claim is released, and another claim gets one of its devices."""
        if not self.open_groups:
            return
        uid = self.random.choice(sorted(self.open_groups))
        addresses = {device.address for device in self.given[uid].devices}
        self._stop(uid)
        await self._call(self.random.randrange(2), "unprepare", [_by_uid(self.every_claim, uid)])
        heirs = [
            other
            for other in self.claims
            if other.metadata.uid != uid and addresses & {BY_NAME[name].address for name in _devices(other)}
        ]
        if heirs:
            await self._call(self.random.randrange(2), "prepare", [self.random.choice(heirs)])

    async def _restart(self) -> None:
        await self._replace(self.random.randrange(2))

    async def _replace(self, index: int) -> None:
        """An instance is killed, and another starts in its place."""
        self.instances[index].process.crashed = True
        for _ in range(ATTEMPTS):
            self._note(f"{index} starts")
            self._start(index)
            faults, is_free = len(self.faults), not self.calls and not self.open_groups
            try:
                await self.instances[index].repair.at_start()
            except Crash:
                continue
            except CheckpointError as error:
                self._note(f"  {error}")
            if is_free and not self.calls and len(self.faults) == faults and not self.node.kernel.pending:
                self._check_nothing_is_begun()
            break
        else:
            self._start(index)
        self._check_leftovers()

    def _start(self, index: int) -> None:
        self.instances[index] = self.node.start()
        self.heard[index] = len(self.node.kernel.uevents)

    async def _reboot(self) -> None:
        self._note("reboot")
        for instance in self.instances:
            instance.process.crashed = True
        self.given.clear()
        self.open_groups.clear()
        self.node.reboot()
        self.node.kernel.vf_settings[VF] = dict(SETTINGS)
        self.foreign_profile = NO_PROFILE
        for function in self.node.kernel.functions.values():
            function.group += 20
        if self.random.random() < 0.5 and NIC in self.node.kernel.functions:
            self._note(f"{NIC} has another driver")
            nic = self.node.kernel.functions[NIC]
            nic.natural = "" if nic.natural else "e1000e"
            nic.driver = nic.natural
        for index in range(2):
            await self._replace(index)

    async def _hotplug(self) -> None:
        """A function is pulled out, or put in again, in another group."""
        kernel = self.node.kernel
        if self.pulled and self.random.random() < 0.5:
            address = self.random.choice(sorted(self.pulled))
            old = self.pulled.pop(address)
            self._note(f"{address} is plugged in")
            kernel.add(Function(address, old.group + 40, old.natural, old.class_code, old.files, tenant=old.tenant))
            return
        address = self.random.choice([NIC, NVME])
        if address in kernel.functions:
            self._note(f"{address} is pulled out")
            self.pulled[address] = kernel.functions[address]
            for uid, record in list(self.given.items()):
                if any(address in device.members for device in record.devices):
                    del self.given[uid]
                    if uid in self.open_groups:
                        self._stop(uid)
            kernel.remove(address)

    async def _settle(self) -> None:
        self._note("what was stuck goes through")
        self.node.kernel.settle()

    async def _forget(self) -> None:
        """A claim is deleted by force, and found to be orphaned, or another one is made under its name before."""
        gone = self.random.choice(self.claims)
        self._note(f"{gone.metadata.name} is deleted")
        if self.random.random() < 0.3:
            self._replace_claim(gone)
            return
        self.node.reader.claims.pop(("default", gone.metadata.name), None)
        before = {uid for uid, record in self.node.state.claims.items() if record.stage is Stage.DONE}
        await self._guarded(0, lambda instance: instance.repair.release_orphans(self.now))
        if gone.metadata.uid in before - self.node.state.claims.keys():
            raise self._broken(f"{gone.metadata.uid} was released as soon as it was gone")
        self.now += ORPHANED
        await self._guarded(0, lambda instance: instance.repair.release_orphans(self.now))
        if self.random.random() < 0.5:
            self._replace_claim(gone)
        else:
            self.node.reader.claims["default", gone.metadata.name] = gone
            await self._guarded(0, lambda instance: instance.repair.release_orphans(self.now))  # a minute later
        kept = {uid for uid, record in self.node.state.claims.items() if record.stage is Stage.DONE}
        there = {claim.metadata.uid for claim in self.node.reader.claims.values()} - {gone.metadata.uid}
        for uid in set(self.given) - kept:
            if uid in self.open_groups:
                raise self._broken(f"{uid} was released as an orphan while its VM runs")
            if uid in there:
                raise self._broken(f"{uid} was released as an orphan, though it is there")
            del self.given[uid]

    async def _succeed(self) -> None:
        """A claim that the node has is replaced under its name, the other one is prepared, and then the first one
        released: their metadata have the same place."""
        had = [claim for claim in self.claims if claim.metadata.uid in self.given]
        if had:
            gone = self.random.choice(had)
            self._note(f"{gone.metadata.name} is deleted, and made anew")
            heir = self._replace_claim(gone)
            await self._call(self.random.randrange(2), "prepare", [heir])
            await self._call(self.random.randrange(2), "unprepare", [gone])

    async def _lose_files(self) -> None:
        """Somebody clears the folder of CDI files; an instance that starts writes them again."""
        self._note(f"{CDI_FOLDER} is cleared")
        contents = self.node.disk.contents
        lost = {path: contents.pop(path) for path in list(contents) if path.startswith(CDI_FOLDER)}
        faults = len(self.faults)
        await self._replace(self.random.randrange(2))
        if len(self.faults) > faults or self.node.kernel.pending or self.pulled:
            needed = {path for record in self.given.values() for path in record.files}
            contents |= {path: lost[path] for path in needed & lost.keys() - contents.keys()}  # by whoever starts later

    async def _use_otherwise(self) -> None:
        """Somebody else sets a vGPU profile beside the driver, one that no claim would set, or clears theirs."""
        profiles = self.node.kernel.profiles
        if self.foreign_profile != NO_PROFILE:
            self._note("somebody else clears their profile")
            self.foreign_profile = profiles[VGPU] = NO_PROFILE
        elif profiles[VGPU] == NO_PROFILE and VGPU not in self.node.kernel.pending:
            ours = {
                change.after
                for record in self.node.state.claims.values()
                for change in record.changes
                if change.target == VGPU
            }
            if others := sorted({*PROFILES} - ours):
                self.foreign_profile = profiles[VGPU] = self.random.choice(others)
                self._note(f"somebody else sets the profile {self.foreign_profile}")

    def _replace_claim(self, gone: ResourceClaim) -> ResourceClaim:
        again = self._new_claim(gone.metadata.name, f"{gone.metadata.uid}x")
        self.claims[self.claims.index(gone)] = again
        self.every_claim.append(again)
        self.node.reader.claims["default", again.metadata.name] = again
        return again

    async def _erase(self) -> None:
        self._note("devices are erased")
        await self._guarded(1, lambda instance: instance.repair.erase_unclean())

    async def _make_vfs(self) -> None:
        """An instance starts with a policy that wants another number of VFs, while the other may prepare claims."""
        index, count = self.random.randrange(2), VfCount(self.random.randint(0, len(PORT_VFS)))
        await self._replace(index)
        self._note(f"{PORT} is to have {count.number} VFs")
        hardware = self.node.hardware
        making = self._guarded(index, lambda instance: instance.vfs.make(hardware, {PORT: count}))
        prepared = self._some_claims() if self.random.random() < 0.5 else []
        self.stuck_step = "sriov_numvfs" if self.random.random() < 0.3 else ""
        await asyncio.gather(making, self._call(1 - index, "prepare", prepared))
        self.stuck_step = ""
        if PORT in self.node.kernel.pending:
            await self._call(1 - index, "prepare", self._some_claims())
            await self._settle()

    async def _look(self, index: int) -> None:
        """An instance looks at its devices again, of which it reads what claims have touched; the kernel's reports may
        not have reached it yet."""
        reading, kernel = self.instances[index].reading, self.node.kernel
        claims = self.node.state.claims
        changed = _names_in_changed(reading.claims, claims)
        unheard = set(kernel.uevents[self.heard[index] :]) - changed
        if self.random.random() < 0.5:
            reading.report(frozenset(kernel.uevents[self.heard[index] :]))
            self.heard[index] = len(kernel.uevents)
            unheard.clear()
        elif self.random.random() < 0.2:  # the kernel's reports were lost
            reading.report(None)
            self.heard[index] = len(kernel.uevents)
            unheard.clear()
        self._note(f"{index} looks, but for {sorted(unheard)}")
        before = len(kernel.uevents)
        await reading.renew(claims)
        unheard.update(kernel.uevents[before:])
        self._check_seen(index, unheard)

    async def _guarded(self, index: int, work: Callable[[DriverInstance], Awaitable[object]]) -> None:
        try:
            await work(self.instances[index])
        except Crash:
            await self._replace(index)
        except CheckpointError as error:
            self._note(f"  {error}")

    # --- what must hold ---

    def _check_rolled_back(
        self, failures: Mapping[str, str], earlier: Mapping[str, ClaimRecord], faults: list[tuple[Fault, str]]
    ) -> None:
        """A prepare that failed has left nothing, unless something stood in the way of putting it back, too (D-46)."""
        if len(faults) > 1 or any(fault is not Fault.REFUSED or PLUGIN_FOLDER in step for fault, step in faults):
            return
        for uid, message in failures.items():
            record = self.node.state.claims.get(uid)
            is_cause = all(step.rpartition(" ")[2] in message for _, step in faults)
            if record is None or uid in earlier or not is_cause:
                continue
            if not self.node.kernel.pending.keys() & {change.target for change in record.changes}:
                raise self._broken(f"{uid} was half prepared, and left so")

    def _check_seen(self, index: int, unheard: set[str]) -> None:
        """What an instance has read is what there is, but for what happened without its knowledge."""
        seen, there = self.instances[index].reading.hardware, self.node.hardware
        if seen.functions.keys() ^ there.functions.keys() or seen.mdevs.keys() ^ there.mdevs.keys():
            raise self._broken(f"{index} sees other devices than there are")
        for address in seen.functions.keys() - unheard:
            before, now = seen.functions[address], there.functions[address]
            if (before.driver, before.iommu_group) != (now.driver, now.iommu_group):
                raise self._broken(f"{index} sees {address} on {before.driver!r} instead of {now.driver!r}")

    def _check_ready(self, uid: str) -> None:
        """A claim that was answered has all it needs, and nobody's data."""
        kernel = self.node.kernel
        record = self.node.state.claims.get(uid)
        if record is None or record.stage is not Stage.DONE:
            raise self._broken(f"{uid} is ready, but the checkpoint doesn't know it")
        text = self.node.disk.contents.get(f"{CDI_FOLDER}/{DRIVER}_{uid}.json", "")
        for device in record.devices:
            group = kernel.link(f"/sys/bus/{'mdev' if device.parent else 'pci'}/devices/{device.address}/iommu_group")
            if not group or f'"/dev/vfio/{group}"' not in text:
                raise self._broken(f"{uid} is ready without the node of {device.device}")
            for member in device.members:
                function = kernel.functions.get(member)
                if function is not None and function.tenant not in ("", record.pods[0]):
                    raise self._broken(f"{uid} finds the data of {function.tenant} in {device.device}")

    def _check(self) -> None:
        kernel = self.node.kernel
        if touched := kernel.touched & PROTECTED:
            raise self._broken(f"{touched} was touched")
        if kernel.reset_in_use:
            raise self._broken(f"{kernel.reset_in_use} was reset while it was open")
        if self.foreign_profile != NO_PROFILE and kernel.profiles[VGPU] != self.foreign_profile:
            raise self._broken("the profile of somebody else is gone")
        holders: dict[str, str] = {}
        groups: dict[str, str] = {}
        for uid, record in self.given.items():
            if lost := set(record.files) - self.node.disk.contents.keys():
                raise self._broken(f"{uid} lost {lost}")
            for device in record.devices:
                if holders.setdefault(device.address, uid) != uid:
                    raise self._broken(f"{device.address} was given to {uid} and {holders[device.address]}")
                for name in device.held_names - {device.address}:
                    if groups.setdefault(name, record.pods[0]) != record.pods[0]:
                        raise self._broken(f"{name} was given to two pods")
                for member in device.members:
                    if member not in kernel.functions or kernel.functions[member].driver != "vfio-pci":
                        raise self._broken(f"{member} was taken away from {uid}")
                if device.kind is DeviceKind.MDEV and device.address not in kernel.mdevs:
                    raise self._broken(f"the mdev of {uid} is gone")
                if device.network and kernel.vf_settings[VF] != {**SETTINGS, **json.loads(device.network)}:
                    raise self._broken(f"{uid} lost its network settings")
                if device.kind is DeviceKind.VGPU and kernel.profiles[VGPU] != device.type_id:
                    raise self._broken(f"the profile of {uid} is gone")
                if device.kind is DeviceKind.VGPU and self.foreign_profile != NO_PROFILE:
                    raise self._broken(f"{uid} has a VF that somebody else uses")

    def _check_nothing_is_begun(self) -> None:
        """What an earlier instance had begun, the one that has started ended, as nothing was in its way (D-51)."""
        if begun := [uid for uid, record in self.node.state.claims.items() if record.stage is not Stage.DONE]:
            raise self._broken(f"{begun} was begun, and left so by an instance that started")

    def _check_leftovers(self) -> None:
        """What isn't as the kernel made it belongs to a claim that the checkpoint knows."""
        kernel = self.node.kernel
        path = f"{PLUGIN_FOLDER}/checkpoint.json"
        if f"{path}.bad" in self.node.disk.contents:
            raise self._broken("the checkpoint was damaged")
        state = self.node.state
        names = {name for record in state.claims.values() for name in record.held_names}
        for function in kernel.functions.values():
            if (function.driver != function.natural or function.override) and function.address not in names:
                raise self._broken(f"{function.address} is left on {function.driver!r} without a claim")
        if lost := set(kernel.mdevs) - names:
            raise self._broken(f"{lost} is left without a claim")

    async def _end(self) -> None:
        """All is calm, all VMs end, and every claim is released."""
        self._note("calm")
        self.trouble = 0.0
        self.node.faults = no_faults
        for uid in list(self.open_groups):
            self._stop(uid)
        if self.foreign_profile != NO_PROFILE:
            await self._use_otherwise()
        await self._release_all()
        await self._prepare_one()
        await self._release_all()
        kernel, state = self.node.kernel, self.node.state
        unclean = {member for device in state.unclean.values() for member in device.members}
        if state.claims or state.stuck:
            raise self._broken(f"left in the checkpoint: {list(state.claims)}, stuck {list(state.stuck)}")
        for function in kernel.functions.values():
            if function.driver != function.natural or function.override:
                raise self._broken(f"{function.address} is left on {function.driver!r}/{function.override!r}")
            if function.tenant and function.address not in unclean:
                raise self._broken(f"{function.address} keeps the data of {function.tenant}")
        if kernel.mdevs or kernel.profiles[VGPU] != "0":
            raise self._broken("an mdev or a profile is left")
        if kernel.vf_settings[VF] != SETTINGS:
            raise self._broken(f"the VF is left with {kernel.vf_settings[VF]}")
        if files := set(self.node.disk.contents) - {f"{PLUGIN_FOLDER}/checkpoint.json"}:
            raise self._broken(f"left: {files}")

    async def _release_all(self) -> None:
        for _ in range(ATTEMPTS):
            self.node.kernel.settle()
            await self._replace(0)
            await self._call(0, "unprepare", self.every_claim)
            await self._guarded(0, lambda instance: instance.repair.erase_unclean())
            if not self.node.state.claims:
                break

    async def _prepare_one(self) -> None:
        """What the node has, and doesn't need itself, is given to a claim. An unclean card has no mdevs."""
        functions, unclean = self.node.kernel.functions, self.node.state.unclean
        free = [
            name
            for name in self.wanted
            if (there := functions.get(BY_NAME[name].address)) is not None
            and name not in NEVER
            and not there.virtual_functions
            and not (BY_NAME[name].kind is DeviceKind.MDEV and there.address in unclean)
        ]
        if not free:
            return
        name = self.random.choice(free)
        self._note(f"last: {name}")
        last = claim("last", name, parameters=None)
        self.every_claim.append(last)
        self.node.reader.claims["default", "last"] = last
        if failures := await self._call(0, "prepare", [last]):
            raise self._broken(f"{name} isn't given to a claim any more: {failures}")

    def _note(self, text: str) -> None:
        self.story.append(text)

    def _broken(self, text: str) -> Broken:
        return Broken("\n".join((*self.story, f"BROKEN: {text}")))


def _by_uid(claims: Iterable[ResourceClaim], uid: str) -> ResourceClaim:
    return next(wanted for wanted in claims if wanted.metadata.uid == uid)


def _devices(claim: ResourceClaim) -> list[str]:
    assert claim.status.allocation is not None
    return [result.device for result in claim.status.allocation.devices.results]


def _names_in_changed(earlier: Mapping[str, ClaimRecord], now: Mapping[str, ClaimRecord]) -> set[str]:
    """All that records name of the claims that are others now."""
    names: set[str] = set()
    for uid in earlier.keys() | now.keys():
        if earlier.get(uid) != now.get(uid):
            for record in (earlier.get(uid), now.get(uid)):
                for device in record.devices if record is not None else ():
                    names |= {device.address, device.parent, *device.members}
                    names |= {change.target for change in device.changes}
    return names


async def play(seed: int) -> None:
    """Raises :class:`Broken`, and TimeoutError once nothing goes on any more: in virtual time, a history that waits for
    its processor has all the time it needs."""
    async with asyncio.timeout(LIMIT):
        await History(random.Random(seed)).play()


def broken(seeds: range) -> str:
    """The first history of these that breaks a promise; "" if none does."""
    return run_virtually(_broken(seeds))


def without_logs() -> None:
    """The driver logs each fault."""
    logging.disable()


async def _broken(seeds: range) -> str:
    for seed in seeds:
        try:
            await play(seed)
        except Broken as error:
            return f"seed {seed}:\n{error}"
    return ""
