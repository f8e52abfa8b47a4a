"""When the devices that are kept for a stopped VM are released, and which limit says so: what the keeper will do,
derived from a model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypedDict

from virt_dra.api.keeping.claims import claim_terms, is_kept, vm_name_of
from virt_dra.api.keeping.ends import first_end, keeping_end
from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.keeping.limits import KeepLimits, stopped_since, stopped_vms
from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.meta import format_time
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.model.cluster import ClusterModel, ModelIndex, derived

Certainty = Literal["exact", "latest", "recorded"]
_SAID: Final[Mapping[Certainty, str]] = {
    "exact": "",
    "latest": " at the latest",
    "recorded": ", as recorded on the claim",
}


@dataclass(frozen=True, slots=True)
class KeptUntil:
    """When the devices of a stopped VM are released. ``until``: an RFC 3339 time; ``limit``: the KeepPolicy that says
    so, and what it says, or that the VM no longer asks to keep; "" for the VM's own lease. ``vm_known``: if False, only
    a policy's time is the latest; what the claim records the VM may have changed, for a shorter time or a longer
    one."""

    until: str
    limit: str = ""
    vm_known: bool = True

    @property
    def certainty(self) -> Certainty:
        return "exact" if self.vm_known else "latest" if self.limit else "recorded"

    def __str__(self) -> str:
        return f"until {self.until}{_SAID[self.certainty]}{f': {self.limit}' if self.limit else ''}"


class KeptUntilJson(TypedDict):
    """When the devices of a stopped VM are released."""

    keptUntil: str | None
    """RFC 3339: when they are released; null where that has no end."""
    keptUntilIs: Certainty | None
    """``exact``: by the VM as it is. ``latest``, ``recorded``: the VM can't be read. They are released then at the
    latest, by a KeepPolicy; or it is what the claim records, and the VM may say otherwise by now."""
    keepLimit: str | None
    """The KeepPolicy that says so, and what it says, or that the VM no longer asks to keep; null for the VM's own
    lease."""


def kept_until_json(kept: KeptUntil | None) -> KeptUntilJson:
    """The time as fields of a JSON object; all null without one."""
    if kept is None:
        return {"keptUntil": None, "keptUntilIs": None, "keepLimit": None}
    return {"keptUntil": kept.until, "keptUntilIs": kept.certainty, "keepLimit": kept.limit or None}


@dataclass(frozen=True)
class NamespaceLimits:
    """The KeepPolicies of a namespace, and its stopped VMs that are over a limit of devices, each with the limit."""

    limits: KeepLimits = field(default_factory=KeepLimits)
    over: Mapping[str, str] = field(default_factory=dict)


_UNLIMITED: Final = NamespaceLimits()


_kept_claims = ModelIndex(
    ResourceClaim, lambda claim: (f"{claim.namespace}/{vm_name_of(claim)}",) if is_kept(claim) else ()
)


def kept_claims(model: ClusterModel, vm: str) -> tuple[ResourceClaim, ...]:
    """The claims that a VM keeps, by its namespace and name."""
    return _kept_claims(model, vm)


def kept_until(claim: ResourceClaim, model: ClusterModel) -> KeptUntil | None:
    """When the claim of a stopped VM is released; None for a claim that isn't kept, whose VM isn't known to be stopped,
    or that is kept without end."""
    since = stopped_since(claim) if is_kept(claim) else None
    if since is None:
        return None
    name = vm_name_of(claim)
    vm = model.by_key(VirtualMachine).get(f"{claim.namespace}/{name}")
    of_namespace = limits_by_namespace(model).get(claim.namespace, _UNLIMITED)
    terms = claim_terms(vm, claim)[0]
    # A claim records nothing where its VM speaks for itself: without the VM it isn't known whether keeping has ended.
    ended = keeping_end(terms) if vm is not None else None
    end = ended or first_end(terms, of_namespace.limits, of_namespace.over.get(name, ""))
    if end is None:
        return None
    return KeptUntil(format_time(since + end.after), end.limit, vm is not None)


@derived(KeepPolicy, ResourceClaim)
def limits_by_namespace(model: ClusterModel) -> Mapping[str, NamespaceLimits]:
    """The KeepPolicies of every namespace that has some, with the VMs over their limits."""
    policies: defaultdict[str, tuple[KeepPolicy, ...]] = defaultdict(tuple)
    for policy in model.of(KeepPolicy):
        policies[policy.namespace] += (policy,)
    if not policies:
        return {}
    claims: defaultdict[str, list[ResourceClaim]] = defaultdict(list)
    for key, kept in _kept_claims.all(model).items():
        claims[key.partition("/")[0]] += kept
    limits = {namespace: KeepLimits(own) for namespace, own in policies.items()}
    return {
        namespace: NamespaceLimits(own, own.refused(stopped_vms(claims[namespace])))
        for namespace, own in limits.items()
    }
