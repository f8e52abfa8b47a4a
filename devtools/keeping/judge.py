"""Compares what is written with the model: a device that was kept is lost for a reason only, and once calm has returned
everything is as it must be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta
from typing import Final, cast

from devtools.keeping.model import OWN, Truth, reasons
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.keeping.claims import (
    KEPT_LABEL,
    NODE_LOST_ANNOTATION,
    RELEASE_ANNOTATION,
    STOPPED_ANNOTATION,
    is_vm_reference,
    kept_claim_name,
    kept_entries,
    other_consumers,
)
from virt_dra.api.keeping.terms import KeepingError, KeepTerms, keep_terms, vm_keep_annotations
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import ObjectT, TypedObject, parse_time
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.controllers.loops.claims.releasing import is_done
from virt_dra.model.claim_nodes import claim_node

IN_TIME: Final = timedelta(minutes=5)
"""A release is this late at most, once its moment has come and the keeper runs undisturbed."""
MANY: Final = 20_000
"""Looks at a history; a usual one takes some hundred."""
OWN_DELAY: Final = 8.0
"""Seconds that the keeper may take from what it reads of VM and VMI to its write."""


class Judge:
    """``clock``: the cluster's; ``elapsed``: seconds that don't jump; ``behind``: since when, by ``elapsed``, the
    keeper's watches may not have told it what changed."""

    def __init__(
        self, cluster: MemoryCluster, clock: Callable[[], datetime], elapsed: Callable[[], float],
        behind: Callable[[], float],
    ) -> None:  # fmt: skip
        self._cluster, self._clock, self._elapsed, self._behind = cluster, clock, elapsed, behind
        self._claims: dict[str, ResourceClaim] = {}
        self._held_at: dict[tuple[str, str], float] = {}
        """A claim's UID and a reason -> when that was true last."""
        self._stopped: dict[str, datetime] = {}
        self._lost: dict[str, datetime] = {}
        self._due: dict[tuple[str, str], float] = {}
        """A claim's UID and a reason that time brings -> when, in undisturbed seconds, it must have been released."""
        self._waiting: dict[tuple[str, str], tuple[datetime, timedelta]] = {}
        self._jumped: set[str] = set()
        """UIDs of claims that were there as the clock was set."""
        self._version = ""
        self._lists: dict[type[TypedObject], tuple[TypedObject, ...]] = {}
        self.problems: list[str] = []
        """Promises that were broken."""
        self.broken = asyncio.Event()
        """Set where one is."""
        self._looks = 0
        self.held = 0
        """Claims that stopped VMs were found to keep."""

    def jumped(self) -> None:
        """The clock was set: what was noted by it must be noted anew."""
        now = self._clock()
        for times in (self._stopped, self._lost):
            for uid, since in times.items():
                times[uid] = min(since, now)
        self._due.clear()
        self._jumped.update(self._claims)

    # --- at every write ---

    async def observe(self) -> None:
        """Before and after every write, and as time passes."""
        now, elapsed = self._clock(), self._elapsed()
        self._looks += 1
        if self._looks > MANY:
            self._break("writing doesn't end")
        there = {claim.metadata.uid: claim for claim in await self._all(ResourceClaim)}
        for uid, before in self._claims.items():
            if there.get(uid) is before:
                continue
            if _is_held(before):
                self._check_loss(before, there.get(uid), elapsed)
            await self._check_users(before, there.get(uid))
        self._claims = there
        for uid, claim in there.items():
            owner = claim.metadata.controller_owner
            for consumer in filter(is_vm_reference, claim.status.reserved_for):
                if owner is None or consumer.uid != owner.uid:
                    self._break(f"{claim.name} is held for {consumer.name}, which doesn't own it")
            if claim.metadata.labels.get(KEPT_LABEL) == "true":
                for reason in reasons(await self._truth(claim, now), now):
                    self._held_at[uid, reason] = elapsed

    def _break(self, problem: str) -> None:
        self.problems.append(problem)
        self.broken.set()

    def _check_loss(self, before: ResourceClaim, after: ResourceClaim | None, elapsed: float) -> None:
        name = before.name
        if after is not None and _is_held(after):
            if after.status.allocation != before.status.allocation:
                self._break(f"{name} has another device than it kept")
            return
        why = [
            reason
            for (uid, reason), at in self._held_at.items()
            if uid == before.metadata.uid and at >= (elapsed - OWN_DELAY if reason in OWN else self._behind())
        ]
        if not why:
            self._break(f"{name} lost its device, and nothing said that it may be released: {before.to_wire()}")
        elif after is not None and after.status.allocation is not None and "KeptOwnerGone" not in why:
            self._break(f"{name} isn't held any more, while it is allocated")

    async def _check_users(self, before: ResourceClaim, after: ResourceClaim | None) -> None:
        """Nobody takes a claim from a pod that runs with it. One without a node the scheduler may have given up."""
        left = {consumer.uid for consumer in after.status.reserved_for} if after is not None else set()
        dropped = {consumer.uid for consumer in other_consumers(before)} - left
        if dropped:
            for pod in await self._all(Pod):
                if pod.metadata.uid in dropped and pod.spec.node_name and not is_done(pod):
                    self._break(f"{before.name} was taken from {pod.name}, which uses it")

    # --- what is true ---

    async def _all(self, kind: type[ObjectT]) -> tuple[ObjectT, ...]:
        """The objects of a kind, read once for each version of the cluster."""
        if self._version != self._cluster.resource_version:
            self._version, self._lists = self._cluster.resource_version, {}
        if kind not in self._lists:
            self._lists[kind] = (await self._cluster.list(kind)).items
        return cast("tuple[ObjectT, ...]", self._lists[kind])

    async def _truth(self, claim: ResourceClaim, now: datetime) -> Truth:
        uid = claim.metadata.uid
        vm, vmi = await self._owners(claim)
        terms = _terms(vm, claim) if vm is not None else None
        record = kept_entries(vmi) if vmi is not None else {}
        entry = next((entry for entry in record if kept_claim_name(claim_vm(claim), entry) == claim.name), "")
        allocated = claim.status.allocation is not None
        template = {template.name: template for template in await self._all(ResourceClaimTemplate)}.get(
            record.get(entry, "")
        )
        pods = {pod.metadata.uid for pod in await self._all(Pod) if not is_done(pod)}
        # An ended pod's entry may stay for a moment, in which a clock may be set.
        used = any(consumer.uid in pods for consumer in other_consumers(claim))
        stopped = allocated and vmi is None and not used
        away = allocated and await self._is_away(claim_node(claim))
        for times, holds in ((self._stopped, stopped), (self._lost, away)):
            if holds:
                times.setdefault(uid, now)
            else:
                times.pop(uid, None)
        starts = vmi is not None and vmi.metadata.deletion_timestamp is None
        return Truth(
            owner_there=vm is not None and claim.metadata.deletion_timestamp is None,
            keeps=terms is not None,
            lease=terms.stopped_for if terms is not None else None,
            node_loss=terms.node_loss if terms is not None else None,
            runs=vmi is not None,
            starts=starts,
            in_record=bool(entry),
            asked=allocated and RELEASE_ANNOTATION in claim.metadata.annotations,
            template_differs=template is not None and template.spec.spec != claim.spec,
            tainted=allocated and await self._is_tainted(claim, now),
            stopped_since=self._stopped.get(uid),
            lost_since=self._lost.get(uid),
        )

    async def _owners(self, claim: ResourceClaim) -> tuple[VirtualMachine | None, VirtualMachineInstance | None]:
        """The VM that owns a claim, and its VMI that isn't finished."""
        owner = claim.metadata.controller_owner
        if owner is None:
            return None, None
        vm = next((vm for vm in await self._all(VirtualMachine) if vm.metadata.uid == owner.uid), None)
        for vmi in await self._all(VirtualMachineInstance):
            own = vmi.metadata.controller_owner
            if own is not None and own.uid == owner.uid and not vmi.finished:
                return vm, vmi
        return vm, None

    async def _is_away(self, name: str) -> bool:
        node = next((node for node in await self._all(Node) if node.name == name), None)
        return node is None or bool(node.spec.unschedulable) or bool(node.spec.taints)

    async def _is_tainted(self, claim: ResourceClaim, now: datetime) -> bool:
        """By a rule, once its time has come by a clock that may have been set back."""
        allocation = claim.status.allocation
        pools = {result.pool for result in allocation.devices.results} if allocation is not None else set()
        for rule in await self._all(DeviceTaintRule):
            selector, added = rule.spec.device_selector, rule.spec.taint.time_added
            if selector is not None and selector.pool in pools and (not added or parse_time(added) <= now):
                return True
        return False

    # --- in calm ---

    async def settled(self, *, end: bool = False) -> None:
        """Nothing has changed for long, and nothing is in anybody's way: what must hold now."""
        await self.observe()
        for problem in [problem async for problem in self._problems()]:
            self._break(problem)
        for claim in await self._all(ResourceClaim) if end else ():
            self._break(f"{claim.name} is left: {claim.to_wire()}")

    async def _problems(self) -> AsyncIterator[str]:
        now = self._clock()
        pods = {pod.metadata.uid: pod for pod in await self._all(Pod)}
        vms = {vm.metadata.uid: vm for vm in await self._all(VirtualMachine)}
        claims = await self._all(ResourceClaim)
        for claim in claims:
            for consumer in claim.status.reserved_for:
                if is_vm_reference(consumer):
                    if consumer.uid not in vms:
                        yield f"{claim.name} is held for {consumer.name}, which is gone"
                elif consumer.uid not in pods or is_done(pods[consumer.uid]):
                    yield f"{claim.name} is reserved for {consumer.name}, which is gone"
            if claim.metadata.labels.get(KEPT_LABEL) == "true":
                for problem in self._kept_problems(claim, await self._truth(claim, now), now):
                    yield problem
        names = {claim.name for claim in claims}
        for vmi in await self._all(VirtualMachineInstance):
            if vmi.finished or vmi.metadata.deletion_timestamp is not None:
                continue
            for entry, template in kept_entries(vmi).items():
                there = any(made.name == template for made in await self._all(ResourceClaimTemplate))
                if there and kept_claim_name(vmi.name, entry) not in names:
                    yield f"{vmi.name} starts, and nobody made its claim"

    def _kept_problems(self, claim: ResourceClaim, truth: Truth, now: datetime) -> Iterator[str]:
        allocated, used = claim.status.allocation is not None, bool(other_consumers(claim))
        holds = any(map(is_vm_reference, claim.status.reserved_for))
        self.held += holds and not used
        why = [] if used else list(reasons(truth, now))
        for reason in why:
            if reason in ("KeptLeaseOver", "KeptNodeLost"):
                continue  # by the clock, which may have jumped: see below
            if allocated or reason in ("KeepingEnded", "KeptClaimNotUsed", "KeptClaimTemplateChanged", "KeptOwnerGone"):
                yield f"{claim.name} is there although {reason}: {claim.to_wire()}"
        if allocated and truth.owner_there and truth.keeps and not why and not holds:
            yield f"{claim.name} isn't held for its VM: {claim.to_wire()}"
        if truth.owner_there and truth.runs and truth.asked:
            yield f"the release of {claim.name} is still asked for, although its VM runs"
        yield from self._late(claim, truth, used=used)
        annotations = claim.metadata.annotations
        for annotation, since in ((STOPPED_ANNOTATION, truth.stopped_since), (NODE_LOST_ANNOTATION, truth.lost_since)):
            if truth.owner_there and (annotation in annotations) != (since is not None):
                yield f"{claim.name}: {annotation} is {annotations.get(annotation)}, and should be {since}"

    def _late(self, claim: ResourceClaim, truth: Truth, *, used: bool) -> Iterator[str]:
        """Releases that time brings: from the first calm on that saw the VM stopped, or the node lost."""
        elapsed = self._elapsed()
        for reason, since, length in (
            ("KeptLeaseOver", truth.stopped_since, truth.lease),
            ("KeptNodeLost", None if used else truth.lost_since, truth.node_loss),
        ):
            key = claim.metadata.uid, reason
            if not truth.keeps or since is None or length is None:
                self._due.pop(key, None)
                self._waiting.pop(key, None)
            else:
                if self._waiting.get(key) != (since, length):
                    self._due.pop(key, None)
                self._waiting[key] = since, length
                # A clock that is set back wakes nobody: the mark is written anew when the time of the old one is over.
                times = 2 if claim.metadata.uid in self._jumped else 1
                due = self._due.setdefault(key, elapsed + times * length.total_seconds())
                if elapsed > due + IN_TIME.total_seconds():
                    yield f"{claim.name} isn't released, although {reason} since {elapsed - due:.0f} s"


def _is_held(claim: ResourceClaim) -> bool:
    """True if its VM keeps it."""
    owner = claim.metadata.controller_owner
    return claim.status.allocation is not None and any(
        is_vm_reference(consumer) and (owner is None or consumer.uid == owner.uid)
        for consumer in claim.status.reserved_for
    )


def claim_vm(claim: ResourceClaim) -> str:
    owner = claim.metadata.controller_owner
    return owner.name if owner is not None else ""


def _terms(vm: VirtualMachine, claim: ResourceClaim) -> KeepTerms | None:
    """As the VM says, else as its VMI said when the claim was made; for ever where that can't be read."""
    try:
        return keep_terms(*vm_keep_annotations(vm), claim.metadata.annotations)
    except KeepingError:
        return KeepTerms(None, None)
