"""Trials: scheduler, allocator and launcher run for one VM beforehand, on a cluster in which no device is in use."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from launcher import AddressSources, LauncherError, convert
from launcher.errors import COUNT_MISMATCH, DUPLICATE_ALIAS, UNWRITABLE_TEXT
from virt_dra.allocator import DeadlineExceeded
from virt_dra.api.core_v1 import Node, Pod, PodResourceClaimStatus
from virt_dra.api.defaults import defaulted
from virt_dra.api.integration.attribute_keys import NO_ADDRESS
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceStatus
from virt_dra.api.meta import ObjectT
from virt_dra.api.policies.pod_defaults import with_label_keys
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimStatus, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.validation import validate_create
from virt_dra.cluster.memory.names import generated
from virt_dra.controllers.loops.claims import generated_claim
from virt_dra.controllers.loops.virtual_machines import instance_of
from virt_dra.controllers.pods import launcher_pods
from virt_dra.controllers.pods.launcher_resources import RenderError
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.kept import as_started
from virt_dra.model.published import PublishedDevices
from virt_dra.model.unknown import UnknownFact
from virt_dra.scheduling.claim_checks import CLAIM_MISSING
from virt_dra.scheduling.claim_references import consumer_reference
from virt_dra.scheduling.fit import FitOptions, read_beforehand
from virt_dra.scheduling.framework.refusals import Reason
from virt_dra.scheduling.placement import Placement, Unplaced, place
from virt_dra.scheduling.pod_requests import pod_requests, unknown_to
from virt_dra.scheduling.why.groups import group_text, grouped
from virt_dra.simulator.deadline import AllocationDeadline
from virt_dra.simulator.devices import DeviceSources, variables_of
from webhooks.lint.inputs import KubeVirtAtHand
from webhooks.rules.reviewed_spec import VmObject

NO_STATUS = ResourceClaimStatus.empty()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UID = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True)
class _Trial:
    """A VM's pod with its claims by entry, and its placement."""

    vmi: VirtualMachineInstance
    pod: Pod
    claims: tuple[tuple[str, ResourceClaim], ...]
    outcome: Placement | Unplaced | TooLong


@dataclass(frozen=True)
class _LastTrial:
    """A VM that was tried, with its reasons or without."""

    subject: VmObject
    namespace: str
    reasons: bool
    trial: _Trial | None

    def is_of(self, subject: VmObject, namespace: str) -> bool:
        return self.subject is subject and self.namespace == namespace


@dataclass(frozen=True)
class TooLong:
    """A trial that was interrupted."""

    why: str


POD_REFUSED: Final = "pod-refused"
"""The reason, and the finding of lint, where there can't be a launcher pod."""
_SPENT = 6
"""Interrupted trials after which no other is started: a tenant may have thousands of slightly different VMs."""


