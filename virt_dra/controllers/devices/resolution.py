"""Resolves the DRA devices of a VMI: pod -> claim -> allocation -> slice -> address (K-5.1 to K-5.13). Pure.

The steps are taken in the order of the rules, and the first that fails gives the reason. One deviation: NotAllocated
comes before NotReserved, as only an allocated claim can be reserved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from virt_dra.api.core_v1 import Pod, PodResourceClaim
from virt_dra.api.integration.attribute_keys import Unusable, addresses, needed
from virt_dra.api.keeping.claims import kept_claim_name, kept_entries
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.resource_v1 import (
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceSlice,
)
from virt_dra.controllers.deletion import TERMINATING, deletion_text
from virt_dra.controllers.devices.options import DEFAULTS, ResolutionOptions, missed_at, overdue_at
from virt_dra.controllers.devices.outcomes import (
    ADMIN_ACCESS,
    AMBIGUOUS_DEVICE,
    CLAIM_FOREIGN,
    CLAIM_IN_USE,
    CLAIM_MISSING,
    CLAIM_NOT_GENERATED,
    CLAIM_NOT_LISTED,
    CLAIM_NOT_NEEDED,
    DEVICE_NOT_PUBLISHED,
    DUPLICATE_ADDRESS,
    NODE_MISMATCH,
    NOT_ALLOCATED,
    NOT_RESERVED,
    PARENT_ADDRESS_IGNORED,
    POD_MISSING,
    POOL_INCOMPLETE,
    REQUEST_NOT_IN_CLAIM,
    TOO_FEW_DEVICES,
    TOO_MANY_DEVICES,
    DeviceResolution,
    DeviceWarning,
    OutcomeState,
    ResolutionOutcome,
    ResolvedDevice,
    UnresolvedDevice,
)
from virt_dra.controllers.devices.subjects import DeviceSubject, dra_devices
from virt_dra.controllers.pods.current_pod import MIGRATION_LABEL, not_current
from virt_dra.model.published import Publications, PublishedDevice, PublishedDevices, newest
from virt_dra.scheduling.claim_references import PODS, NotCreatedYet, NotNeeded, UnsupportedClaimSource, claim_name


def resolve(
    vmi: VirtualMachineInstance,
    pod: Pod | None,
    claims: Iterable[ResourceClaim],
    slices: Iterable[ResourceSlice] | Publications,
    options: ResolutionOptions = DEFAULTS,
    subjects: tuple[DeviceSubject, ...] | None = None,
) -> DeviceResolution:
    """Resolve every DRA device of a VMI to its address (K-5.1 to K-5.13). ``pod``: the current launcher pod, if there
    is one. ``claims`` and ``slices`` may hold more than is needed, in any order and more than once. ``subjects``: the
    devices, if not the VMI's DRA devices. Never raises on well-typed objects."""
    subjects = dra_devices(vmi) if subjects is None else subjects
    if pod is None:
        deletion = deletion_text(vmi)
        return _no_pod(subjects, TERMINATING, deletion) if deletion else _no_pod(subjects, POD_MISSING, _NO_POD)
    objection = not_current(vmi, pod, migration_target=options.migration_target)
    if objection:
        message = f"pod {pod.name} is not the VMI's current launcher pod: {objection}; waiting for that pod"
        return _no_pod(subjects, POD_MISSING, message)
    published = PublishedDevices.from_slices(slices) if isinstance(slices, Iterable) else slices
    namespace = pod.namespace or vmi.namespace or "default"
    by_name: dict[str, ResourceClaim] = {}
    # Objects from files may lack a namespace: they count as the pod's, after those that say so.
    for claim in sorted(newest(claims), key=lambda claim: bool(claim.namespace)):
        if (claim.namespace or namespace) == namespace:
            by_name[claim.name] = claim
    search = _Search(
        vmi, pod, namespace, by_name, published, options, Counter((s.claim_name, s.request_name) for s in subjects)
    )
    outcomes = _without_duplicates(tuple(search.locate(subject, turn) for subject, turn in _turns(subjects)))
    ignored = tuple(
        DeviceWarning(
            o.subject, PARENT_ADDRESS_IGNORED, f"{o.addresses.ignored}; the mdev is used without its parent's address"
        )
        for o in outcomes
        if isinstance(o, ResolvedDevice) and o.addresses.ignored
    )
    return DeviceResolution(outcomes, ignored)


