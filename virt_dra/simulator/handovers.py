"""All VMs through the six hand-overs, in order: admission, launcher pod, claims, placement, deviceStatus, domain XML.

Each hand-over is a controller's gather, plan, apply over the cluster's port, or a pure function; this module only puts them in order,
plays the kubelet in between, and collects what each said about each VM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from launcher import LauncherError, convert
from launcher.errors import COUNT_MISMATCH
from virt_dra.allocator.explain import lines
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import PermittedHostDevices, VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceSpec
from virt_dra.api.kubevirt_versions import Gates
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.cluster.port import ApiError, Cluster
from virt_dra.controllers.devices.outcomes import CLAIM_MISSING
from virt_dra.controllers.devices.published import PublishedDevices
from virt_dra.controllers.events import Event
from virt_dra.controllers.loops import claims, device_status, scheduler
from virt_dra.controllers.loops.virtual_machines import instance_of
from virt_dra.controllers.pods import launcher_pods
from virt_dra.controllers.pods.current_pod import current_pod, launcher_pods_of, owner_uids
from virt_dra.controllers.sources import claim_keys
from virt_dra.scheduling.placement import NodeOutcome, Unplaced
from virt_dra.simulator import advice
from virt_dra.simulator.claim_actions import carried_out, subject_of
from virt_dra.simulator.devices import DeviceSources, entries_of, published_status, variables_of, with_elements, without_plugin_devices
from virt_dra.simulator.input_vms import Life
from virt_dra.simulator.outcome import ClaimOutcome, HandOver, HandOverFailure, VmOutcome
from webhooks.verdict import AdmissionCause, Verdict
from webhooks.vmi import review

RunClock = Callable[[], datetime]

ROUNDS = 5
"""Rounds of scheduling. A round that gives devices back (C-5.6) makes another one worth while."""


@dataclass(frozen=True)
class Conditions:
    """What holds for every VM of a run."""

    gates: Gates
    permitted_host_devices: PermittedHostDevices | None = None
    only_node: str | None = None


@dataclass
class _Traveller:
    """A VM on its way. ``outcome`` grows step by step; with a failure in it the VM travels no further."""

    outcome: VmOutcome
    life: Life
    vmi: VirtualMachineInstance | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """The metadata files of its pod."""

    @property
    def on_the_way(self) -> bool:
        return self.outcome.failure is None and self.vmi is not None

    @property
    def taken_over(self) -> bool:
        return self.life.vmi is not None

    @property
    def turn(self) -> int:
        """Pods that are there come first, those of stopped VMs last."""
        return 0 if self.taken_over else 2 if self.life.stopped else 1

    def fail(self, step: HandOver, reason: str, message: str, advice: str, details: Iterable[str] = ()) -> None:
        if self.outcome.failure is None:
            self.outcome = replace(self.outcome, failure=HandOverFailure(step, reason, message, advice, tuple(details)))


async def drive(cluster: Cluster, lives: Sequence[Life], conditions: Conditions, clock: RunClock) -> tuple[VmOutcome, ...]:
    """Drive VMs and VMIs. They compete for devices in the given order, those that have a pod already before the others, and those that
    aren't to run after them. What is taken over is in the cluster already."""
    travellers = [_traveller(life) for life in lives]
    for traveller in travellers:
        await _admit(cluster, traveller, conditions.gates)
    await _make_pods(cluster, travellers, conditions)
    await _make_claims(cluster, travellers)
    await _schedule(cluster, travellers, conditions, clock)
    await _start_pods(cluster, travellers)
    await _resolve_devices(cluster, travellers, clock)
    await _define_domains(cluster, travellers, conditions)
    return tuple(traveller.outcome for traveller in travellers)


def _traveller(life: Life) -> _Traveller:
    subject = life.subject.object
    outcome = VmOutcome(subject.KIND, subject.namespace, subject.name, str(life.subject.source), taken_over=life.vmi is not None)
    return _Traveller(outcome, life)


# --- admission ----------------------------------------------------------------------------------------------------