class Fitting:
    """Tries VMs: whether they would get a node and a domain. Implements :class:`webhooks.lint.inputs.Trial`. The model
    is placeable."""

    def __init__(
        self, model: ClusterModel, configuration: KubeVirtAtHand, limit: AllocationDeadline | None = None
    ) -> None:
        """``limit``: the time of each trial; None for no limit."""
        self._limit = limit
        self._model = model
        self._configuration = configuration
        self._outcomes: dict[tuple[object, ...], Placement | Unplaced | TooLong] = {}
        """Memoized by namespace and the part of the pod that decides its placement: many VMs are equal in it."""
        self._asking: dict[frozenset[object], Pod] = {}
        """The pods of which :meth:`placement` was asked, one for all that ask for the same resources and volumes."""
        self._spent = 0
        self._last: _LastTrial | None = None

    def pod(self, subject: VmObject, namespace: str) -> str | None:
        pod = self._pod(_instance(subject, namespace), namespace)
        if not isinstance(pod, Pod):
            return f"KubeVirt can't make it: {pod.message}"
        errors = validate_create(defaulted(pod))
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return f"the API server refuses it: {errors[0]}{more}" if errors else None

    def wanted(self, subject: VmObject, namespace: str) -> tuple[Pod, tuple[ResourceClaim, ...]] | Reason:
        """The launcher pod of a VM and its claims, generated ones included; the reason if there can't be one."""
        pod = self._pod(_instance(subject, namespace), namespace)
        if not isinstance(pod, Pod):
            return Reason(POD_REFUSED, f"KubeVirt can't make it: {pod.message}")
        claims = self._claims(pod)
        if claims is None:
            return Reason(CLAIM_MISSING, "a claim or template that it names isn't there")
        return pod, tuple(claim for _, claim in claims)

    def placement(self, subject: VmObject, namespace: str) -> str | None:
        tried = self._tried(subject, namespace, reasons=True)
        if tried is None:
            return None
        asked = frozenset((*pod_requests(tried.pod), *tried.pod.volume_claims))
        self._asking.setdefault(asked, tried.pod)
        if not isinstance(tried.outcome, Unplaced):
            return None
        groups = grouped(tried.outcome.nodes)
        return group_text(groups[0]) if groups else tried.outcome.message

    def unchecked(self, subject: VmObject, namespace: str) -> str | None:
        tried = self._last.trial if self._last is not None and self._last.is_of(subject, namespace) else None
        return tried.outcome.why if tried is not None and isinstance(tried.outcome, TooLong) else None

    def unknown(self) -> tuple[UnknownFact, ...]:
        return unknown_to(self._asking.values(), self._model) if self._asking else ()

    def domain(self, subject: VmObject, namespace: str) -> tuple[str, str] | None:
        tried = self._tried(subject, namespace)
        if tried is None or not isinstance(tried.outcome, Placement):
            vmi = _instance(subject, namespace)
            return self._converted(vmi, only=(UNWRITABLE_TEXT, DUPLICATE_ALIAS)) or self._converted(
                _without_claims(vmi)
            )
        pod = tried.pod.with_(spec=tried.pod.spec.with_(node_name=tried.outcome.node))
        pod = pod.with_(status=pod.status.with_(phase="Running"))
        sources = DeviceSources(tried.vmi, pod, _allocated(tried, tried.outcome, pod), self._published)
        resolution = sources.resolution()
        if any(problem.reason == NO_ADDRESS for problem in resolution.unresolved):
            return None  # the lint checks it, and knows the configured keys (K-6.6)
        if resolution.unresolved:
            first = resolution.unresolved[0]
            return "spec.domain.devices", f"{first.subject}: {first.message}"
        vmi = tried.vmi.with_(status=tried.vmi.status.with_(device_status=resolution.device_status()))
        return self._converted(vmi, pod, sources.network_files(EPOCH))

    def _converted(
        self,
        vmi: VirtualMachineInstance,
        pod: Pod | None = None,
        files: Mapping[str, str] | None = None,
        only: Collection[str] = (),
    ) -> tuple[str, str] | None:
        """Why the launcher makes no domain of a VMI. ``only``: for these reasons; (): any but silent plugins."""
        env = variables_of(pod) if pod is not None else {}
        try:
            convert(vmi, AddressSources(env, files or None, pod), kubevirt=self._configuration.version)
        except LauncherError as error:
            if error.reason in only if only else error.reason != COUNT_MISMATCH:
                return error.subject if error.subject.startswith("spec.") else "spec.domain", str(error)
        return None

    def _tried(self, subject: VmObject, namespace: str, *, reasons: bool = False) -> _Trial | None:
        """The trial of a VM; None without a pod, or without all its claims, which other checks report. The last trial
        is kept for the next call. ``reasons``: with the refusals of each node where it is unplaced."""
        last = self._last
        if last is None or not last.is_of(subject, namespace) or (reasons and not last.reasons):
            last = self._last = _LastTrial(subject, namespace, reasons, self._try(subject, namespace, reasons))
        return last.trial

    def _try(self, subject: VmObject, namespace: str, reasons: bool) -> _Trial | None:
        vmi = _instance(subject, namespace)
        pod = self._pod(vmi, namespace)
        if not isinstance(pod, Pod):
            return None
        claims = self._claims(pod)
        nothing_to_try = not claims and not self._model.knows(Node)
        if claims is None or nothing_to_try:
            return None
        names = tuple(PodResourceClaimStatus(name=entry, resource_claim_name=claim.name) for entry, claim in claims)
        pod = pod.with_(status=pod.status.with_(resource_claim_statuses=names))
        spec = json.dumps(pod.spec.without("containers", "hostname").to_wire(), sort_keys=True)
        asked = namespace, spec, frozenset(pod_requests(pod).items())
        outcome = self._outcomes.get(asked)
        if outcome is None or (reasons and isinstance(outcome, Unplaced) and not outcome.nodes and not outcome.code):
            outcome = self._outcomes[asked] = self._placed(pod, claims, reasons)
        return _Trial(vmi, pod, tuple(claims), outcome)

    def _placed(
        self, pod: Pod, claims: Sequence[tuple[str, ResourceClaim]], reasons: bool
    ) -> Placement | Unplaced | TooLong:
        model = self._unused.changed(claim for _, claim in claims)
        limit = self._limit
        if limit is None:
            return place(pod, model, reasons=reasons)
        if self._spent >= _SPENT:
            return TooLong("other VMs of the input took too long already")
        limit.start()
        try:
            return place(pod, model, FitOptions(interrupt=limit), reasons=reasons)
        except DeadlineExceeded as error:
            self._spent += 1
            where = f"{error.subject.removeprefix(f'claim {pod.namespace}/')}: " if error.subject else ""
            return TooLong(f"{where}it takes longer than {limit}")

    def _pod(self, vmi: VirtualMachineInstance, namespace: str) -> Pod | RenderError:
        pod = launcher_pods.render(vmi, self._configuration.gates, self._configuration.permitted)
        if not isinstance(pod, Pod):
            return pod
        return with_label_keys(
            pod.with_(metadata=pod.metadata.with_(name="virt-launcher", namespace=namespace, uid=UID))
        )

    @cached_property
    def _published(self) -> PublishedDevices:
        return PublishedDevices.from_slices(self._of_kind(ResourceSlice))

    @cached_property
    def _unused(self) -> ClusterModel:
        """The cluster as if nothing was known to run there."""
        model = self._model.without_use()
        read_beforehand(model)
        return model

    def _of_kind(self, kind: type[ObjectT]) -> list[ObjectT]:
        """The objects of a kind, defaulted like an API server would."""
        return [defaulted(obj) for obj in self._model.of(kind)]

    @cached_property
    def _templates(self) -> Mapping[str, ResourceClaimTemplate]:
        return {template.key: template for template in self._of_kind(ResourceClaimTemplate)}

    @cached_property
    def _direct(self) -> Mapping[str, ResourceClaim]:
        """The claims by key, reserved for no pod. Allocated ones keep their devices, but for what a stopped VM
        loses."""
        return {
            claim.key: claim.with_(
                status=ResourceClaimStatus(allocation=claim.status.allocation) if claim.status.allocation else NO_STATUS
            )
            for claim in (as_started(claim, self._model) for claim in self._of_kind(ResourceClaim))
        }

    def _claims(self, pod: Pod) -> list[tuple[str, ResourceClaim]] | None:
        """The claims by entry, named and generated ones; None if one doesn't exist."""
        claims: list[tuple[str, ResourceClaim]] = []
        for number, entry in enumerate(pod.spec.resource_claims):
            if entry.resource_claim_template_name is not None:
                template = self._templates.get(f"{pod.namespace}/{entry.resource_claim_template_name}")
                if template is None:
                    return None
                made = generated_claim(pod, entry.name, template)
                claims.append(
                    (
                        entry.name,
                        made.with_(metadata=made.metadata.with_(name=f"generated-{number}", uid=f"generated-{number}")),
                    )
                )
            else:
                claim = self._direct.get(f"{pod.namespace}/{entry.resource_claim_name}")
                if claim is None:
                    return None
                claims.append((entry.name, claim.with_(metadata=claim.metadata.without("deletion_timestamp"))))
        return claims


