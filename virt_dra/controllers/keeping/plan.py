"""What to write about one VM's kept claims, and what to say about them. Pure; the clock is an input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from virt_dra.api.core_v1 import Node
from virt_dra.api.go_text import visible
from virt_dra.api.keeping.claims import (
    KEPT_LABEL,
    NODE_LOST_ANNOTATION,
    RELEASE_ANNOTATION,
    STOPPED_ANNOTATION,
    claim_terms,
    is_kept,
    is_vm_reference,
    kept_claim,
    kept_claim_name,
    kept_entries,
    marked_time,
    other_consumers,
    vm_name_of,
    vm_reference,
)
from virt_dra.api.keeping.limits import KeepLimits, least_devices
from virt_dra.api.keeping.terms import (
    KEEP_ANNOTATION,
    NODE_LOSS_ANNOTATION,
    KeepingError,
    KeepTerms,
    keep_terms,
    recorded_terms,
    vm_keep_annotations,
)
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject, format_time
from virt_dra.api.profiles.asking import RefusedLineError, asked_profiles
from virt_dra.api.profiles.expansion import template_name as name_of_template
from virt_dra.api.resource_v1 import (
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
    ResourceClaimTemplate,
)
from virt_dra.controllers.events import Event, normal, warning
from virt_dra.controllers.reconciled import earliest
from virt_dra.controllers.writes import Create, Delete, PatchAnnotations, PatchStatus, Write
from virt_dra.model.claim_nodes import claim_node
from virt_dra.model.evicting.causes import Eviction
from virt_dra.model.keep_ends import (
    OWNER_GONE,
    ClaimSituation,
    KeepEnd,
    node_absence,
    outdated,
    release_of,
    unowned,
)
from virt_dra.model.keep_ends import REASONS as RELEASE_REASONS

RELEASED: Final = "KeptDevicesReleased"
"""Event of the VM: a claim is released; the message says why."""
RELEASE_VOID: Final = "KeptReleaseVoid"
"""Event: the release of a claim was asked for while its VM runs; nothing is released."""
INVALID_TERMS: Final = "InvalidKeeping"
"""Event: the VM's annotations have a value that means nothing; what it has is kept until that is mended."""
STARTS_LATER: Final = "KeepingStartsLater"
"""Event: the VM asks to keep its devices since it was started; it will from its next start on."""
ENDS_LATER: Final = "KeepingEndsLater"
"""Event: the VM no longer asks to keep its devices; they are released when it stops."""
CHANGES_LATER: Final = "KeptClaimOutdated"
"""Event: the template of a claim that is in use asks for something else now."""
TEMPLATE_MISSING: Final = "KeptTemplateMissing"
"""Event: a claim can't be made, as its template isn't there; the VM's pod waits for it."""
NAME_TAKEN: Final = "KeptClaimNameTaken"
"""Event: a claim that isn't the VM's has the name of the claim that it would keep."""
LIMITED: Final = "KeepingLimited"
"""Event: a KeepPolicy allows less than the VM asks to keep."""
EARLIER_CLAIM: Final = "KeptClaimTerminating"
"""Event: a claim of an earlier VM of that name has to go; it is made again afterwards (P-8)."""

REASONS: Final = (
    RELEASED, RELEASE_VOID, INVALID_TERMS, STARTS_LATER, ENDS_LATER, CHANGES_LATER, TEMPLATE_MISSING, NAME_TAKEN,
    LIMITED, EARLIER_CLAIM, *RELEASE_REASONS,
)  # fmt: skip
"""Of the Events, and of releases in messages and metrics; each has a page in docs/reasons."""


@dataclass(frozen=True)
class KeepingInputs:
    """``vmi``: the VM's own. ``claims``: the kept ones of a VM of this name, whatever its UID. ``others``: further
    claims that have the name of one that the VMI keeps. ``templates``, ``nodes`` (of the claims' devices): by name.
    ``evictions``: by claim. ``ended``: UIDs of pods that certainly don't use their claims any more (P-4). ``limits``:
    of the namespace; ``over``: which of them the VM's devices exceed beside those of other stopped VMs, "" if none."""

    vm: VirtualMachine | None
    vmi: VirtualMachineInstance | None
    claims: tuple[ResourceClaim, ...]
    now: datetime
    others: Mapping[str, ResourceClaim] = field(default_factory=dict)
    templates: Mapping[str, ResourceClaimTemplate] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    evictions: Mapping[str, Eviction] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    limits: KeepLimits = field(default_factory=KeepLimits)
    over: str = ""