async def _admit(cluster: Cluster, traveller: _Traveller, gates: Gates) -> None:
    life, subject = traveller.life, traveller.life.subject.object
    verdict = _verdict(life, gates)
    traveller.outcome = replace(traveller.outcome, warnings=(*verdict.warnings, *life.notes))
    if life.blocked is not None:
        traveller.fail(HandOver.ADMISSION, life.blocked.reason, life.blocked.message, life.blocked.advice)
        return
    if life.vmi is not None and life.pod is not None:
        denied = () if verdict.allowed else (f"it runs, but would be refused if it were created now: {verdict.message}",)
        noted = published_status(life.vmi)
        known = {"deviceStatus": noted.to_wire()} if noted is not None and life.vmi.status.device_status is None else {}
        traveller.vmi = await cluster.patch(VirtualMachineInstance, life.vmi.name, life.vmi.namespace, merge={"status": known})
        traveller.outcome = replace(traveller.outcome, pod=life.pod.name, warnings=(*traveller.outcome.warnings, *denied))
        return
    if not verdict.allowed:
        details = tuple(f"{cause.field}: {cause.message}" for cause in verdict.causes)
        needed = advice.admission(verdict, advice.gates_needed(_instance_spec(life.reviewed)) - gates.on, gates)
        traveller.fail(HandOver.ADMISSION, verdict.causes[0].type, verdict.message, needed, details)
        return
    try:
        if isinstance(subject, VirtualMachine):
            vm = (
                await cluster.get(VirtualMachine, subject.name, subject.namespace) if life.stored else await cluster.create(_fresh(subject))
            )
            template = life.reviewed.spec.template if isinstance(life.reviewed, VirtualMachine) else vm.spec.template
            traveller.vmi = await cluster.create(instance_of(vm.with_(spec=vm.spec.with_(template=template))))
        else:
            traveller.vmi = await cluster.create(_fresh(subject))
    except ApiError as error:
        traveller.fail(HandOver.ADMISSION, error.reason, str(error), "change what the message names; a name must be free and well-formed")


def _verdict(life: Life, gates: Gates) -> Verdict:
    """KubeVirt's: it looks no further than an instancetype that doesn't go with the VM (K-16)."""
    refusals = life.expansion.refusals if life.expansion is not None else ()
    if refusals:
        return Verdict(False, tuple(AdmissionCause(each.type, each.message, each.field) for each in refusals))
    return review(life.reviewed, gates)


S = TypeVar("S", VirtualMachine, VirtualMachineInstance)


def _fresh(subject: S) -> S:
    """The object as its owner would create it: what a server set, and status, belong to another life of it."""
    given = subject.metadata
    kept = {field: getattr(given, field) for field in ("name", "generate_name", "namespace", "labels", "annotations") if given.given(field)}
    wire = {key: value for key, value in subject.to_wire().items() if key != "status"}
    return type(subject).from_wire(wire).with_(metadata=ObjectMeta(**kept))


def _instance_spec(subject: VirtualMachine | VirtualMachineInstance) -> VirtualMachineInstanceSpec:
    return subject.spec.template.spec if isinstance(subject, VirtualMachine) else subject.spec


# --- launcher pods ------------------------------------------------------------------------------------------------


async def _make_pods(cluster: Cluster, travellers: Sequence[_Traveller], conditions: Conditions) -> None:
    by_uid = _by_uid(travellers)
    inputs = await launcher_pods.gather(cluster, conditions.gates, permitted_host_devices=conditions.permitted_host_devices)
    for action in launcher_pods.plan(inputs):
        traveller = by_uid.get(action.vmi.metadata.uid)
        if traveller is None or traveller.taken_over:
            continue
        if isinstance(action, launcher_pods.CannotRender):
            error = action.error
            traveller.fail(HandOver.LAUNCHER_POD, error.reason, error.message, f"correct {error.subject} of the VM")
            continue
        try:
            (pod,) = await launcher_pods.apply(cluster, (action,))
        except ApiError as error:
            traveller.fail(
                HandOver.LAUNCHER_POD,
                error.reason,
                str(error),
                "change the fields of the VM from which the pod gets the invalid value",
            )
            continue
        traveller.outcome = replace(traveller.outcome, pod=pod.name)


# --- claims -------------------------------------------------------------------------------------------------------


async def _make_claims(cluster: Cluster, travellers: Sequence[_Traveller]) -> None:
    """Claims for our pods, and what finished pods give back. What is refused is not tried again, and keeps no other pod waiting."""
    incomplete = await _without_their_claims(cluster, travellers)
    refused: dict[tuple[str, str], Event] = {}
    for _ in range(ROUNDS):
        inputs = await claims.gather(cluster)
        planned = claims.plan(inputs)
        pods = {pod.key: pod for pod in inputs.pods}
        actions = [each for each in carried_out(planned.actions, pods, incomplete) if subject_of(each) not in refused]
        events = await claims.apply(cluster, actions)
        refused.update(((event.kind, f"{event.namespace}/{event.name}"), event) for event in events)
        if not actions:
            break
    told = {(event.namespace, event.name): event for event in (*planned.events, *refused.values()) if event.kind == Pod.KIND}
    for traveller in _on_the_way(travellers):
        pod = await _pod(cluster, traveller)
        if pod is None:
            continue
        if event := told.get((pod.namespace, pod.name)):
            traveller.fail(HandOver.CLAIMS, event.reason, event.message, advice.claims(event.message, pod.namespace))
        traveller.outcome = replace(traveller.outcome, claims=_claims_of(pod))


