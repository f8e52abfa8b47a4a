"""Histories of VMs on a real control plane, each VM's beside the others', with thieves that always want a device, while
our components and the API server are killed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeVar

from devtools.cluster.processes import Component, ComponentError
from devtools.faults.site import IDENTITY, Site
from virt_dra.api.core_v1 import Pod
from virt_dra.api.keeping.claims import RELEASE_ANNOTATION, is_vm_reference, kept_claim_name
from virt_dra.api.keeping.terms import KEEP_ANNOTATION
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import ObjectT
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.wire import Json
from virt_dra.cluster.kube.cluster import connect
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.cluster.port import AlreadyExists, ApiError, Cluster, NotFound
from virt_dra.cluster.watching.informer import Informer

T = TypeVar("T")

KINDS_OF_HISTORY: Final = (
    "stop and start", "stop and start", "restart", "restart", "pod deleted", "stop at once", "delete", "release",
)  # fmt: skip
VICTIMS: Final = ("keeper", "keeper", "operator", "API server")
"""Who is killed in each round, so often as it stands here."""
_PATIENCE: Final = 600.0
"""For whatever a loaded machine takes."""
_POLL: Final = 0.05
_THIEF_SECONDS: Final = 0.5
_HISTORIES_A_KILL: Final = 3
_LULL: Final = 300.0
_SETTLES: Final = 0.75
"""The share of the components that become ready before the next kill; the others may be killed as they start."""


@dataclass
class Outcome:
    """What was seen."""

    histories: Counter[str] = field(default_factory=Counter)
    restarts_with_same_device: int = 0
    restarted: int = 0
    """VMs that had started with the claim of an earlier one, and were restarted to have their own."""
    stolen: int = 0
    """How often a thief got a device."""
    killed: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    """Components, Kubernetes' own among them, that ended by themselves and were started again."""
    problems: list[str] = field(default_factory=list)


