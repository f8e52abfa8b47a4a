"""Who holds a device, since when: the claims that it is allocated to, and the pods and VMs that these are for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from virt_dra.allocator.model import DeviceId
from virt_dra.api.core_v1 import Pod
from virt_dra.api.keeping.claims import STOPPED_ANNOTATION, is_vm_reference
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.model.cluster import ClusterModel, derived
from virt_dra.model.kept import KEPT_BY, KeptUntil, KeptUntilJson, kept_until, kept_until_json
from virt_dra.model.launchers import vm_of_pod, vm_of_pod_name

PODS = "pods"
VMS = "virtualmachines"


class ClaimUserJson(KeptUntilJson):
    """What a claim is for: a pod, as a rule."""

    resource: str
    name: str
    vm: str | None
    node: str | None
    reserved: bool
    stoppedSince: str | None
    """RFC 3339: of a stopped VM that keeps its devices."""


@dataclass(frozen=True, slots=True)
class ClaimUser:
    """A pod (or another consumer, by its resource) that a claim is reserved for, or that the claim was made for.
    ``vm``: the name of the VM whose launcher the pod is, or that keeps the claim while it is stopped; ``pod``: None if
    it isn't there; ``stopped_since``: RFC 3339; ``kept``: until when, None without an end."""

    resource: str
    name: str
    vm: str = ""
    pod: Pod | None = field(default=None, repr=False)
    reserved: bool = True
    stopped_since: str = ""
    kept: KeptUntil | None = None

    @property
    def keeps(self) -> bool:
        """True for a stopped VM that keeps the claim's devices (P-1)."""
        return self.resource == VMS

    @property
    def stopped_text(self) -> str:
        """``stopped since …, kept until …``, of a VM that keeps it, as far as that is known."""
        since = f" since {self.stopped_since}" if self.stopped_since else ""
        return f"stopped{since}{f', kept {self.kept}' if self.kept is not None else ''}"

    @property
    def node(self) -> str:
        """The node that the pod is bound to, "" if it isn't known."""
        return (self.pod.spec.node_name or "") if self.pod is not None else ""

    @property
    def description(self) -> str:
        """The user; of a VM that keeps the claim also since when, and until when."""
        return f"{self} ({self.stopped_text})" if self.keeps else f"{self}"

    def __str__(self) -> str:
        return f"VM {self.vm}" if self.vm else f"{'pod' if self.resource == PODS else self.resource} {self.name}"

    def to_json(self) -> ClaimUserJson:
        return {
            "resource": self.resource,
            "name": self.name,
            "vm": self.vm or None,
            "node": self.node or None,
            "reserved": self.reserved,
            "stoppedSince": self.stopped_since or None,
            **kept_until_json(self.kept),
        }


class DeviceHolderJson(TypedDict):
    """A claim that a device is allocated to."""

    namespace: str
    claim: str
    request: str
    vm: str | None
    users: list[ClaimUserJson]
    since: str | None
    """RFC 3339"""
    shareID: str | None
    adminAccess: bool


@dataclass(frozen=True, slots=True)
class DeviceHolder:
    """A claim that a device is allocated to. ``since``: as :func:`held_since`; ``share``: of a shared device."""

    claim: ResourceClaim
    request: str
    users: tuple[ClaimUser, ...]
    since: str
    share: str = ""
    admin: bool = False

    @property
    def namespace(self) -> str:
        return self.claim.namespace

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods that use the claim, as far as they are known."""
        return tuple(user.pod for user in self.users if user.pod is not None)

    @property
    def vm(self) -> str:
        """The VM's name, "" if there is none."""
        return next((user.vm for user in self.users if user.vm), "")

    @property
    def user(self) -> str:
        """``VM ns/name``, else the pod if it is the only user, else the claim."""
        user = self.users[0] if len(self.users) == 1 else None
        if user is not None and (user.vm or user.resource == PODS):
            return f"VM {self.namespace}/{user.vm}" if user.vm else f"pod {self.namespace}/{user.name}"
        return f"claim {self.claim.key}"

    @property
    def description(self) -> str:
        """The user, its claim, and since when."""
        of = "" if self.user.startswith("claim ") else f" (claim {self.claim.name})"
        admin = " (admin access)" if self.admin else ""
        return f"{self.user}{admin}{of}{f' since {self.since}' if self.since else ''}{self._kept}"

    @property
    def kept_by(self) -> str:
        """The name of the stopped VM that keeps the device, "" if a pod uses it."""
        return next((user.vm for user in self.users if user.keeps), "")

    @property
    def _kept(self) -> str:
        user = next((user for user in self.users if user.keeps), None)
        if user is None:
            return ""
        since = f", since {user.stopped_since}" if user.stopped_since else ""
        return f", kept while the VM is stopped{since}{f', {user.kept}' if user.kept is not None else ''}"

    def __str__(self) -> str:
        user = next((user for user in self.users if user.keeps), None)
        stopped = f" ({user.stopped_text})" if user is not None else ""
        return f"{self.user}{stopped}{' (admin access)' if self.admin else ''}"

    def to_json(self) -> DeviceHolderJson:
        return {
            "namespace": self.namespace,
            "claim": self.claim.name,
            "request": self.request,
            "vm": self.vm or None,
            "users": [user.to_json() for user in self.users],
            "since": self.since or None,
            "shareID": self.share or None,
            "adminAccess": self.admin,
        }


