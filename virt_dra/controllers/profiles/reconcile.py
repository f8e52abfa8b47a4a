"""Makes the templates of a VMI's claims that its line of profiles stands for, and says what keeps it from that; those
of an earlier VMI of its name, which nobody may ever collect, are deleted (P-15). It comes before the rest of a VMI's
reconcile, since the VM waits for its claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from virt_dra.api.keeping.claims import kept_claim_name, kept_entries, with_templates
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.profiles.alignment import PreferredAlignment
from virt_dra.api.profiles.asking import RefusedLineError, asked_profiles
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.expansion import PROFILE_LABEL, template_name
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from virt_dra.api.virt_dra_v1alpha1 import PROFILES_APPLIED
from virt_dra.api.wire import Json
from virt_dra.cluster.port import Cluster
from virt_dra.controllers.conditions import condition_of, put
from virt_dra.controllers.devices.inputs import DeviceInputs
from virt_dra.controllers.devices.outcomes import (
    CLAIM_NOT_GENERATED,
    POD_MISSING,
    DeviceResolution,
    ResolutionOutcome,
    UnresolvedDevice,
)
from virt_dra.controllers.events import Event, normal, shortened, warning
from virt_dra.controllers.fresh_reads import is_there
from virt_dra.controllers.profiles import taken_back
from virt_dra.controllers.profiles.aligning import (
    alignment_request,
    asked_for,
    decided_by_kept_claims,
    given_up,
    with_choice,
)
from virt_dra.controllers.profiles.drift import drift
from virt_dra.controllers.profiles.needed import is_of_earlier, needed_objects, objection
from virt_dra.controllers.profiles.problems import APPLIED, NOT_ALIGNED, TEMPLATE_REFUSED, ProfileProblem
from virt_dra.controllers.reconciled import Align, Reconciled, earliest
from virt_dra.controllers.sources import Sources
from virt_dra.controllers.writes import Create, Delete, write

_AGAIN: Final = timedelta(seconds=30)
"""Pause before the next attempt where another's template is in the way, which may not be watched."""
_MESSAGE: Final = 4096


@dataclass(frozen=True)
class ProfileInputs:
    """The inputs of a VMI's plan. ``vm``: the VMI's owner. ``templates``: those that entries of the VMI name and that
    are watched, by name. ``kept``: the claims that the VM keeps, by name."""

    vmi: VirtualMachineInstance
    vm: VirtualMachine | None
    profiles: Mapping[str, DeviceProfile]
    namespace_labels: Mapping[str, str]
    templates: Mapping[str, ResourceClaimTemplate]
    kept: Mapping[str, ResourceClaim] = field(default_factory=dict)


@dataclass(frozen=True)
class ProfilesPlan:
    """What a VMI's line needs. ``missing``: the templates to create; ``wanted``: all of the line, without preferences.
    ``preferences``: alignments that claims may ask for; ``held``: those that the templates ask for; ``unaligned``: what
    they don't. ``unmade``: what keeps others from existing, by name. ``left_behind``: those that were made for an
    earlier VMI. ``general``: what is wrong with the line, or has changed about it."""

    missing: tuple[ResourceClaimTemplate, ...] = ()
    wanted: tuple[ResourceClaimTemplate, ...] = ()
    preferences: tuple[PreferredAlignment, ...] = ()
    held: tuple[PreferredAlignment, ...] = ()
    unaligned: tuple[str, ...] = ()
    unmade: Mapping[str, ProfileProblem] = field(default_factory=dict)
    general: ProfileProblem | None = None
    left_behind: tuple[ResourceClaimTemplate, ...] = ()