@dataclass(frozen=True)
class ClaimWrites:
    """The writes about one claim, done in order; ``released``: the reason, once they are done."""

    actions: tuple[Write, ...] = ()
    events: tuple[Event, ...] = ()
    released: str = ""


@dataclass(frozen=True)
class KeepingPlan:
    """``standing``: what lasts, and is said once. ``requeue_at``: when time alone may change the plan."""

    claims: tuple[ClaimWrites, ...] = ()
    standing: tuple[Event, ...] = ()
    requeue_at: datetime | None = None

    @property
    def takes_away(self) -> bool:
        """True if a claim is released or deleted."""
        return any(
            claim.released or any(isinstance(action, Delete) for action in claim.actions) for claim in self.claims
        )


def plan(inputs: KeepingInputs) -> KeepingPlan:
    """What to do about the claims of one VM, in the order of their names."""
    vm = inputs.vm
    ours = sorted(inputs.claims, key=lambda claim: claim.name)
    gone = [claim for claim in ours if unowned(claim, vm)]
    plans = [_let_go(claim, inputs) for claim in gone]
    if vm is None:
        return KeepingPlan(tuple(filter(_does_anything, plans)))
    standing: list[Event] = []
    due: list[datetime | None] = []
    for claim in ours:
        if claim not in gone:
            decided, moment, said = _Kept(inputs, vm, claim).plan()
            plans.append(decided)
            due.append(moment)
            standing += said
    made, missing = _made(inputs, vm)
    standing += missing
    standing += _about_vm(inputs, vm)
    return KeepingPlan(tuple(filter(_does_anything, (*plans, *made))), tuple(dict.fromkeys(standing)), earliest(*due))


def _does_anything(decided: ClaimWrites) -> bool:
    return bool(decided.actions or decided.events)


def _is_of(claim: ResourceClaim, vm: VirtualMachine) -> bool:
    return claim.is_controlled_by(vm)


def _is_of_earlier(claim: ResourceClaim, vm: VirtualMachine) -> bool:
    """True if a claim of the VM, or of an earlier one of its name, will be gone soon."""
    if not is_kept(claim) or vm_name_of(claim) != vm.name:
        return False
    return claim.metadata.deletion_timestamp is not None or not _is_of(claim, vm)


def _let_go(claim: ResourceClaim, inputs: KeepingInputs) -> ClaimWrites:
    """Delete a claim whose VM is gone, as the garbage collector may never do (P-15), before another pod gets it; drop
    VMs from the consumers of one that is being deleted (P-8). Pods keep it."""
    if _is_left_behind(claim):
        return ClaimWrites((Delete.object(claim, unchanged=True),))
    pods = tuple(consumer for consumer in other_consumers(claim) if consumer.uid not in inputs.ended)
    if not any(map(is_vm_reference, claim.status.reserved_for)) and pods == claim.status.reserved_for:
        return ClaimWrites()
    about = claim if inputs.vm is None else inputs.vm
    text = f"ResourceClaim {visible(claim.name)} is released: {unowned(claim, inputs.vm)}"
    event = normal(about, RELEASED, text)
    return ClaimWrites((_with_consumers(claim, pods),), (event,), OWNER_GONE)


def _is_left_behind(claim: ResourceClaim) -> bool:
    """True if a kept claim isn't being deleted, and nobody else owns it than the VM that is gone."""
    owners, deleted = claim.metadata.owner_references, claim.metadata.deletion_timestamp is not None
    kept = claim.metadata.labels.get(KEPT_LABEL) == "true"
    return kept and not deleted and len(owners) == 1 and bool(vm_name_of(claim))


def _with_consumers(claim: ResourceClaim, consumers: tuple[ResourceClaimConsumerReference, ...]) -> PatchStatus:
    """Replace the consumers; without any, the allocation goes in the same write (P-3)."""
    status = claim.status.to_wire()
    if consumers:
        status["reservedFor"] = [consumer.to_wire() for consumer in consumers]
    else:
        status = {key: value for key, value in status.items() if key not in ("reservedFor", "allocation")}
    return PatchStatus.between(claim, claim.with_(status=ResourceClaimStatus.from_wire(status)))


