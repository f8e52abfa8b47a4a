"""When the devices that are kept for a stopped VM are released, and why: what the keeper will do, by a model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypedDict

from virt_dra.api.core_v1 import Node
from virt_dra.api.defaults import defaulted
from virt_dra.api.keeping.claims import (
    claim_terms,
    is_kept,
    kept_claim_name,
    kept_entries,
    other_consumers,
    vm_name_of,
)
from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.keeping.limits import KeepLimits, stopped_since, stopped_vms
from virt_dra.api.keeping.terms import KeepTerms
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject, format_time
from virt_dra.api.resource_v1 import (
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceSlice,
)
from virt_dra.model.claim_nodes import claim_node
from virt_dra.model.cluster import ClusterModel, ModelIndex, derived
from virt_dra.model.evicting.of_model import eviction_of
from virt_dra.model.keep_ends import (
    AT_ONCE,
    DEVICE_TAINTED,
    LEASE_OVER,
    NODE_LOST,
    ClaimSituation,
    KeepEnd,
    ends_of,
    unowned,
)

Certainty = Literal["exact", "latest", "recorded"]
_SAID: Final[Mapping[Certainty, str]] = {
    "exact": "",
    "latest": " at the latest",
    "recorded": ", as recorded on the claim",
}


@dataclass(frozen=True, slots=True)
class KeptUntil:
    """When the devices of a stopped VM are released. ``until``: RFC 3339, or ""; ``limit``: what ends it, "" for the
    VM's own lease. ``certainty``: ``latest``: maybe sooner; ``recorded``: the VM isn't known."""

    until: str
    limit: str = ""
    certainty: Certainty = "exact"

    def __str__(self) -> str:
        when = f"until {self.until}{_SAID[self.certainty]}" if self.until else "for now"
        return f"{when}{f': {self.limit}' if self.limit else ''}"


class KeptUntilJson(TypedDict):
    """When the devices of a stopped VM are released."""

    keptUntil: str | None
    """RFC 3339: when they are released; null where that has no end, or isn't known."""
    keptUntilIs: Certainty | None
    """``exact``: by everything that ends it. ``latest``: something that isn't known, or has no time, may end it sooner.
    ``recorded``: it is what the claim records; the VM can't be read, and may say otherwise by now."""
    keepLimit: str | None
    """What ends it: a KeepPolicy and what it says, a taint, a lost node, a VM that no longer asks or is gone; null for
    the VM's own lease."""


def kept_until_json(kept: KeptUntil | None) -> KeptUntilJson:
    """The time as fields of a JSON object; all null without one."""
    if kept is None:
        return {"keptUntil": None, "keptUntilIs": None, "keepLimit": None}
    return {"keptUntil": kept.until or None, "keptUntilIs": kept.certainty, "keepLimit": kept.limit or None}


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


KEPT_BY: Final = (ResourceClaim, VirtualMachine, KeepPolicy, Node, ResourceSlice, DeviceTaintRule)
"""The kinds that :func:`kept_until` reads."""


def kept_until(claim: ResourceClaim, model: ClusterModel) -> KeptUntil | None:
    """When the claim of a stopped VM is released; None if it isn't kept, is empty, in use, or has no end."""
    vm, ends = _vm_of(claim, model), _ends(claim, model)
    dated = min((end for end in ends if end.at is not None), key=lambda end: end.at or AT_ONCE, default=None)
    end = next((end for end in ends if end.at is None), dated)
    if end is None:
        return None
    stopped = stopped_since(claim) or AT_ONCE
    moment = max(stopped, dated.at or AT_ONCE) if dated is not None else AT_ONCE
    until = format_time(moment) if moment > AT_ONCE else ""
    if vm is None and end.reason in (LEASE_OVER, NODE_LOST):
        return KeptUntil(until, end.limit, "recorded")
    complete = vm is not None and _knows(model, ResourceSlice) and model.knows(KeepPolicy)
    exact = end is dated and (moment == stopped or complete)
    return KeptUntil(until, end.limit, "exact" if exact else "latest")


def as_started(claim: ResourceClaim, model: ClusterModel) -> ResourceClaim:
    """A claim, with defaults, as a VM that is stopped now starts with it: without devices if keeping is over, or if a
    taint ends it, as it would evict the pod; made anew if its template asks for something else."""
    template = _template_of(claim, model)
    ends = _ends(claim, model, template)
    if template is not None and any(end.removes for end in ends):
        return claim.with_(spec=template.spec.spec, status=ResourceClaimStatus())
    over = any(end.at == AT_ONCE or end.reason == DEVICE_TAINTED for end in ends)
    return claim.with_(status=ResourceClaimStatus()) if over else claim


def _template_of(claim: ResourceClaim, model: ClusterModel) -> ResourceClaimTemplate | None:
    """The template that a kept claim would be made of today, as an API server stores it; None if it isn't there."""
    vm = _vm_of(claim, model) if is_kept(claim) else None
    if vm is None:
        return None
    metadata = vm.spec.template.metadata.with_(name=vm.name)
    entries = kept_entries(VirtualMachineInstance(metadata=metadata, spec=vm.spec.template.spec))
    names = (name for entry, name in entries.items() if kept_claim_name(vm.name, entry) == claim.name)
    templates = model.by_key(ResourceClaimTemplate)
    template = templates.get(f"{claim.namespace}/{next(names, '')}")
    return defaulted(template) if template is not None else None


def _ends(
    claim: ResourceClaim, model: ClusterModel, template: ResourceClaimTemplate | None = None
) -> tuple[KeepEnd, ...]:
    """The ends of what a stopped VM keeps, if it does. ``template``: that it would start with."""
    if not is_kept(claim) or claim.status.allocation is None or other_consumers(claim):
        return ()
    name, vm = vm_name_of(claim), _vm_of(claim, model)
    of_namespace = limits_by_namespace(model).get(claim.namespace, _UNLIMITED)
    # A claim records nothing where its VM speaks for itself: without the VM it isn't known whether keeping has ended.
    terms = claim_terms(vm, claim)[0] or (KeepTerms(None, None) if vm is None else None)
    gone = unowned(claim, vm) if vm is not None or _knows(model, VirtualMachine) else ""
    situation = ClaimSituation(
        claim, terms, runs=False, now=None, unowned=gone, template=template,
        leaving=vm is not None and vm.metadata.deletion_timestamp is not None,
        node=model.nodes.get(claim_node(claim)), knows_nodes=_knows(model, Node),
        eviction=eviction_of(claim, model), limits=of_namespace.limits, over=of_namespace.over.get(name, ""),
    )  # fmt: skip
    return tuple(ends_of(situation))


def _vm_of(claim: ResourceClaim, model: ClusterModel) -> VirtualMachine | None:
    return model.by_key(VirtualMachine).get(f"{claim.namespace}/{vm_name_of(claim)}")


def _knows(model: ClusterModel, kind: type[TypedObject]) -> bool:
    """True if what isn't there doesn't exist. A model that has no object of the kind may not have been asked for it."""
    return model.knows_all(kind) and bool(model.by_key(kind))


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