@derived(Pod, *KEPT_BY)
def holders(model: ClusterModel) -> Mapping[DeviceId, tuple[DeviceHolder, ...]]:
    """The holders of every allocated device, in the order of the claims; those with admin access, too."""
    by_device: defaultdict[DeviceId, tuple[DeviceHolder, ...]] = defaultdict(tuple)
    for claim in model.of(ResourceClaim):
        for id, holder in devices_held_by(claim, model):
            by_device[id] += (holder,)
    return dict(by_device)


@derived(Pod, *KEPT_BY)
def holders_in_use(model: ClusterModel) -> Mapping[DeviceId, tuple[DeviceHolder, ...]]:
    """The holders of every device in use: those without admin access."""
    used = ((id, tuple(holder for holder in of_device if not holder.admin)) for id, of_device in holders(model).items())
    return {id: of_device for id, of_device in used if of_device}


def devices_held_by(claim: ResourceClaim, model: ClusterModel) -> list[tuple[DeviceId, DeviceHolder]]:
    """The devices that are allocated to a claim, each with the claim as its holder."""
    users = users_of(claim, model) if claim.status.allocation is not None else ()
    since = held_since(claim, users)
    return [
        (
            DeviceId(result.driver, result.pool, result.device),
            DeviceHolder(claim, result.request, users, since, result.share_id or "", bool(result.admin_access)),
        )
        for result in claim.results
    ]


def held_since(claim: ResourceClaim, users: tuple[ClaimUser, ...]) -> str:
    """The time of an allocated claim's allocation; else the start of the first of its pods, else the claim's creation;
    or ""."""
    allocation = claim.status.allocation
    started = (started_at(user.pod) for user in users if user.pod is not None)
    return (
        (allocation.allocation_timestamp if allocation is not None else None)
        or next(filter(None, started), "")
        or claim.metadata.creation_timestamp
        or ""
    )


def started_at(pod: Pod) -> str:
    """The time at which the kubelet took the pod, "" if it isn't known."""
    started = (pod.status.model_extra or {}).get("startTime")
    return started if isinstance(started, str) else ""


def users_of(claim: ResourceClaim, model: ClusterModel) -> tuple[ClaimUser, ...]:
    """The consumers that a claim is reserved for; before that, the pod that it was made for."""
    if claim.status.reserved_for:
        users = tuple(
            _pod_user(claim, model, consumer.name, consumer.uid)
            if consumer.resource == PODS
            else _keeping_user(claim, model, consumer.name)
            if is_vm_reference(consumer)
            else ClaimUser(consumer.resource, consumer.name)
            for consumer in claim.status.reserved_for
        )
        launched = {user.vm for user in users if not user.keeps}
        return tuple(user for user in users if not user.keeps or user.vm not in launched)  # it runs in its pod
    owner = next((owner for owner in claim.metadata.owner_references if owner.kind == Pod.KIND), None)
    return (_pod_user(claim, model, owner.name, owner.uid, reserved=False),) if owner is not None else ()


def _keeping_user(claim: ResourceClaim, model: ClusterModel, vm: str) -> ClaimUser:
    return ClaimUser(
        VMS, vm, vm, stopped_since=claim.metadata.annotations.get(STOPPED_ANNOTATION, ""), kept=kept_until(claim, model)
    )


def _pod_user(claim: ResourceClaim, model: ClusterModel, name: str, uid: str, *, reserved: bool = True) -> ClaimUser:
    pod = model.pods.get(f"{claim.namespace}/{name}")
    if pod is None or (uid and pod.metadata.uid and uid != pod.metadata.uid):
        return ClaimUser(PODS, name, vm_of_pod_name(name), None, reserved)
    return ClaimUser(PODS, name, vm_of_pod(pod), pod, reserved)