class Play:
    """``vms``: their names. Each plays so many histories."""

    def __init__(self, site: Site, cluster: Cluster, vms: list[str], thieves: int, seed: int) -> None:
        self._site, self._cluster, self._vms = site, cluster, vms
        self._thieves, self._seed = thieves, seed
        self.outcome = Outcome()
        self._held_devices: dict[str, tuple[str, object]] = {}
        """UID of a claim -> its VM and the device that it keeps."""
        self._watched: dict[str, int] = {}
        """UID of a claim -> the version that was watched last."""
        self._thief_names: dict[int, str] = {}
        self._may_lose: set[str] = set()
        """VMs that were deleted, or whose release was asked for."""

    async def play(self, histories: int) -> Outcome:
        claims = Informer(self._cluster, ResourceClaim, self._site.namespace)
        claims.on_change(self._claim_changed)
        # A watch or a thief that fails ends the play: without them nothing is judged.
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(claims.run())
            thieves = [group.create_task(self._steal(index)) for index in range(self._thieves)]
            await asyncio.gather(*(self._live(name, histories) for name in self._vms))
            for thief in thieves:
                thief.cancel()
            await self._end()
            watching.cancel()
        return self.outcome

    # --- what is seen ---

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """A device that a VM was seen to keep stays until it may lose it."""
        if new is not None:
            self._watched[new.metadata.uid] = int(new.metadata.resource_version)
        if old is not None and (kept := self._held_devices.get(old.metadata.uid)) is not None:
            vm, device = kept
            holds = new is not None and any(map(is_vm_reference, new.status.reserved_for))
            if not holds or new is None or _device(new) != device:
                del self._held_devices[old.metadata.uid]
                if vm not in self._may_lose:
                    self.outcome.problems.append(f"{vm} lost {device}: {new.to_wire() if new is not None else 'gone'}")
        if new is not None and new.status.allocation is not None:
            for consumer in new.status.reserved_for:
                if is_vm_reference(consumer):
                    self._held_devices[new.metadata.uid] = consumer.name, _device(new)

    async def _is_watched(self, claim: ResourceClaim) -> None:
        """Returns once what came before this state of a claim was judged."""

        async def watched() -> bool:
            return self._watched.get(claim.metadata.uid, 0) >= int(claim.metadata.resource_version)

        await self._until(watched, f"the watch doesn't come to {claim.to_wire()}")

    # --- VMs ---

    async def _live(self, name: str, histories: int) -> None:
        chance = random.Random(f"{self._seed}/{name}")
        await self._create(name)
        await self._runs(name)
        for _ in range(histories):
            kind = chance.choice(KINDS_OF_HISTORY)
            before = await self._held(name)
            await self._history(name, kind, chance)
            claim = await self._runs(name)
            if kind in ("delete", "release"):
                await self._is_watched(claim)
                self._may_lose.discard(name)
            elif before is not None:
                if (claim.metadata.uid, _device(claim)) == before:
                    self.outcome.restarts_with_same_device += 1
                else:
                    self.outcome.problems.append(f"{name}, {kind}: had {before}, has {_device(claim)}")
            self.outcome.histories[kind] += 1

    async def _held(self, name: str) -> tuple[str, object] | None:
        """The UID and device of the claim that a VM keeps; None if it isn't one of its users yet (P-2)."""
        claim = await self._find(ResourceClaim, kept_claim_name(name, "gpu"))
        if claim is None or not any(map(is_vm_reference, claim.status.reserved_for)):
            return None
        return claim.metadata.uid, _device(claim)

    async def _history(self, name: str, kind: str, chance: random.Random) -> None:
        match kind:
            case "stop and start" | "release":
                await self._strategy(name, "Halted")
                await self._gone(VirtualMachineInstance, name)
                await asyncio.sleep(chance.uniform(0, 0.5))
                if kind == "release":
                    await self._release(name)
                await self._strategy(name, "Always")
            case "restart":
                await self._replaced(VirtualMachineInstance, name)
            case "pod deleted":
                vmi = await self._find(VirtualMachineInstance, name)
                for pod in (await self._try(lambda: self._cluster.list(Pod, self._site.namespace))).items:
                    if vmi is not None and any(o.uid == vmi.metadata.uid for o in pod.metadata.owner_references):
                        await self._delete(Pod, pod.name)
                await asyncio.sleep(chance.uniform(0, 0.3))
            case "stop at once":
                await self._replaced(VirtualMachineInstance, name)
                await asyncio.sleep(chance.uniform(0, 0.3))
                await self._strategy(name, "Halted")
                await asyncio.sleep(chance.uniform(0, 0.3))
                await self._strategy(name, "Always")
            case "delete":
                self._may_lose.add(name)
                await self._replaced(VirtualMachine, name)
                await self._create(name)

    async def _release(self, name: str) -> None:
        """As ``virt-dra release vm`` asks, until the claim isn't held any more."""
        self._may_lose.add(name)
        claim_name = kept_claim_name(name, "gpu")
        merge: Json = {"metadata": {"annotations": {RELEASE_ANNOTATION: "now"}}}
        end = time.monotonic() + _PATIENCE
        while (claim := await self._find(ResourceClaim, claim_name)) is not None:
            if claim.status.allocation is None:
                return
            if RELEASE_ANNOTATION not in claim.metadata.annotations:
                with contextlib.suppress(NotFound):
                    await self._try(
                        lambda: self._cluster.patch(ResourceClaim, claim_name, self._site.namespace, merge=merge)
                    )
            assert time.monotonic() < end, f"{name} isn't released: {claim.to_wire()}"
            await asyncio.sleep(_POLL)

    async def _create(self, name: str) -> None:
        spec = {
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
            "domain": {"memory": {"guest": "1Gi"}, "devices": {"gpus": [
                {"name": "gpu1", "claimName": "gpu", "requestName": "gpu"}]}},
        }  # fmt: skip
        template = {"metadata": {"annotations": {KEEP_ANNOTATION: "true"}}, "spec": spec}
        wire = {
            "metadata": {"name": name, "namespace": self._site.namespace},
            "spec": {"runStrategy": "Always", "template": template},
        }
        with contextlib.suppress(AlreadyExists):  # created, and the answer was lost
            await self._try(lambda: self._cluster.create(VirtualMachine.from_wire(wire)))

    async def _strategy(self, name: str, strategy: str) -> None:
        merge: Json = {"spec": {"runStrategy": strategy}}
        await self._try(lambda: self._cluster.patch(VirtualMachine, name, self._site.namespace, merge=merge))

    async def _runs(self, name: str) -> ResourceClaim:
        """The claim of a VM whose VMI runs with it and is not about to go; not those of an earlier VM of its name. A VM
        that has started with such a one is restarted, as the page of its Event says (KeptClaimTerminating)."""
        end = time.monotonic() + _PATIENCE
        while True:
            vm = await self._find(VirtualMachine, name)
            vmi = await self._find(VirtualMachineInstance, name)
            claim = await self._find(ResourceClaim, kept_claim_name(name, "gpu"))
            if (
                vm is not None and vmi is not None and claim is not None and claim.status.allocation is not None
                and vmi.is_controlled_by(vm) and claim.is_controlled_by(vm)
                and vmi.status.phase == "Running" and vmi.metadata.deletion_timestamp is None
                and any(map(is_vm_reference, claim.status.reserved_for))
            ):  # fmt: skip
                return claim
            if (
                vm is not None and vmi is not None and claim is not None
                and vmi.is_controlled_by(vm) and vmi.status.phase == "Running"
                and claim.metadata.deletion_timestamp is not None and not claim.is_controlled_by(vm)
            ):  # fmt: skip
                await self._replaced(VirtualMachineInstance, name)
                self.outcome.restarted += 1
            assert time.monotonic() < end, f"{name} doesn't run: {vmi and vmi.to_wire()} {claim and claim.to_wire()}"
            await asyncio.sleep(_POLL * 2)

    async def _replaced(self, kind: type[Any], name: str) -> None:
        """Deletes an object; returns once another one, or none, has its name."""
        old = await self._find(kind, name)
        await self._delete(kind, name)

        async def replaced() -> bool:
            new = await self._find(kind, name)
            return new is None or old is None or new.metadata.uid != old.metadata.uid

        await self._until(replaced, f"{kind.KIND} {name} isn't deleted")

    async def _gone(self, kind: type[Any], name: str) -> None:
        async def gone() -> bool:
            return await self._find(kind, name) is None

        await self._until(gone, f"{kind.KIND} {name} isn't gone")

    async def _until(self, holds: Callable[[], Awaitable[bool]], otherwise: str) -> None:
        """Returns as soon as it holds. Raises AssertionError after :data:`_PATIENCE`."""
        end = time.monotonic() + _PATIENCE
        while not await holds():
            assert time.monotonic() < end, otherwise
            await asyncio.sleep(_POLL)

    # --- thieves ---

    async def _steal(self, index: int) -> None:
        """Wants a device, has it for a moment, and wants another one: by another name, as the garbage collector may
        take one for the other that has its name (P-15)."""
        for number in itertools.count():
            name = self._thief_names[index] = f"thief-{index}-{number}"
            with contextlib.suppress(AlreadyExists):
                await self._try(lambda: self._cluster.create(_thief(name, self._site.namespace)))  # noqa: B023 - called at once
            while (pod := await self._find(Pod, name)) is not None and not pod.spec.node_name:
                await asyncio.sleep(_POLL * 4)
            self.outcome.stolen += pod is not None
            await asyncio.sleep(_THIEF_SECONDS)
            await self._delete(Pod, name)
            await self._gone(Pod, name)

    # --- requests ---

    async def _try(self, ask: Callable[[], Awaitable[T]]) -> T:
        """An answer, whatever outage there is meanwhile. Raises what a user has to decide about."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                return await ask()
            except (NotFound, AlreadyExists):
                raise
            except ApiError:
                if time.monotonic() > end:
                    raise
            await asyncio.sleep(_POLL * 2)

    async def _find(self, kind: type[ObjectT], name: str) -> ObjectT | None:
        try:
            return await self._try(lambda: self._cluster.get(kind, name, self._site.namespace))
        except NotFound:
            return None

    async def _delete(self, kind: type[Any], name: str) -> None:
        with contextlib.suppress(NotFound):
            await self._try(lambda: self._cluster.delete(kind, name, self._site.namespace))

    async def _end(self) -> None:
        """Nobody is left, nor is a claim."""
        vms = await self._try(lambda: self._cluster.list(VirtualMachine, self._site.namespace))
        uids = {vm.metadata.uid for vm in vms.items}
        for claim in (await self._try(lambda: self._cluster.list(ResourceClaim, self._site.namespace))).items:
            for consumer in filter(is_vm_reference, claim.status.reserved_for):
                if consumer.uid not in uids:
                    self.outcome.problems.append(f"{claim.name} is held for {consumer.uid}, which is gone")
        self._may_lose |= set(self._vms)
        for name in self._vms:
            await self._delete(VirtualMachine, name)
        for name in self._thief_names.values():
            await self._delete(Pod, name)
        end = time.monotonic() + _PATIENCE
        while left := (await self._try(lambda: self._cluster.list(ResourceClaim, self._site.namespace))).items:
            if time.monotonic() > end:
                self.outcome.problems.append(f"left: {[claim.to_wire() for claim in left]}")
                return
            await asyncio.sleep(_POLL * 4)


def played(site: Site, vms: int, histories: int, thieves: int, seed: int, victims: Sequence[str]) -> Outcome:
    """So many histories of each VM, with keeper and operator. ``victims``: who is killed, of :data:`VICTIMS`."""

    async def play() -> Outcome:
        async with connect(str(site.plane.kubeconfig), limits=ClientLimits(qps=0)) as cluster:
            playing = Play(site, cluster, [f"vm-{index}" for index in range(vms)], thieves, seed)
            over = threading.Event()
            killing = asyncio.create_task(
                asyncio.to_thread(_kill, site, over, playing.outcome, random.Random(seed), victims)
            )
            try:
                return await playing.play(histories)
            finally:
                over.set()
                await killing

    return asyncio.run(play())


def _kill(site: Site, over: threading.Event, outcome: Outcome, chance: random.Random, victims: Sequence[str]) -> None:
    """Until it is over: SIGKILL of a component at a random moment, and its start, as by a kubelet."""
    with contextlib.ExitStack() as stack:
        keeper, operator = (stack.enter_context(_Restarted(start)) for start in (site.keeper, site.operator))
        components = {"keeper": keeper, "operator": operator}
        round_: list[str] = []
        while not over.wait(chance.uniform(1.0, 5.0)):
            _until_played(over, outcome, sum(outcome.killed.values()) * _HISTORIES_A_KILL)
            outcome.ended.update(site.plane.restart_ended())
            for name, component in components.items():
                last_words = component.restart_ended()
                if last_words is None:
                    continue
                outcome.ended[name] += 1
                if "Traceback" in last_words:
                    outcome.problems.append(f"{name} ended with a traceback: {last_words}")
            # In rounds, so that a short play kills everybody, too.
            round_ = round_ or chance.sample(victims, len(victims))
            victim = round_.pop()
            if victim in components:
                components[victim].kill(settles=chance.random() < _SETTLES)
            else:
                site.plane.restart_api_server()
                over.wait(5.0)
            outcome.killed[victim] += 1


def _until_played(over: threading.Event, outcome: Outcome, histories: int) -> None:
    """Waits for so many histories, at most :data:`_LULL`: where machines are slow, kills would leave time for none."""
    end = time.monotonic() + _LULL
    while sum(outcome.histories.values()) < histories and time.monotonic() < end:
        if over.wait(_POLL):
            return


class _Restarted:
    """A component that is started again where it was killed, or has ended by itself. Use it as a context manager."""

    def __init__(self, start: Callable[..., Component]) -> None:
        self._start = start

    def __enter__(self) -> Self:
        self._running: Component = self._start("--identity", IDENTITY)
        try:
            self._running.ready(_PATIENCE)
        except ComponentError:
            self._running.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def kill(self, *, settles: bool) -> None:
        """``settles``: waits until the next one is ready, or has ended."""
        self._running.kill()
        self._again()
        if settles:
            try:
                self._running.ready(_PATIENCE)
            except ComponentError:
                if self._running.exit_code() is None:
                    raise

    def restart_ended(self) -> str | None:
        """What it said last, if it had ended, as the operator does that couldn't renew its Lease while the API server
        was away; None if it runs."""
        if self._running.exit_code() is None:
            return None
        last_words = self._running.tail()
        self._again()
        return last_words

    def _again(self) -> None:
        self._running.close()
        self._running = self._start("--identity", IDENTITY)


def _device(claim: ResourceClaim) -> object:
    allocation = claim.status.allocation
    return [(result.pool, result.device) for result in allocation.devices.results] if allocation is not None else None


def _thief(name: str, namespace: str) -> Pod:
    uses = [{"name": "gpu"}]
    return Pod.from_wire({
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "containers": [{"name": "compute", "image": "thief", "resources": {"claims": uses}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
            "terminationGracePeriodSeconds": 0,
        },
    })  # fmt: skip
