"""Runs all VMs through the six hand-overs, in order: admission, launcher pod, claims, placement, deviceStatus, domain
XML. Calls controllers and pure functions, simulates the kubelet in between, and collects the outcome for each VM."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from launcher import AddressSources, LauncherError, convert
from launcher.errors import COUNT_MISMATCH
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import PermittedHostDevices, VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import Gates, KubeVirtVersion
from virt_dra.api.meta import ObjectMeta, TypedObject
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.cluster.port import ApiError, Cluster
from virt_dra.controllers.devices.outcomes import CLAIM_MISSING
from virt_dra.controllers.events import Event
from virt_dra.controllers.loops import claims, device_status
from virt_dra.controllers.loops.scheduler import batch as scheduler
from virt_dra.controllers.loops.virtual_machines import instance_of
from virt_dra.controllers.pods import launcher_pods
from virt_dra.controllers.pods.current_pod import current_pod, launcher_pods_of, owner_uids
from virt_dra.model.published import PublishedDevices
from virt_dra.scheduling.placement import Unplaced
from virt_dra.scheduling.why.groups import grouped, nearest_text
from virt_dra.scheduling.why.listing import refusal_lines
from virt_dra.simulator import advice
from virt_dra.simulator.claim_actions import relevant, subject_of
from virt_dra.simulator.devices import (
    DeviceSources,
    entries_of,
    published_status,
    unread_devices,
    variables_of,
    with_elements,
    without_plugin_devices,
)
from virt_dra.simulator.input_vms import InputVm
from virt_dra.simulator.outcome import ClaimOutcome, HandOver, HandOverFailure, VmOutcome
from webhooks.verdict import AdmissionCause, Verdict
from webhooks.vmi import review

RunClock = Callable[[], datetime]

ROUNDS = 5
"""Maximum rounds of scheduling. Another round is useful after one that deallocates a claim (C-5.6)."""


@dataclass(frozen=True)
class Conditions:
    """The conditions that are the same for every VM of a run."""

    gates: Gates
    permitted_host_devices: PermittedHostDevices | None = None
    only_node: str | None = None
    unread: frozenset[type[TypedObject]] = frozenset()
    """Kinds that the input doesn't have, although every cluster has some."""


@dataclass
class _VmRun:
    """The run of one VM. ``outcome`` grows with each hand-over; a failure in it ends the run."""

    outcome: VmOutcome
    given: InputVm
    vmi: VirtualMachineInstance | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """The metadata files of its pod."""

    @property
    def continues(self) -> bool:
        return self.outcome.failure is None and self.vmi is not None

    @property
    def taken_over(self) -> bool:
        return self.given.vmi is not None

    @property
    def turn(self) -> int:
        """Order of scheduling: existing pods first, those of stopped VMs last."""
        return 0 if self.taken_over else 2 if self.given.stopped else 1

    def fail(self, step: HandOver, reason: str, message: str, advice: str, details: Iterable[str] = ()) -> None:
        if self.outcome.failure is None:
            self.outcome = replace(self.outcome, failure=HandOverFailure(step, reason, message, advice, tuple(details)))


async def drive(
    cluster: Cluster, vms: Sequence[InputVm], conditions: Conditions, clock: RunClock
) -> tuple[VmOutcome, ...]:
    """The outcomes of VMs and VMIs. They compete in this order, running ones first, stopped ones last. The objects of
    running ones are there."""
    runs = [_vm_run(given) for given in vms]
    for run in runs:
        await _admit(cluster, run, conditions.gates)
    await _make_pods(cluster, runs, conditions)
    await _make_claims(cluster, runs)
    await _schedule(cluster, runs, conditions, clock)
    await _start_pods(cluster, runs)
    await _resolve_devices(cluster, runs, clock, conditions.gates.version)
    await _define_domains(cluster, runs, conditions)
    return tuple(run.outcome for run in runs)


def _vm_run(given: InputVm) -> _VmRun:
    subject = given.subject.object
    running, source = given.vmi is not None, str(given.subject.source)
    outcome = VmOutcome(subject.KIND, subject.namespace, subject.name, source, taken_over=running)
    return _VmRun(outcome, given)


# --- admission ----------------------------------------------------------------------------------------------------


