"""What a plan is made from: the stores of the keeper's informers, with the indexes from a change to its VM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from virt_dra.api.core_v1 import Node
from virt_dra.api.keeping.claims import (
    is_kept,
    kept_claim_name,
    kept_entries,
    vm_name_of,
)
from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.keeping.limits import DevicesByClass, KeepLimits, devices_of, stopped_since, stopped_vms
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.cluster.port import NotFound, Reader
from virt_dra.cluster.watching.informer import InformerStore
from virt_dra.cluster.watching.transforms import keeping, leaving_out
from virt_dra.controllers.keeping.plan import KeepingInputs
from virt_dra.controllers.loops.taint_eviction.taints import AllocatedTaints
from virt_dra.model.claim_nodes import claim_node
from virt_dra.model.evicting.causes import NO_EXECUTE, Eviction

_OF_VM: Final = "virtual machine"
_ON_NODE: Final = "node"
_IN_NAMESPACE: Final = "namespace"
_KEEPS: Final = "kept claims"
_MAKES_FROM: Final = "templates"
INDEXES: Final[Mapping[type[TypedObject], Mapping[str, Callable[[Any], tuple[str, ...]]]]] = {
    ResourceClaim: {
        _OF_VM: lambda claim: (vm_key_of(claim),) if is_kept(claim) else (),
        _ON_NODE: lambda claim: (claim_node(claim),) if is_kept(claim) else (),
        _IN_NAMESPACE: lambda claim: (claim.namespace,) if is_kept(claim) else (),
    },
    KeepPolicy: {_IN_NAMESPACE: lambda policy: (policy.namespace,)},
    VirtualMachineInstance: {
        _KEEPS: lambda vmi: tuple(f"{vmi.namespace}/{kept_claim_name(vmi.name, entry)}" for entry in kept_entries(vmi)),
        _MAKES_FROM: lambda vmi: tuple({f"{vmi.namespace}/{template}" for template in kept_entries(vmi).values()}),
    },
}


def _evicting_only(published: ResourceSlice) -> ResourceSlice:
    """The slice with only those devices that a taint evicts from, and of these only name and taints."""
    devices = tuple(
        device for device in published.spec.devices if any(taint.effect == NO_EXECUTE for taint in device.taints)
    )
    small: ResourceSlice = _SLICE(published.with_(spec=published.spec.with_(devices=devices)))
    return small


_SLICE: Final = keeping("spec.driver", "spec.pool", "spec.devices.name", "spec.devices.taints")
TRANSFORMS: Final[Mapping[type[TypedObject], Callable[[Any], Any]]] = {
    VirtualMachine: leaving_out("metadata.managed_fields", "spec.template.spec", "status"),
    VirtualMachineInstance: keeping(
        "metadata.annotations", "metadata.owner_references", "metadata.deletion_timestamp",
        "spec.resource_claims", "status.phase",
    ),
    Node: keeping("spec.taints", "spec.unschedulable"),
    ResourceSlice: _evicting_only,
}  # fmt: skip
"""Informers' transforms. Claims and templates are kept whole: one is compared with the other."""


def vm_key_of(claim: ResourceClaim) -> str:
    return f"{claim.namespace}/{vm_name_of(claim)}"


@dataclass(frozen=True)
class _Refused:
    """The VMs of a namespace that are over a limit, each with it. ``until``: when a mark that is in the future
    counts."""

    by_vm: Mapping[str, str]
    until: datetime | None