async def _without_their_claims(cluster: Cluster, travellers: Sequence[_Traveller]) -> frozenset[str]:
    """The taken-over pods that have a node, and so had claims, some of which the input lacks. Their VMs fail here."""
    there = {claim.key for claim in (await cluster.list(ResourceClaim)).items}
    incomplete: set[str] = set()
    for traveller in _on_the_way(travellers):
        pod = await _pod(cluster, traveller)
        if pod is None or not traveller.taken_over or not pod.spec.node_name:
            continue
        missing = [claim.claim for claim in _claims_of(pod) if f"{pod.namespace}/{claim.claim}" not in there]
        if missing:
            incomplete.add(pod.key)
            message = f"pod {pod.name} has claims that the input lacks: {', '.join(missing)}"
            traveller.fail(HandOver.CLAIMS, CLAIM_MISSING, message, "add them: kubectl get resourceclaims -A -o yaml")
    return frozenset(incomplete)


def _claims_of(pod: Pod) -> tuple[ClaimOutcome, ...]:
    names = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    outcomes = []
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name or names.get(entry.name)
        if name:
            outcomes.append(ClaimOutcome(entry.name, name, entry.resource_claim_template_name))
    return tuple(outcomes)


# --- placement and allocation -------------------------------------------------------------------------------------


async def _schedule(cluster: Cluster, travellers: Sequence[_Traveller], conditions: Conditions, clock: RunClock) -> None:
    order = {f"{t.outcome.namespace}/{t.outcome.pod}": (t.turn, position) for position, t in enumerate(travellers) if t.on_the_way}
    unplaced: dict[str, Unplaced] = {}
    for _ in range(ROUNDS):
        inputs = await scheduler.gather(cluster)
        pods = sorted((pod for pod in inputs.pods if pod.key in order), key=lambda pod: order[pod.key])
        decisions = await scheduler.apply(
            cluster, scheduler.plan(replace(inputs, pods=tuple(pods)), only_node=conditions.only_node), clock()
        )
        unplaced = {decision.pod.key: decision.outcome for decision in decisions if isinstance(decision.outcome, Unplaced)}
        if not any(outcome.deallocate for outcome in unplaced.values()):
            break
    for traveller in _on_the_way(travellers):
        pod = await _pod(cluster, traveller)
        if pod is None:
            continue
        traveller.outcome = replace(traveller.outcome, node=pod.spec.node_name, devices=entries_of(_vmi(traveller), pod))
        if outcome := unplaced.get(pod.key):
            details = [line for node in outcome.nodes for line in _why_not(node)]
            traveller.fail(HandOver.PLACEMENT, outcome.reason, outcome.message, advice.placement(outcome), details)


def _why_not(node: NodeOutcome) -> list[str]:
    return lines(node.explanation) if node.explanation else [f"node {node.node}: {node.summary}"]


# --- the kubelet's and virt-controller's part -------------------------------------------------------------------------------------------


async def _start_pods(cluster: Cluster, travellers: Sequence[_Traveller]) -> None:
    for traveller in _on_the_way(travellers):
        pod, vmi = await _pod(cluster, traveller), traveller.vmi
        if pod is None or vmi is None or not pod.spec.node_name:
            continue
        if pod.status.phase != "Running":
            await cluster.patch(Pod, pod.name, pod.namespace, merge={"status": {"phase": "Running"}}, subresource="status")
        if traveller.taken_over and vmi.status.phase in ("Scheduled", "Running"):
            continue
        known = {"phase": "Scheduled", "nodeName": pod.spec.node_name, "activePods": {pod.metadata.uid: pod.spec.node_name}}
        await cluster.patch(VirtualMachineInstance, vmi.name, vmi.namespace, merge={"status": known})


# --- deviceStatus -------------------------------------------------------------------------------------------------