_NO_POD: Final = "the VMI has no launcher pod; if it doesn't get one soon, the VMI's conditions and events say why"


def _no_pod(subjects: tuple[DeviceSubject, ...], reason: str, message: str) -> DeviceResolution:
    return DeviceResolution(tuple(UnresolvedDevice(subject, reason, "pending", message) for subject in subjects))


def _turns(subjects: Iterable[DeviceSubject]) -> Iterator[tuple[DeviceSubject, int]]:
    """Each entry with the number of earlier entries of the same claim and request."""
    earlier: Counter[tuple[str, str]] = Counter()
    for subject in subjects:
        pair = subject.claim_name, subject.request_name
        yield subject, earlier[pair]
        earlier[pair] += 1


def _without_duplicates(outcomes: tuple[ResolutionOutcome, ...]) -> tuple[ResolutionOutcome, ...]:
    """The first device keeps an address, later ones of the same address are refused (K-5.13)."""
    first: dict[str, DeviceSubject] = {}
    kept: list[ResolutionOutcome] = []
    for outcome in outcomes:
        if isinstance(outcome, ResolvedDevice) and outcome.addresses.given:
            holder = first.setdefault(outcome.addresses.identity, outcome.subject)
            if holder is not outcome.subject:
                address = outcome.addresses.mdev or outcome.addresses.pci
                message = (
                    f"device {outcome.result.device} of claim {outcome.claim} has address {address}, which {holder} of "
                    "this VMI already has; a VM can't have one device twice: remove one entry, or let its request "
                    "allocate another device"
                )
                outcome = outcome.withheld(DUPLICATE_ADDRESS, message)
        kept.append(outcome)
    return tuple(kept)