@dataclass(frozen=True)
class KeeperStores:
    """The informers' stores, and the evictions of kept claims."""

    vms: InformerStore[VirtualMachine]
    vmis: InformerStore[VirtualMachineInstance]
    claims: InformerStore[ResourceClaim]
    templates: InformerStore[ResourceClaimTemplate]
    nodes: InformerStore[Node]
    policies: InformerStore[KeepPolicy]
    taints: AllocatedTaints
    _refused: dict[str, _Refused] = field(default_factory=dict)
    """By namespace: the VMs that are over a limit; forgotten when one of its claims or policies changes."""

    def vm_keys_of_claims(self) -> tuple[str, ...]:
        """The VMs that have kept claims, whether they are there or not."""
        return tuple(str(key) for key in self.claims.index_values(_OF_VM))

    def inputs(self, key: str, now: datetime) -> KeepingInputs:
        """Everything that is known of one VM's kept claims."""
        namespace, _, name = key.rpartition("/")
        return self._inputs(key, self.vms.get(name, namespace), self.vmis.get(name, namespace), now)

    async def certain_inputs(self, reader: Reader, key: str, now: datetime) -> KeepingInputs:
        """As :meth:`inputs`, with VM and VMI read from the API: a store may be older than the claims are."""
        namespace, _, name = key.rpartition("/")
        vm = await _get(reader, VirtualMachine, name, namespace)
        vmi = await _get(reader, VirtualMachineInstance, name, namespace)
        return self._inputs(key, vm, vmi, now)

    def _inputs(
        self, key: str, vm: VirtualMachine | None, vmi: VirtualMachineInstance | None, now: datetime
    ) -> KeepingInputs:
        if vmi is not None and not _is_of(vmi, vm):
            vmi = None
        claims = self.claims.by_index(_OF_VM, key)
        recorded = kept_entries(vmi) if vmi is not None else {}
        own = {claim.name for claim in claims}
        namespace = key.rpartition("/")[0]
        others = {
            name: claim
            for name in (kept_claim_name(vmi.name, entry) for entry in recorded if vmi is not None)
            if name not in own
            for claim in [self.claims.get(name, namespace)]
            if claim is not None
        }
        return KeepingInputs(
            vm, vmi, claims, now, others,
            templates={
                template.name: template
                for name in recorded.values()
                for template in [self.templates.get(name, namespace)]
                if template is not None
            },
            nodes={
                node.name: node
                for claim in claims
                for node in [self.nodes.get(claim_node(claim))]
                if node is not None
            },
            evictions={claim.name: eviction for claim in claims for eviction in self._eviction(claim)},
            limits=self._limits(namespace), over=self._over(namespace, now).get(key.rpartition("/")[2], ""),
        )  # fmt: skip

    def _limits(self, namespace: str) -> KeepLimits:
        return KeepLimits(self.policies.by_index(_IN_NAMESPACE, namespace))

    def _over(self, namespace: str, now: datetime) -> Mapping[str, str]:
        """The VMs of a namespace that are over a limit, each with it; without those whose mark is to be written
        anew."""
        limits = self._limits(namespace)
        if not limits.policies:
            return {}
        computed = self._refused.get(namespace)
        if computed is None or (computed.until is not None and now >= computed.until):
            claims = self.claims.by_index(_IN_NAMESPACE, namespace)
            later = [since for claim in claims if (since := stopped_since(claim)) is not None and since > now]
            computed = _Refused(limits.refused(stopped_vms(claims, now)), min(later, default=None))
            self._refused[namespace] = computed
        return computed.by_vm

    def _eviction(self, claim: ResourceClaim) -> tuple[Eviction, ...]:
        allocated = self.taints.get(claim.namespace, claim.name)
        return (allocated.eviction,) if allocated is not None and allocated.eviction is not None else ()

    def _displaced(self, before: ResourceClaim | None, after: ResourceClaim | None) -> set[str]:
        """The VMs that stopped no earlier than one that is said to be stopped now: they may be over a limit with it."""
        since = stopped_since(after) if after is not None else None
        if after is None or since is None or (before is not None and stopped_since(before) == since):
            return set()
        if not self.policies.by_index(_IN_NAMESPACE, after.namespace):
            return set()
        return {
            vm_key_of(claim)
            for claim in self.claims.by_index(_IN_NAMESPACE, after.namespace)
            if (moment := stopped_since(claim)) is not None and moment >= since
        }

    def affected(self, old: TypedObject | None, new: TypedObject | None) -> set[str]:
        """The keys of the VMs that a change affects; the taints learn of it."""
        match new if new is not None else old:
            case VirtualMachine() as vm:
                return {vm.key}
            case VirtualMachineInstance() as vmi:
                return {vmi.key}
            case ResourceClaim() as claim:
                before, after = (
                    state if isinstance(state, ResourceClaim) and is_kept(state) else None for state in (old, new)
                )
                self.taints.change_claim(before, after)
                if _kept_by_stopped(before) != _kept_by_stopped(after):
                    self._refused.pop(claim.namespace, None)
                return (
                    {vm_key_of(state) for state in (before, after) if state is not None}
                    | {vmi.key for vmi in self.vmis.by_index(_KEEPS, claim.key)}
                    | self._displaced(before, after)
                )
            case ResourceClaimTemplate() as template:
                return {vmi.key for vmi in self.vmis.by_index(_MAKES_FROM, template.key)}
            case KeepPolicy() as policy:
                self._refused.pop(policy.namespace, None)
                return {vm_key_of(claim) for claim in self.claims.by_index(_IN_NAMESPACE, policy.namespace)}
            case Node() as node:
                if isinstance(old, Node) and isinstance(new, Node) and old.spec == new.spec:
                    return set()
                return {vm_key_of(claim) for claim in self.claims.by_index(_ON_NODE, node.name)}
            case ResourceSlice():
                before_slice, after_slice = (
                    state if isinstance(state, ResourceSlice) else None for state in (old, new)
                )
                return set(map(vm_key_of, self.taints.change_slice(before_slice, after_slice)))
            case DeviceTaintRule():
                before_rule, after_rule = (
                    state if isinstance(state, DeviceTaintRule) else None for state in (old, new)
                )
                return set(map(vm_key_of, self.taints.change_rule(before_rule, after_rule)))
        return set()


def _kept_by_stopped(claim: ResourceClaim | None) -> tuple[str, datetime, DevicesByClass] | None:
    """What limits read of a claim: the VM, since when it is stopped, its devices; None if no stopped VM keeps it."""
    since = stopped_since(claim) if claim is not None else None
    return (vm_name_of(claim), since, devices_of(claim)) if claim is not None and since is not None else None


def _is_of(vmi: VirtualMachineInstance, vm: VirtualMachine | None) -> bool:
    return vm is not None and vmi.is_controlled_by(vm)


async def _get(reader: Reader, kind: type[ObjectT], name: str, namespace: str) -> ObjectT | None:
    try:
        return await reader.get(kind, name, namespace)
    except NotFound:
        return None