def _instance(subject: VmObject, namespace: str) -> VirtualMachineInstance:
    """The VMI as it would be stored; without a name of its own it gets one like an API server's."""
    name = subject.name or generated(subject.metadata.generate_name, "xxxxx")
    subject = subject.with_(metadata=subject.metadata.with_(name=name, namespace=namespace, uid=UID))
    vmi = instance_of(subject) if isinstance(subject, VirtualMachine) else subject
    return vmi.with_(metadata=vmi.metadata.with_(uid=UID), status=VirtualMachineInstanceStatus())


def _without_claims(vmi: VirtualMachineInstance) -> VirtualMachineInstance:
    """The part of a VMI that can be checked without knowing its devices from claims."""
    devices = vmi.spec.domain.devices
    kept = devices.with_(
        gpus=tuple(gpu for gpu in devices.gpus if not gpu.is_dra),
        host_devices=tuple(host_device for host_device in devices.host_devices if not host_device.is_dra),
    )
    networks = tuple(network for network in vmi.spec.networks if network.resource_claim is None)
    return vmi.with_(spec=vmi.spec.with_(domain=vmi.spec.domain.with_(devices=kept), networks=networks))


def _allocated(tried: _Trial, placement: Placement, pod: Pod) -> tuple[ResourceClaim, ...]:
    """The pod's claims after it is bound."""
    chosen = {allocation.claim.key: allocation.result for allocation in placement.allocations}
    reserved = (consumer_reference(pod),)
    return tuple(
        claim.with_(
            status=claim.status.with_(allocation=chosen.get(claim.key, claim.status.allocation), reserved_for=reserved)
        )
        for claim in {claim.key: claim for _, claim in tried.claims}.values()
    )
