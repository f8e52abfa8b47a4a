"""VMs that keep their devices while they are stopped (P-rules): what policies don't allow, and claims of one name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from virt_dra.api.counting import listed
from virt_dra.api.go_text import quoted
from virt_dra.api.instancetypes.names import CLUSTER_INSTANCETYPE, INSTANCETYPE
from virt_dra.api.keeping.claims import is_kept, kept_claim_name, vm_name_of
from virt_dra.api.keeping.instances import places_of_terms
from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.keeping.limits import KeepLimits, least_devices
from virt_dra.api.keeping.terms import KEEP_ANNOTATION, KeepingError, KeepTerms, keep_terms, speaks_of_keeping
from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.meta import TypedObject
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION, RefusedLineError
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.model.cluster import ModelIndex
from webhooks.lint.inputs import LintInputs, NamespacedName, title
from webhooks.lint.linted import Linted
from webhooks.verdict import FieldIssue

_SHOWN: Final = 3
"""Entries that are named."""
_FOREIGN: Final = "isn't the VM's"


def keep_limited(linted: Linted) -> Iterator[FieldIssue]:
    """KeepPolicies of the namespace by which the VM keeps its devices for a shorter time than it asks for, or not at
    all, however few others keep."""
    vm, policies = linted.object, _policies_of(linted.inputs.model, linted.namespace)
    if not isinstance(vm, VirtualMachine) or (terms := _terms(linted, vm)) is None or not policies:
        return
    devices: Counter[str] = Counter()
    for claim in linted.claims:
        # A model has the claim that the VM keeps for an entry in place of the template.
        is_kept_for_entry = claim.name == kept_claim_name(vm.name, claim.entry)
        if claim.spec is not None and (not claim.direct or is_kept_for_entry):
            devices.update(least_devices(claim.spec))
    if shortfall := KeepLimits(policies).shortfall(devices, terms):
        yield FieldIssue(_field(linted), shortfall)


def keep_ignored(linted: Linted) -> Iterator[FieldIssue]:
    """Keeping that is asked for where it has no effect: KubeVirt passes on annotations of the VM's template alone
    (P-10)."""
    vm = linted.object
    if isinstance(vm, VirtualMachine) and _is_ignored(vm, linted.reviewed.annotations, linted.inputs):
        text = "KubeVirt doesn't pass annotations of the VM itself to its VMI, so its devices aren't kept"
        advice = f"write it in {linted.reviewed.metadata}.annotations"
        yield FieldIssue(f"metadata.annotations[{KEEP_ANNOTATION}]", f"{text}; {advice}")


def instancetype_keep_ignored(obj: TypedObject, inputs: LintInputs) -> Iterator[FieldIssue]:
    """Keeping that an instancetype asks for where KubeVirt doesn't pass it on: only ``spec.annotations`` is (P-10)."""
    if obj.kind not in (INSTANCETYPE, CLUSTER_INSTANCETYPE):
        return
    spec = obj.to_wire().get("spec")
    passed_on = spec.get("annotations") if isinstance(spec, dict) else None
    if _is_ignored(obj, passed_on if isinstance(passed_on, dict) else {}, inputs):
        text = "KubeVirt doesn't pass annotations of the instancetype itself to VMIs, so no devices are kept"
        yield FieldIssue(f"metadata.annotations[{KEEP_ANNOTATION}]", f"{text}; write it in spec.annotations")


def _is_ignored(obj: TypedObject, passed_on: Mapping[str, str], inputs: LintInputs) -> bool:
    """True if an object's own annotations ask for keeping, and KubeVirt passes on others, which don't speak of it."""
    asks = obj.metadata.annotations.get(KEEP_ANNOTATION, "false") != "false"
    return asks and KEEP_ANNOTATION not in passed_on and not inputs.configuration.own_crds


def keeper_missing(linted: Linted) -> Iterator[FieldIssue]:
    """A cluster without a keeper, where nobody makes the claims that the VM starts with."""
    vm = linted.object
    if linted.inputs.has_keeper or not isinstance(vm, VirtualMachine) or _terms(linted, vm) is None:
        return
    kept = [entry.name for entry in linted.reviewed.spec.resource_claims if entry.resource_claim_template_name]
    if kept:
        names = listed([quoted(name) for name in kept], _SHOWN)
        text = f"the cluster has no keeper (virt-dra install --keeper), so nobody makes the claims of {names}"
        yield FieldIssue(_field(linted), f"{text}, and the VM doesn't start")