async def _admit(cluster: Cluster, run: _VmRun, gates: Gates) -> None:
    """Admits a VM, or takes over a running one."""
    given = run.given
    verdict = _verdict(given, gates)
    run.outcome = replace(run.outcome, warnings=(*verdict.warnings, *given.notes))
    if given.blocked is not None:
        run.fail(HandOver.ADMISSION, given.blocked.reason, given.blocked.message, given.blocked.advice)
        return
    if given.vmi is not None and given.pod is not None:
        await _take_over(cluster, run, given.vmi, given.pod, verdict)
    elif verdict.allowed:
        await _create(cluster, run)
    else:
        details = tuple(f"{cause.field}: {cause.message}" for cause in verdict.causes)
        spec = given.reviewed.spec.template.spec if isinstance(given.reviewed, VirtualMachine) else given.reviewed.spec
        needed = advice.admission(verdict, advice.gates_needed(spec) - gates.on, gates)
        run.fail(HandOver.ADMISSION, verdict.causes[0].type, verdict.message, needed, details)


async def _take_over(cluster: Cluster, run: _VmRun, vmi: VirtualMachineInstance, pod: Pod, verdict: Verdict) -> None:
    """Takes over a running VM, with the status that virt-dra's operator recorded on it."""
    refused = f"it is running, but would be refused if it were created now: {verdict.message}"
    denied = () if verdict.allowed else (refused,)
    recorded = published_status(vmi)
    status = {"deviceStatus": recorded.to_wire()} if recorded is not None and vmi.status.device_status is None else {}
    run.vmi = await cluster.patch(VirtualMachineInstance, vmi.name, vmi.namespace, merge={"status": status})
    run.outcome = replace(run.outcome, pod=pod.name, warnings=(*run.outcome.warnings, *denied))


async def _create(cluster: Cluster, run: _VmRun) -> None:
    """Creates the VMI of an admitted VM, and the VM unless it is stored."""
    given, subject = run.given, run.given.subject.object
    try:
        if isinstance(subject, VirtualMachine):
            stored = await cluster.get(VirtualMachine, subject.name, subject.namespace) if given.stored else None
            vm = stored or await cluster.create(_fresh(subject))
            template = given.reviewed.spec.template if isinstance(given.reviewed, VirtualMachine) else vm.spec.template
            run.vmi = await cluster.create(instance_of(vm.with_(spec=vm.spec.with_(template=template))))
        else:
            run.vmi = await cluster.create(_fresh(subject))
    except ApiError as error:
        remedy = "change what the message names; a name must be free and well-formed"
        run.fail(HandOver.ADMISSION, error.reason, str(error), remedy)


def _verdict(given: InputVm, gates: Gates) -> Verdict:
    """KubeVirt's verdict: an instancetype that conflicts with the VM ends its validation (K-16)."""
    refusals = given.expansion.refusals if given.expansion is not None else ()
    if refusals:
        causes = tuple(AdmissionCause(refusal.type, refusal.message, refusal.field) for refusal in refusals)
        return Verdict(False, causes)
    return review(given.reviewed, gates)


S = TypeVar("S", VirtualMachine, VirtualMachineInstance)


def _fresh(subject: S) -> S:
    """The object as its owner would create it, without status and metadata that a server set."""
    given = subject.metadata
    names = ("name", "generate_name", "namespace", "labels", "annotations")
    kept = {field: getattr(given, field) for field in names if given.given(field)}
    wire = {key: value for key, value in subject.to_wire().items() if key != "status"}
    return type(subject).from_wire(wire).with_(metadata=ObjectMeta(**kept))


# --- launcher pods ------------------------------------------------------------------------------------------------


async def _make_pods(cluster: Cluster, runs: Sequence[_VmRun], conditions: Conditions) -> None:
    by_uid = _by_uid(runs)
    permitted = conditions.permitted_host_devices
    inputs = await launcher_pods.gather(cluster, conditions.gates, permitted_host_devices=permitted)
    for action in launcher_pods.plan(inputs):
        run = by_uid.get(action.vmi.metadata.uid)
        if run is None or run.taken_over:
            continue
        if isinstance(action, launcher_pods.CannotRender):
            error = action.error
            run.fail(HandOver.LAUNCHER_POD, error.reason, error.message, f"correct {error.subject} of the VM")
            continue
        try:
            (pod,) = await launcher_pods.apply(cluster, (action,))
        except ApiError as error:
            remedy = "change the fields of the VM from which the pod gets the invalid value"
            run.fail(HandOver.LAUNCHER_POD, error.reason, str(error), remedy)
            continue
        run.outcome = replace(run.outcome, pod=pod.name)


# --- claims -------------------------------------------------------------------------------------------------------