async def _observed(cluster: Cluster, now: datetime) -> device_status.DeviceStatusInputs:
    """What the resolution needs, also where VMIs have networks from claims and no devices."""
    inputs = await device_status.gather(cluster, now)
    if inputs.pods or not any(vmi.spec.networks for vmi in inputs.vmis):
        return inputs
    pods, found, slices = await cluster.list(Pod), await cluster.list(ResourceClaim), await cluster.list(ResourceSlice)
    return replace(inputs, pods=pods.items, claims=found.items, slices=slices.items)


async def _resolve_devices(cluster: Cluster, travellers: Sequence[_Traveller], clock: RunClock) -> None:
    by_uid = _by_uid(travellers)
    now = clock()
    inputs = await _observed(cluster, now)
    for event in await device_status.apply(cluster, device_status.plan(inputs).actions):
        if traveller := by_uid.get(event.uid):
            traveller.fail(HandOver.DEVICE_STATUS, event.reason, event.message, "report it to the driver: the API server refuses this status")
    published = PublishedDevices.of(inputs.slices)
    by_key = {claim.key: claim for claim in inputs.claims}
    owned: dict[str, list[Pod]] = {}
    for each in inputs.pods:
        for uid in owner_uids(each):
            owned.setdefault(uid, []).append(each)
    for traveller in _on_the_way(travellers):
        given = _vmi(traveller)
        vmi = traveller.vmi = await cluster.get(VirtualMachineInstance, given.name, given.namespace)
        pod = current_pod(vmi, launcher_pods_of(vmi, owned.get(vmi.metadata.uid, ())))
        named = (by_key.get(key) for key in (claim_keys(pod) if pod is not None else ()))
        known = DeviceSources(vmi, pod, tuple(claim for claim in named if claim is not None), published)
        found = known.settled(inputs.taint_rules)
        traveller.files = known.network_files(now)
        unhealthy = tuple(f"{each.subject}: {each.message}" for each in found.unhealthy)
        warnings = (*traveller.outcome.warnings, *unhealthy)
        traveller.outcome = replace(traveller.outcome, devices=entries_of(vmi, pod, found), warnings=warnings)
        unresolved = found.unresolved
        if unresolved:
            first = unresolved[0]
            details = [f"{each.subject}: {each.reason}: {each.message}" for each in unresolved] if len(unresolved) > 1 else ()
            traveller.fail(HandOver.DEVICE_STATUS, first.reason, f"{first.subject}: {first.message}", advice.device(first.reason), details)


# --- domain XML ---------------------------------------------------------------------------------------------------


async def _define_domains(cluster: Cluster, travellers: Sequence[_Traveller], conditions: Conditions) -> None:
    for traveller in _on_the_way(travellers):
        vmi, pod = traveller.vmi, await _pod(cluster, traveller)
        if vmi is None:
            continue
        files, env = traveller.files or None, variables_of(pod) if pod is not None else {}
        left_out: tuple[str, ...] = ()
        try:
            try:
                rendered = convert(vmi, env, pod=pod, kubevirt=conditions.gates.version, files=files)
            except LauncherError as error:
                if error.reason != COUNT_MISMATCH or not traveller.taken_over or vmi.status.phase != "Running":
                    raise
                vmi, left_out = without_plugin_devices(vmi)
                rendered = convert(vmi, env, pod=pod, kubevirt=conditions.gates.version, files=files)
        except LauncherError as error:
            traveller.fail(HandOver.DOMAIN_XML, error.reason, str(error), advice.launcher(error))
            continue
        devices = with_elements(traveller.outcome.devices, rendered.hostdevs)
        warnings = (*traveller.outcome.warnings, *left_out, *rendered.warnings)
        traveller.outcome = replace(traveller.outcome, devices=devices, domain=rendered.domain_xml, warnings=warnings)


# --- looking up ---------------------------------------------------------------------------------------------------


def _on_the_way(travellers: Iterable[_Traveller]) -> list[_Traveller]:
    return [traveller for traveller in travellers if traveller.on_the_way]


def _by_uid(travellers: Iterable[_Traveller]) -> Mapping[str, _Traveller]:
    return {traveller.vmi.metadata.uid: traveller for traveller in _on_the_way(travellers) if traveller.vmi is not None}


def _vmi(traveller: _Traveller) -> VirtualMachineInstance:
    if traveller.vmi is None:
        raise AssertionError(f"{traveller.outcome.name} has no VMI, so it is not on the way")
    return traveller.vmi


async def _pod(cluster: Cluster, traveller: _Traveller) -> Pod | None:
    name = traveller.outcome.pod
    return await cluster.get(Pod, name, traveller.outcome.namespace) if name else None