def kept_claim_clash(linted: Linted) -> Iterator[FieldIssue]:
    """Entries for which the VM would keep a claim that has the name of another VM's, or of somebody's, or which name a
    claim that another VM keeps."""
    vm = linted.object
    if not isinstance(vm, VirtualMachine):
        return
    for claim in linted.claims:
        stored = linted.inputs.claim(linted.namespace, claim.name) if claim.direct else None
        keeps = vm_name_of(stored) if stored is not None and is_kept(stored) else ""
        if keeps and keeps != vm.name:
            whose = f"VirtualMachine {quoted(keeps)} keeps the devices of ResourceClaim {quoted(claim.name)}"
            yield FieldIssue(claim.field, f"{whose}, and can't start while this VM has them; name another claim")
    if _terms(linted, vm) is None:
        return
    for index, entry in enumerate(linted.reviewed.spec.resource_claims[: linted.settings.max_entries]):
        if not entry.resource_claim_template_name:
            continue
        name = kept_claim_name(vm.name, entry.name)
        whose = _other_use(linted, vm, name)
        if whose:
            kept = f"the VM keeps the devices of entry {quoted(entry.name)} in ResourceClaim {quoted(name)}"
            ways = "delete it, or rename the entry" if whose == _FOREIGN else "rename the entry"
            text = f"{kept}, which {whose}; {ways}"
            yield FieldIssue(linted.path(f"resourceClaims[{index}].name"), text)


def _field(linted: Linted) -> str:
    """The annotation by which the VM keeps its devices: the first that is heard of :func:`_terms`."""
    reviewed = linted.reviewed
    if speaks_of_keeping(reviewed.annotations):
        return f"{reviewed.metadata}.annotations[{KEEP_ANNOTATION}]"
    if linted.inputs.configuration.own_crds and speaks_of_keeping(linted.object.metadata.annotations):
        return f"metadata.annotations[{KEEP_ANNOTATION}]"
    return f"{reviewed.metadata}.annotations[{DEVICES_ANNOTATION}]"


def _other_use(linted: Linted, vm: VirtualMachine, name: str) -> str:
    """A clause about another use of a claim's name; "" if there is none."""
    inputs, place = linted.inputs, (linted.namespace, name)
    for other in _would_keep(inputs.model, place):
        if other.name != vm.name and _terms(linted, other) is not None:
            return f"{title(other)} keeps, too"
    claim = inputs.claim(*place)
    owner = claim.metadata.controller_owner if claim is not None else None
    if claim is not None and (owner is None or owner.name != vm.name or owner.kind != VirtualMachine.KIND):
        of = vm_name_of(claim)
        return f"VirtualMachine {quoted(of)} keeps, too" if of and of != vm.name else _FOREIGN
    users = [user for user in inputs.users(*place) if user != title(vm)]
    return f"{users[0]} names" if users else ""


def _names(vm: VirtualMachine) -> tuple[NamespacedName, ...]:
    """The claims that a VM keeps if it keeps its devices."""
    return tuple(
        (vm.namespace, kept_claim_name(vm.name, entry.name))
        for entry in vm.spec.template.spec.resource_claims
        if entry.resource_claim_template_name
    )


_policies_of = ModelIndex(KeepPolicy, lambda policy: (policy.namespace,))
_would_keep = ModelIndex(VirtualMachine, _names)


def _terms(linted: Linted, vm: VirtualMachine) -> KeepTerms | None:
    """The terms on which a VM keeps its devices; None if it doesn't, or if what it says about it means nothing."""
    annotations = linted.reviewed.annotations if vm is linted.object else vm.spec.template.metadata.annotations
    # KubeVirt doesn't pass on what the VM itself says (P-10).
    own = vm.metadata.annotations if linted.inputs.configuration.own_crds else {}
    profiles = linted.inputs.model.by_key(DeviceProfile)
    try:
        return keep_terms(*places_of_terms(annotations, own, profiles))
    except (KeepingError, RefusedLineError):
        return None