@dataclass(frozen=True)
class AppliedProfiles:
    """The result of reconciling a VMI's line. ``unmade``: why a template is missing, by its name. ``problem``: what the
    condition says, None if all is as asked. ``unaligned``: devices that are apart against a preference. ``lost``: the
    Event with which the VMI is to be made anew, as what its claims ask for was taken."""

    vmi: VirtualMachineInstance
    vm: VirtualMachine | None
    unmade: Mapping[str, ProfileProblem]
    problem: ProfileProblem | None
    unaligned: tuple[str, ...]
    reconciled: Reconciled
    lost: Event | None = None

    def added_to(self, conditions: Sequence[Json], now: datetime) -> tuple[Json, ...]:
        """The conditions with ProfilesApplied."""
        if self.problem is None:
            message = shortened("; ".join(self.unaligned), _MESSAGE)
            return put(conditions, PROFILES_APPLIED, "True", NOT_ALIGNED if message else APPLIED, message, now)
        message = shortened(self.problem.message, _MESSAGE)
        return put(conditions, PROFILES_APPLIED, "False", self.problem.reason, message, now)

    def events_since(self, conditions: Iterable[Json]) -> tuple[Event, ...]:
        """The Events on VM and VMI for a new problem, or the end of one, since ``conditions``. A refused write has its
        own."""
        before = condition_of(conditions, PROFILES_APPLIED) or {}
        about = [obj for obj in (self.vm, self.vmi) if obj is not None]
        if self.problem is None:
            message = "the VM has the devices that its line of profiles stands for"
            solved = before.get("status") == "False"
            events = [normal(obj, PROFILES_APPLIED, message) for obj in about] if solved else []
            if self.unaligned and before.get("reason") != NOT_ALIGNED:
                events += [normal(obj, NOT_ALIGNED, shortened("; ".join(self.unaligned))) for obj in about]
            return tuple(events)
        if self.problem.reason in (TEMPLATE_REFUSED, before.get("reason")):
            return ()
        return tuple(warning(obj, self.problem.reason, shortened(self.problem.message)) for obj in about)

    def shown_in(self, resolution: DeviceResolution) -> DeviceResolution:
        """The resolution, with what keeps a template from existing at the devices that wait for its claim."""
        by_entry = {
            entry.name: self.unmade[name]
            for entry in self.vmi.spec.resource_claims
            if (name := entry.resource_claim_template_name) in self.unmade and name
        }
        return replace(resolution, outcomes=tuple(_shown(outcome, by_entry) for outcome in resolution.outcomes))


def _shown(outcome: ResolutionOutcome, by_entry: Mapping[str, ProfileProblem]) -> ResolutionOutcome:
    problem = by_entry.get(outcome.subject.claim_name)
    waits = isinstance(outcome, UnresolvedDevice) and outcome.reason in (POD_MISSING, CLAIM_NOT_GENERATED)
    if problem is None or not waits:
        return outcome
    return UnresolvedDevice(outcome.subject, problem.reason, "pending", problem.message)


def gather(sources: Sources, vmi: VirtualMachineInstance) -> ProfileInputs:
    """The inputs of a VMI; kept claims are made from the same templates as others."""
    vm, kept = sources.vm(vmi.key), kept_entries(vmi)
    vmi = with_templates(vmi)
    names = {entry.resource_claim_template_name or "" for entry in vmi.spec.resource_claims}
    templates = {name: sources.template(f"{vmi.namespace}/{name}") for name in sorted(names)}
    vm = vm if vm is not None and vmi.is_controlled_by(vm) else None
    named = (sources.claim(f"{vmi.namespace}/{kept_claim_name(vmi.name, entry)}") for entry in kept)
    return ProfileInputs(
        vmi,
        vm,
        sources.profiles(),
        sources.namespace_labels(vmi.namespace),
        {name: template for name, template in templates.items() if template is not None},
        {claim.name: claim for claim in named if claim is not None and vm is not None and claim.is_controlled_by(vm)},
    )


def plan(inputs: ProfileInputs) -> ProfilesPlan | None:
    """The plan for a VMI; None if it asks for no profiles. What runs keeps its templates."""
    vmi, templates = inputs.vmi, inputs.templates
    changed = drift(vmi, inputs.vm, inputs.profiles)
    if _has_all(inputs):
        return ProfilesPlan(general=changed)
    needed = needed_objects(vmi, inputs.profiles, inputs.namespace_labels)
    if isinstance(needed, ProfileProblem):
        lost = {
            name: needed
            for entry in vmi.spec.resource_claims
            if (name := entry.resource_claim_template_name) == template_name(vmi.name, entry.name)
            and not (name in templates and templates[name].is_controlled_by(vmi))
        }
        return ProfilesPlan(unmade=lost, general=changed or needed)
    if not needed.templates and changed is None:
        return None
    pairs = [(templates[template.name], template) for template in needed.templates if template.name in templates]
    objections = ((stored.name, objection(stored, template, vmi)) for stored, template in pairs)
    own = {name: template for name, template in templates.items() if template.is_controlled_by(vmi)}
    return ProfilesPlan(
        tuple(template for template in needed.templates if template.name not in templates),
        needed.templates,
        needed.preferences,
        asked_for(vmi, own, needed.preferences),
        given_up(vmi, own, needed.preferences),
        {name: problem for name, problem in objections if problem is not None},
        changed,
        tuple(stored for stored, _ in pairs if _is_left_behind(stored, vmi)),
    )


def _is_left_behind(stored: ResourceClaimTemplate, vmi: VirtualMachineInstance) -> bool:
    ours = PROFILE_LABEL in stored.metadata.labels and len(stored.metadata.owner_references) == 1
    return ours and is_of_earlier(stored, vmi) and stored.metadata.deletion_timestamp is None