class _Kept:
    """The plan of one claim of a VM that is there."""

    def __init__(self, inputs: KeepingInputs, vm: VirtualMachine, claim: ResourceClaim) -> None:
        self._vm, self._claim, self._now = vm, claim, inputs.now
        self._pods = tuple(consumer for consumer in other_consumers(claim) if consumer.uid not in inputs.ended)
        vmi = inputs.vmi
        self._vmi = vmi if vmi is not None and not vmi.finished else None
        recorded = kept_entries(self._vmi) if self._vmi is not None else {}
        entry = next((entry for entry in recorded if kept_claim_name(vm.name, entry) == claim.name), "")
        ending = self._vmi is None or self._vmi.metadata.deletion_timestamp is not None
        terms, self._fault = claim_terms(vm, claim)
        self._situation = ClaimSituation(
            claim, terms, self._vmi is not None, inputs.now,
            recorded=None if ending else recorded, entry=entry,
            template=None if ending else inputs.templates.get(recorded.get(entry, "")),
            node=inputs.nodes.get(claim_node(claim)), eviction=inputs.evictions.get(claim.name),
            limits=inputs.limits, over=inputs.over,
        )  # fmt: skip

    def plan(self) -> tuple[ClaimWrites, datetime | None, list[Event]]:
        """The plan, the moment at which time alone may change it, and what lasts."""
        standing = [warning(self._vm, INVALID_TERMS, self._fault)] if self._fault else []
        if self._pods:
            standing += self._later()
            return self._held(), None, standing
        release, due = release_of(self._situation, self._now)
        if release is not None:
            return self._released(release), None, standing
        return self._held(), due, standing

    def _later(self) -> list[Event]:
        """What will become of a claim that is in use."""
        name = visible(self._claim.name)
        said = []
        if self._situation.terms is None:
            said.append(normal(self._vm, ENDS_LATER, f"ResourceClaim {name} is released when the VM stops"))
        if outdated(self._situation):
            text = (
                f"ResourceClaim {name} is in use, and isn't what its template asks for now; stop the VM to replace it"
            )
            said.append(warning(self._vm, CHANGES_LATER, text))
        return said

    def _released(self, release: KeepEnd) -> ClaimWrites:
        actions: list[Write] = []
        if self._claim.status.allocation is not None or self._claim.status.reserved_for:
            actions.append(_with_consumers(self._claim, ()))
        if release.removes:
            actions.append(Delete.object(self._claim))
        text = f"ResourceClaim {visible(self._claim.name)} is released: {release.message}"
        return ClaimWrites(tuple(actions), (normal(self._vm, RELEASED, text),), release.reason)

    def _held(self) -> ClaimWrites:
        """Keep the claim: the VM among its consumers as long as it is allocated (P-2), the marks up to date."""
        actions: list[Write] = []
        events: list[Event] = []
        consumers = self._consumers()
        if consumers != self._claim.status.reserved_for:
            actions.append(_with_consumers(self._claim, consumers))
        marks = self._marks()
        if marks:
            actions.append(PatchAnnotations.on(self._claim, marks))
        asked = RELEASE_ANNOTATION in self._claim.metadata.annotations
        if asked and self._situation.allocated:  # an allocated claim that isn't released is in use, or about to be
            text = f"ResourceClaim {visible(self._claim.name)} isn't released, as the VM runs; stop it first"
            events.append(warning(self._vm, RELEASE_VOID, text))
        return ClaimWrites(tuple(actions), tuple(events))

    def _consumers(self) -> tuple[ResourceClaimConsumerReference, ...]:
        own = vm_reference(self._vm)
        holds = own in self._claim.status.reserved_for
        wants = self._situation.terms is not None and self._vm.metadata.deletion_timestamp is None
        if self._claim.status.allocation is None:
            return self._claim.status.reserved_for
        if not holds and not wants and not self._pods:
            return self._claim.status.reserved_for  # the claim controller's to release
        kept = tuple(consumer for consumer in self._claim.status.reserved_for if consumer in (own, *self._pods))
        return kept if holds or not wants else (*kept, own)

    def _marks(self) -> dict[str, str | None]:
        """What to change of the claim's annotations."""
        situation = self._situation
        stopped = situation.allocated and not situation.runs and not self._pods
        away = situation.allocated and bool(node_absence(situation))
        marks: dict[str, str | None] = {}
        for annotation, holds in ((STOPPED_ANNOTATION, stopped), (NODE_LOST_ANNOTATION, away)):
            if holds and marked_time(self._claim, annotation, self._now) is None:
                marks[annotation] = format_time(self._now)
            elif not holds and annotation in self._claim.metadata.annotations:
                marks[annotation] = None
        if RELEASE_ANNOTATION in self._claim.metadata.annotations:
            marks[RELEASE_ANNOTATION] = None
        recorded = recorded_terms(self._claim.metadata.annotations)
        if situation.entry and self._vmi is not None and recorded:
            asked = recorded_terms(self._vmi.metadata.annotations)
            if asked and asked != recorded:
                marks |= {name: asked.get(name) for name in (KEEP_ANNOTATION, NODE_LOSS_ANNOTATION)}
        return marks