@dataclass(frozen=True)
class _Search:
    """The steps that locate one device; each returns the next object, or the reason why there is none."""

    vmi: VirtualMachineInstance
    pod: Pod
    namespace: str
    claims: Mapping[str, ResourceClaim]
    published: Publications
    options: ResolutionOptions
    entries: Counter[tuple[str, str]]
    """How many entries of the VMI have the same claim and request."""

    def locate(self, subject: DeviceSubject, turn: int) -> ResolutionOutcome:
        name = self.claim_object(subject)
        if isinstance(name, UnresolvedDevice):
            return name
        claim = self.claim(subject, name)
        if isinstance(claim, UnresolvedDevice):
            return claim
        result = self.result(subject, claim, turn)
        if isinstance(result, UnresolvedDevice):
            return result
        device = self.device(subject, claim, result)
        if isinstance(device, UnresolvedDevice):
            return device
        resolved = needed(subject.needs, addresses(result.driver, device.device.attributes, self.options.keys))
        if isinstance(resolved, Unusable):
            message = f"device {_path(result)}: {resolved.message}"
            return UnresolvedDevice(subject, resolved.reason, "error", message, claim.name, result.device)
        return ResolvedDevice(subject, claim.name, result, resolved, device)

    def claim_object(self, subject: DeviceSubject) -> str | UnresolvedDevice:
        """The name of the device's ResourceClaim (K-5.2, K-5.3)."""
        entry = self._entry(subject.claim_name)
        if entry is None:
            wanted = f"claimName {subject.claim_name!r}" if subject.claim_name else "an empty claimName"
            listed = ", ".join(e.name for e in self.pod.spec.resource_claims or self.vmi.spec.resource_claims) or "none"
            message = (
                f"the device has {wanted}, which no entry of resourceClaims has "
                f"(entries: {listed}); name one of them or add an entry"
            )
            return UnresolvedDevice(subject, CLAIM_NOT_LISTED, "error", message)
        recorded = next((s for s in self.pod.status.resource_claim_statuses if s.name == entry.name), None)
        in_status = recorded.resource_claim_name if recorded is not None else None
        if entry.resource_claim_name and in_status and in_status != entry.resource_claim_name:
            message = (
                f"entry {entry.name!r} of the pod names ResourceClaim {entry.resource_claim_name}, "
                f"its status {in_status}; recreate the pod"
            )
            return UnresolvedDevice(subject, CLAIM_FOREIGN, "error", message)
        try:
            reference = claim_name(self.pod, entry)
        except UnsupportedClaimSource:
            message = (
                f"entry {entry.name!r} of resourceClaims names neither a ResourceClaim "
                "nor a ResourceClaimTemplate; give it one of them"
            )
            return UnresolvedDevice(subject, CLAIM_NOT_LISTED, "error", message)
        if isinstance(reference, NotCreatedYet):
            message = (
                f"no ResourceClaim has been made from ResourceClaimTemplate {entry.resource_claim_template_name} "
                f"for entry {entry.name!r} yet; if this lasts, check the pod's events and that the template exists"
            )
            return UnresolvedDevice(subject, CLAIM_NOT_GENERATED, "pending", message)
        if isinstance(reference, NotNeeded) or not reference.name or (recorded is not None and not in_status):
            message = (
                f"the pod's status says that entry {entry.name!r} needs no ResourceClaim, "
                "so no device can come from it; recreate the pod"
            )
            return UnresolvedDevice(subject, CLAIM_NOT_NEEDED, "error", message)
        return reference.name

    def _entry(self, name: str) -> PodResourceClaim | None:
        """The pod's entry, else the VMI's. A source that is "" counts as absent (as KubeVirt reads it, K-7.9)."""
        listed = (*self.pod.spec.resource_claims, *self.vmi.spec.resource_claims) if name else ()
        entry = next((entry for entry in listed if entry.name == name), None)
        if entry is None:
            return None
        return entry.with_(
            resource_claim_name=entry.resource_claim_name or None,
            resource_claim_template_name=entry.resource_claim_template_name or None,
        )

    def claim(self, subject: DeviceSubject, name: str) -> ResourceClaim | UnresolvedDevice:
        """An allocated claim that is this pod's, or why there is none (K-5.4, K-5.5)."""
        claim = self.claims.get(name)
        if claim is None:
            running = self.pod.status.phase == "Running" and not self._may_be_new()
            kept = any(name == kept_claim_name(self.vmi.name, entry) for entry in kept_entries(self.vmi))
            advice = (
                "it was deleted while the pod runs; restart the VM"
                if running
                else "the keeper makes it; if it can't, as for a quota, Events of the VM and the VMI say why"
                if kept
                else "it is used as soon as it is created"
            )
            message = f"ResourceClaim {name} does not exist in namespace {self.namespace}; {advice}"
            return UnresolvedDevice(subject, CLAIM_MISSING, "error" if running else "pending", message, name)
        foreign = self._foreign(subject, claim)
        if foreign:
            message = f"{foreign}; the status of the pod is stale or the claim was replaced: recreate the pod"
            return UnresolvedDevice(subject, CLAIM_FOREIGN, "error", message, name)
        if claim.status.allocation is None:
            message = (
                f"ResourceClaim {name} is not allocated yet; if this lasts, the pod's condition PodScheduled says why"
            )
            return UnresolvedDevice(subject, NOT_ALLOCATED, "pending", message, name)
        reservation = next((number for number, c in enumerate(claim.status.reserved_for) if self._is_ours(c)), None)
        if reservation is None:
            holders = (
                ", ".join(f"{c.resource} {c.name} {c.uid}".rstrip() for c in claim.status.reserved_for) or "nobody"
            )
            message = (
                f"ResourceClaim {name} is allocated but not reserved for pod {self.pod.name} (reserved for: "
                f"{holders}); waiting for the scheduler to reserve it"
            )
            return UnresolvedDevice(subject, NOT_RESERVED, "pending", message, name)
        first = self._user_before(claim.status.reserved_for[:reservation])
        if first is not None:
            message = (
                f"ResourceClaim {name} is used by pod {first.name}, which was first: a device can be passed to one VM "
                "at a time. It is free for this VM once that pod has ended; or give each VM a claim of its own, "
                "preferably from a template"
            )
            return UnresolvedDevice(subject, CLAIM_IN_USE, "pending", message, name)
        return claim

    def _foreign(self, subject: DeviceSubject, claim: ResourceClaim) -> str:
        entry = self._entry(subject.claim_name)
        if entry is None or entry.resource_claim_name is not None:
            return ""
        owners = claim.metadata.owner_references
        # Objects from an API server always say who controls; hand-made ones may leave it out.
        owners = tuple(owner for owner in owners if owner.controller) or tuple(
            owner for owner in owners if owner.controller is None
        )
        if any(self._is_pod(owner.kind in ("Pod", ""), owner.uid, owner.name) for owner in owners):
            return ""
        if not owners and not self.pod.metadata.uid:
            return ""  # neither object was ever saved
        return (
            f"ResourceClaim {self.namespace}/{claim.name} was not created for Pod "
            f"{self.namespace}/{self.pod.name} (Pod is not owner)"
        )

    def _is_ours(self, consumer: ResourceClaimConsumerReference) -> bool:
        return self._is_pod(consumer.resource in (PODS, ""), consumer.uid, consumer.name)

    def _user_before(self, earlier: Sequence[ResourceClaimConsumerReference]) -> ResourceClaimConsumerReference | None:
        """The first consumer that is a pod of another VMI. A migrating VMI has several pods, and had (K-5.36)."""
        if MIGRATION_LABEL in self.pod.metadata.labels:
            return None
        others = (c for c in earlier if c.resource == PODS and c.uid and c.uid not in self.vmi.status.active_pods)
        return next(others, None)

    def _is_pod(self, says_pod: bool, uid: str, name: str) -> bool:
        """Whether a reference means this pod. Where one has no UID (objects from files) the name decides (K-5.25)."""
        if uid and self.pod.metadata.uid:
            return uid == self.pod.metadata.uid
        return says_pod and self.pod.name in ("", name)

    def result(
        self, subject: DeviceSubject, claim: ResourceClaim, turn: int
    ) -> DeviceRequestAllocationResult | UnresolvedDevice:
        """The allocated device of the request, or why there is none (K-5.6 to K-5.8)."""
        assert claim.status.allocation is not None
        all_results = claim.status.allocation.devices.results
        results = results_for(subject.request_name, all_results)
        if not results:
            present = ", ".join(dict.fromkeys(r.request for r in all_results)) or "none"
            wanted = f"requestName {subject.request_name!r}" if subject.request_name else "no requestName"
            message = (
                f"the device has {wanted}; the allocation of ResourceClaim {claim.name} "
                f"is for these requests: {present}; name one of them"
            )
            return UnresolvedDevice(subject, REQUEST_NOT_IN_CLAIM, "error", message, claim.name)
        admin = next((r for r in results if r.admin_access), None)
        if admin is not None:
            message = (
                f"device {_path(admin)} was allocated to ResourceClaim {claim.name} with adminAccess, which doesn't "
                "make it the VM's; request it without adminAccess"
            )
            return UnresolvedDevice(subject, ADMIN_ACCESS, "error", message, claim.name)
        entries = self.entries[subject.claim_name, subject.request_name] if self.options.spread else 1
        if len(results) > entries:
            devices = ", ".join(_path(r) for r in results)
            takers = "one device entry takes one" if entries == 1 else f"{entries} device entries take one each"
            message = (
                f"request {subject.request_name} of ResourceClaim {claim.name} got {len(results)} devices ({devices}), "
                f"but {takers}; make one request with count 1 per device entry"
            )
            return UnresolvedDevice(subject, TOO_MANY_DEVICES, "error", message, claim.name)
        if not self.options.spread:
            return results[0]
        if turn >= len(results):
            message = (
                f"request {subject.request_name} of ResourceClaim {claim.name} got {len(results)} devices, which "
                f"earlier entries took; raise its count to {entries} or remove the entry"
            )
            return UnresolvedDevice(subject, TOO_FEW_DEVICES, "error", message, claim.name)
        return results[turn]

    def device(
        self, subject: DeviceSubject, claim: ResourceClaim, result: DeviceRequestAllocationResult
    ) -> PublishedDevice | UnresolvedDevice:
        """The device as its driver publishes it, or why it isn't published (K-5.9, K-5.10)."""

        def unresolved(reason: str, state: OutcomeState, message: str) -> UnresolvedDevice:
            return UnresolvedDevice(subject, reason, state, message, claim.name, result.device)

        pool = self.published.pool(result.driver, result.pool)
        where = f"pool {result.pool} of driver {result.driver}"
        if pool is not None and not pool.complete:
            announced = " or ".join(str(count) for count in pool.announced)
            message = (
                f"generation {pool.generation} of {where} has {pool.size} slices and announces a resourceSliceCount of "
                f"{announced}; waiting for the driver to publish it whole"
            )
            return unresolved(POOL_INCOMPLETE, "pending", message)
        devices = pool.devices(result.device) if pool is not None else ()
        if not devices:
            seen = (
                f"generation {pool.generation} of {where} has no device {result.device}"
                if pool
                else f"no slice of {where} is published"
            )
            if self._overdue(claim):
                message = (
                    f"{seen}; the driver may have withdrawn the allocated device: check the driver, then restart the VM"
                )
                return unresolved(DEVICE_NOT_PUBLISHED, "error", message)
            return unresolved(DEVICE_NOT_PUBLISHED, "pending", f"{seen}; waiting for the driver to publish it")
        node = self.pod.spec.node_name
        elsewhere = [p.node for p in devices if p.node and node and p.node != node]
        if len(elsewhere) == len(devices):
            message = (
                f"device {_path(result)} is on node {min(elsewhere)}, pod "
                f"{self.pod.name} on node {node}; recreate the pod"
            )
            return unresolved(NODE_MISMATCH, "error", message)
        if len(devices) > 1:
            generation = devices[0].slice.spec.pool.generation
            message = (
                f"generation {generation} of {where} has device {result.device} "
                f"{len(devices)} times; the driver must publish it once"
            )
            return unresolved(AMBIGUOUS_DEVICE, "error", message)
        return devices[0]

    def _may_be_new(self) -> bool:
        """True while a missing claim may only be late in the informer."""
        now, moment = self.options.now, missed_at(self.pod, self.options)
        return now is not None and moment is not None and now <= moment

    def _overdue(self, claim: ResourceClaim) -> bool:
        now, moment = self.options.now, overdue_at(claim, self.options)
        return now is not None and moment is not None and now > moment


def results_for(
    request: str, results: Iterable[DeviceRequestAllocationResult]
) -> tuple[DeviceRequestAllocationResult, ...]:
    """The results for a request, or for the alternative of it that was chosen (K-5.6)."""
    results = tuple(results)
    exact = tuple(r for r in results if r.request == request)
    if exact or not request or "/" in request:
        return exact
    return tuple(r for r in results if r.request.startswith(f"{request}/"))


def _path(result: DeviceRequestAllocationResult) -> str:
    return f"{result.driver}/{result.pool}/{result.device}"