async def _make_claims(cluster: Cluster, runs: Sequence[_VmRun]) -> None:
    """Create the claims of our pods, and release those of finished pods. Refused actions are not retried."""
    incomplete = await _without_their_claims(cluster, runs)
    refused: dict[tuple[str, str], Event] = {}
    for _ in range(ROUNDS):
        inputs = await claims.gather(cluster)
        planned = claims.plan(inputs)
        pods = {pod.key: pod for pod in inputs.pods}
        actions = [
            action for action in relevant(planned.actions, pods, incomplete) if subject_of(action) not in refused
        ]
        events = await claims.apply(cluster, actions)
        refused.update(((event.kind, f"{event.namespace}/{event.name}"), event) for event in events)
        if not actions:
            break
    reported = {
        (event.namespace, event.name): event for event in (*planned.events, *refused.values()) if event.kind == Pod.KIND
    }
    for run in _continuing(runs):
        pod = await _pod(cluster, run)
        if pod is None:
            continue
        if event := reported.get((pod.namespace, pod.name)):
            run.fail(HandOver.CLAIMS, event.reason, event.message, advice.claims(event.message, pod.namespace))
        run.outcome = replace(run.outcome, claims=_claims_of(pod))


async def _without_their_claims(cluster: Cluster, runs: Sequence[_VmRun]) -> frozenset[str]:
    """The pods that are taken over, have a node, and lack some of their claims in the input. Their VMs fail here."""
    existing = {claim.key for claim in (await cluster.list(ResourceClaim)).items}
    incomplete: set[str] = set()
    for run in _continuing(runs):
        pod = await _pod(cluster, run)
        if pod is None or not run.taken_over or not pod.spec.node_name:
            continue
        missing = [claim.claim for claim in _claims_of(pod) if f"{pod.namespace}/{claim.claim}" not in existing]
        if missing:
            incomplete.add(pod.key)
            message = f"pod {pod.name} has claims that the input lacks: {', '.join(missing)}"
            run.fail(HandOver.CLAIMS, CLAIM_MISSING, message, "add them: kubectl get resourceclaims -A -o yaml")
    return frozenset(incomplete)


def _claims_of(pod: Pod) -> tuple[ClaimOutcome, ...]:
    names = pod.claim_names
    return tuple(
        ClaimOutcome(entry.name, names[entry.name], entry.resource_claim_template_name)
        for entry in pod.spec.resource_claims
        if entry.name in names
    )


# --- placement and allocation -------------------------------------------------------------------------------------


async def _schedule(cluster: Cluster, runs: Sequence[_VmRun], conditions: Conditions, clock: RunClock) -> None:
    continuing = ((run, position) for position, run in enumerate(runs) if run.continues)
    order = {f"{run.outcome.namespace}/{run.outcome.pod}": (run.turn, position) for run, position in continuing}
    unplaced: dict[str, Unplaced] = {}
    for _ in range(ROUNDS):
        inputs = await scheduler.gather(cluster, unread=conditions.unread)
        pods = sorted((pod for pod in inputs.pods if pod.key in order), key=lambda pod: order[pod.key])
        plan = scheduler.plan(replace(inputs, pods=tuple(pods)), only_node=conditions.only_node)
        decisions = await scheduler.apply(cluster, plan, clock())
        unplaced = {
            decision.pod.key: decision.outcome for decision in decisions if isinstance(decision.outcome, Unplaced)
        }
        if not any(outcome.deallocate for outcome in unplaced.values()):
            break
    for run in _continuing(runs):
        pod = await _pod(cluster, run)
        if pod is None:
            continue
        run.outcome = replace(run.outcome, node=pod.spec.node_name, devices=entries_of(_vmi(run), pod))
        if outcome := unplaced.get(pod.key):
            details = [line for node in outcome.nodes for line in refusal_lines(node)]
            message = nearest_text(grouped(outcome.nodes), len(outcome.nodes)) if outcome.nodes else outcome.message
            run.fail(HandOver.PLACEMENT, outcome.reason, message, advice.placement(outcome), details)


# --- kubelet and virt-controller ----------------------------------------------------------------------------------


async def _start_pods(cluster: Cluster, runs: Sequence[_VmRun]) -> None:
    for run in _continuing(runs):
        pod, vmi = await _pod(cluster, run), run.vmi
        if pod is None or vmi is None or not pod.spec.node_name:
            continue
        if pod.status.phase != "Running":
            await cluster.patch(
                Pod, pod.name, pod.namespace, merge={"status": {"phase": "Running"}}, subresource="status"
            )
        if run.taken_over and vmi.status.phase in ("Scheduled", "Running"):
            continue
        status = {
            "phase": "Scheduled",
            "nodeName": pod.spec.node_name,
            "activePods": {pod.metadata.uid: pod.spec.node_name},
        }
        await cluster.patch(VirtualMachineInstance, vmi.name, vmi.namespace, merge={"status": status})


# --- deviceStatus -------------------------------------------------------------------------------------------------