def _made(inputs: KeepingInputs, vm: VirtualMachine) -> tuple[list[ClaimWrites], list[Event]]:
    """The claims to make for a VMI that starts, and why others can't be made."""
    vmi = inputs.vmi
    if vmi is None or vmi.finished or vmi.metadata.deletion_timestamp or vm.metadata.deletion_timestamp:
        return [], []
    made: list[ClaimWrites] = []
    said: list[Event] = []
    ours = {claim.name: claim for claim in inputs.claims}
    for entry, template_name in sorted(kept_entries(vmi).items()):
        name = kept_claim_name(vm.name, entry)
        there = ours.get(name) or inputs.others.get(name)
        template = inputs.templates.get(template_name)
        shown = visible(name)
        if there is not None and _is_of_earlier(there, vm):
            text = f"ResourceClaim {shown} is still being deleted; it is made again once that is gone"
            said += _both(vm, vmi, EARLIER_CLAIM, text)
        elif there is not None and not (is_kept(there) and _is_of(there, vm)):
            other = vm_name_of(there)
            whose = f"is kept by VM {visible(other)}: rename" if other else "isn't the VM's: delete it, or rename"
            said += _both(vm, vmi, NAME_TAKEN, f"ResourceClaim {shown} {whose} entry {visible(entry)}")
        elif there is None and template is None:
            if _is_of_line(vmi, entry, template_name):
                continue  # the operator makes it at this moment, or says why it can't
            text = f"ResourceClaim {shown} can't be made: there is no ResourceClaimTemplate {visible(template_name)}"
            said += _both(vm, vmi, TEMPLATE_MISSING, text)
        elif there is None and template is not None:
            made.append(ClaimWrites((Create(kept_claim(vm, entry, template, vmi.metadata.annotations)),)))
    return made, said


def _is_of_line(vmi: VirtualMachineInstance, entry: str, template: str) -> bool:
    """True for an entry that the VM's line of profiles stands for, whose template the operator makes."""
    try:
        items = {item.name or item.profile for item in asked_profiles(vmi.metadata.annotations)}
    except RefusedLineError:  # which the operator reports
        return True
    return entry in items and template == name_of_template(vmi.name, entry)


def _both(vm: VirtualMachine, vmi: VirtualMachineInstance, reason: str, message: str) -> list[Event]:
    """A warning on VM and VMI: neither of them shows why the pod waits (P-7)."""
    objects: tuple[TypedObject, ...] = (vm, vmi)
    return [warning(obj, reason, message) for obj in objects]


def _about_vm(inputs: KeepingInputs, vm: VirtualMachine) -> list[Event]:
    """What a VM that runs should know: its annotations mean nothing, or only something from its next start on."""
    vmi = inputs.vmi
    try:
        terms = keep_terms(*vm_keep_annotations(vm))
    except KeepingError as error:
        return [warning(vm, INVALID_TERMS, str(error))]
    if terms is None or vmi is None or vmi.finished or vmi.metadata.deletion_timestamp is not None:
        return []
    limited = _limited(inputs, vm, terms)
    late = [entry.name for entry in vmi.spec.resource_claims if entry.resource_claim_template_name]
    if not late:
        return limited
    entries = ", ".join(map(visible, sorted(late)))
    asks_in_template = KEEP_ANNOTATION in vm.spec.template.metadata.annotations
    where = "" if asks_in_template else f"; beside KubeVirt if {KEEP_ANNOTATION} stands in its template, too (P-10)"
    return [*limited, normal(vm, STARTS_LATER, f"the devices of {entries} are kept from the VM's next start on{where}")]


def _limited(inputs: KeepingInputs, vm: VirtualMachine, terms: KeepTerms) -> list[Event]:
    """What a VM asks for and won't get when it stops, however few devices others keep."""
    own: Counter[str] = Counter()
    for name in kept_entries(inputs.vmi).values() if inputs.vmi is not None else ():
        if name in inputs.templates:
            own.update(least_devices(inputs.templates[name].spec.spec))
    shortfall = inputs.limits.shortfall(own, terms)
    return [warning(vm, LIMITED, shortfall)] if shortfall else []