def _has_all(inputs: ProfileInputs) -> bool:
    """True if every template of the VMI's line was made for it, so that the line needn't be written out again; of
    profiles without preferences, which the templates are compared with."""
    try:
        asked = asked_profiles(inputs.vmi.metadata.annotations)
    except RefusedLineError:
        return False
    profiles = [inputs.profiles.get(item.profile) for item in asked]
    if any(profile is None or not all(rule.is_required for rule in profile.spec.align) for profile in profiles):
        return False
    made = (inputs.templates.get(template_name(inputs.vmi.name, item.name or item.profile)) for item in asked)
    return bool(asked) and all(
        template is not None and template.is_controlled_by(inputs.vmi) and template.metadata.deletion_timestamp is None
        for template in made
    )


async def reconcile(
    sources: Sources, cluster: Cluster, devices: DeviceInputs, align: Align | None = None
) -> AppliedProfiles | None:
    """Gather, plan and create for a VMI that hasn't finished; None if it asks for no profiles. Raises :class:`ApiError`
    for a write to retry. ``align``: chooses what is preferred, None while it hasn't; without it nothing is."""
    inputs, now = gather(sources, devices.vmi), devices.now
    vmi = inputs.vmi
    planned = plan(inputs)
    if planned is None:
        return None
    unmade = dict(planned.unmade)
    refused: list[Event] = []
    stale, written = False, 0
    unaligned = list(planned.unaligned)
    kept = decided_by_kept_claims(vmi, planned.preferences, inputs.kept)
    missing = tuple(with_choice(vmi, template, [*chain(*kept.values())]) for template in planned.missing)
    open_choices = [own for own in planned.preferences if own.entry not in kept]
    request = alignment_request(vmi, missing, open_choices) if align is not None else None
    if align is not None and request is not None:
        choice = align(vmi.key, request)
        if choice is None:
            return None  # the VMI is requeued once it is known
        held = tuple(request.preferences[number] for number in choice.held)
        missing = tuple(with_choice(vmi, template, held) for template in missing)
    unaligned += given_up(vmi, {template.name: template for template in missing}, planned.preferences)
    for template in missing:
        result = await write(cluster, (Create(template),), vmi)
        if result.done:
            written += 1
        elif result.stale:
            problem = await _in_the_way(cluster, template, vmi)
            stale = stale or problem is None
            unmade |= {template.name: problem} if problem is not None else {}
        for event in result.refused:
            unmade[template.name] = ProfileProblem(TEMPLATE_REFUSED, event.message)
            refused += [event, *_of_the_vm(event, inputs.vm)]
    if planned.left_behind and await is_there(cluster, vmi):
        result = await write(cluster, [Delete.object(template) for template in planned.left_behind], vmi)
        refused += result.refused
        stale, written = stale or result.stale, written + (len(planned.left_behind) if result.done else 0)
    problem = planned.general or next(iter(unmade.values()), None)
    again = now + _AGAIN if unmade and not refused else None
    lost, asks_again = _lost(inputs, planned, devices, align) if align is not None else (None, None)
    done = Reconciled(tuple(refused), stale=stale, requeue_at=earliest(again, asks_again), written=written)
    return AppliedProfiles(vmi, inputs.vm, unmade, problem, tuple(dict.fromkeys(unaligned)), done, lost)


def _lost(
    inputs: ProfileInputs, planned: ProfilesPlan, devices: DeviceInputs, align: Align
) -> tuple[Event | None, datetime | None]:
    """The Event of an alignment that the VMI's claims ask for and can't get any more; and when to ask again."""
    vm, vmi = inputs.vm, inputs.vmi
    if vm is None or devices.pod is None or not planned.held or planned.missing or not taken_back.restarts(vm, vmi):
        return None, None
    asked = taken_back.asked_at(devices.pod, devices.claims, devices.now, devices.options.count_from)
    if asked is None:
        return None, None
    number, then = asked
    request = alignment_request(vmi, planned.wanted, planned.preferences, number, planned.held) if number else None
    choice = align(vmi.key, request) if request is not None else None
    if request is None or choice is None or not taken_back.is_lost(planned.held, request.preferences, choice):
        return None, then
    left = [own.given_up for number, own in enumerate(request.preferences) if number not in choice.held]
    return taken_back.event(vm, devices.pod, left), then


async def _in_the_way(
    cluster: Cluster, template: ResourceClaimTemplate, vmi: VirtualMachineInstance
) -> ProfileProblem | None:
    """The problem with the template of that name, unwatched without our label; None if the informer is only late."""
    named = (await cluster.list(ResourceClaimTemplate, vmi.namespace, fields=f"metadata.name={template.name}")).items
    problems = (objection(stored, template, vmi) for stored in named)
    return next((problem for problem in problems if problem is not None), None)


def _of_the_vm(event: Event, vm: VirtualMachine | None) -> Iterable[Event]:
    if vm is not None:
        yield warning(vm, event.reason, event.message)