async def _observed(cluster: Cluster, now: datetime) -> device_status.DeviceStatusInputs:
    """The inputs of the resolution, also if VMIs have networks from claims and no devices."""
    inputs = await device_status.gather(cluster, now)
    if inputs.pods or not any(vmi.spec.networks for vmi in inputs.vmis):
        return inputs
    return replace(
        inputs,
        pods=(await cluster.list(Pod)).items,
        claims=(await cluster.list(ResourceClaim)).items,
        slices=(await cluster.list(ResourceSlice)).items,
    )


async def _resolve_devices(
    cluster: Cluster, runs: Sequence[_VmRun], clock: RunClock, kubevirt: KubeVirtVersion
) -> None:
    by_uid = _by_uid(runs)
    now = clock()
    inputs = await _observed(cluster, now)
    for event in await device_status.apply(cluster, device_status.plan(inputs).updates):
        if run := by_uid.get(event.uid):
            remedy = "report it to the driver: the API server refuses this status"
            run.fail(HandOver.DEVICE_STATUS, event.reason, event.message, remedy)
    published = PublishedDevices.from_slices(inputs.slices)
    by_key = {claim.key: claim for claim in inputs.claims}
    owned: defaultdict[str, list[Pod]] = defaultdict(list)
    for owned_pod in inputs.pods:
        for uid in owner_uids(owned_pod):
            owned[uid].append(owned_pod)
    for run in _continuing(runs):
        given = _vmi(run)
        vmi = run.vmi = await cluster.get(VirtualMachineInstance, given.name, given.namespace)
        pod = current_pod(vmi, launcher_pods_of(vmi, owned[vmi.metadata.uid]))
        named = (by_key.get(key) for key in (pod.claim_keys if pod is not None else ()))
        sources = DeviceSources(vmi, pod, tuple(claim for claim in named if claim is not None), published)
        report = sources.settled(inputs.taint_rules)
        unread = unread_devices(report, run.given.vmi, kubevirt)
        run.files = sources.network_files(now)
        unhealthy = tuple(f"{problem.subject}: {problem.message}" for problem in report.unhealthy)
        warnings = (*run.outcome.warnings, *unhealthy)
        run.outcome = replace(run.outcome, devices=entries_of(vmi, pod, report), warnings=warnings)
        unresolved = (*report.unresolved, *unread)
        if unresolved:
            first = unresolved[0]
            lines = [f"{problem.subject}: {problem.reason}: {problem.message}" for problem in unresolved]
            details = lines if len(lines) > 1 else ()
            message, remedy = f"{first.subject}: {first.message}", advice.device(first.reason)
            run.fail(HandOver.DEVICE_STATUS, first.reason, message, remedy, details)


# --- domain XML ---------------------------------------------------------------------------------------------------


async def _define_domains(cluster: Cluster, runs: Sequence[_VmRun], conditions: Conditions) -> None:
    for run in _continuing(runs):
        vmi, pod = run.vmi, await _pod(cluster, run)
        if vmi is None:
            continue
        sources = AddressSources(variables_of(pod) if pod is not None else {}, run.files or None, pod)
        left_out: tuple[str, ...] = ()
        try:
            try:
                rendered = convert(vmi, sources, kubevirt=conditions.gates.version)
            except LauncherError as error:
                if error.reason != COUNT_MISMATCH or not run.taken_over or vmi.status.phase != "Running":
                    raise
                vmi, left_out = without_plugin_devices(vmi)
                rendered = convert(vmi, sources, kubevirt=conditions.gates.version)
        except LauncherError as error:
            run.fail(HandOver.DOMAIN_XML, error.reason, str(error), advice.launcher(error))
            continue
        devices = with_elements(run.outcome.devices, rendered.hostdevs)
        warnings = (*run.outcome.warnings, *left_out, *rendered.warnings)
        run.outcome = replace(run.outcome, devices=devices, domain=rendered.domain_xml, warnings=warnings)


# --- looking up ---------------------------------------------------------------------------------------------------


def _continuing(runs: Iterable[_VmRun]) -> list[_VmRun]:
    return [run for run in runs if run.continues]


def _by_uid(runs: Iterable[_VmRun]) -> Mapping[str, _VmRun]:
    return {run.vmi.metadata.uid: run for run in _continuing(runs) if run.vmi is not None}


def _vmi(run: _VmRun) -> VirtualMachineInstance:
    if run.vmi is None:
        raise AssertionError(f"{run.outcome.name} has no VMI, so its run has ended")
    return run.vmi


async def _pod(cluster: Cluster, run: _VmRun) -> Pod | None:
    name = run.outcome.pod
    return await cluster.get(Pod, name, run.outcome.namespace) if name else None
