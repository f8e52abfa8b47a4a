"""What a VM's line of profiles stands for: device entries and claim entries of the VMI, and templates of claims. Pure.

An item of the line makes one claim, so that its devices can be aligned. The names are the same each time; what is
written already, by the user or by an earlier expansion, stays as it is where it says the same, and is refused where it
says something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, Final

from virt_dra.api import names
from virt_dra.api.core_v1 import PodResourceClaim
from virt_dra.api.defaults import defaulted
from virt_dra.api.kubevirt_v1 import GPU, ClaimRequest, HostDevice, Interface, Network, VirtualMachineInstanceSpec
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.nearest import did_you_mean
from virt_dra.api.profiles.alignment import PreferredAlignment
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION, AskedProfile, RefusedLineError
from virt_dra.api.profiles.device_profile_v1alpha1 import (
    GPU_TYPE,
    HOST_DEVICE_TYPE,
    NETWORK_TYPE,
    DeviceProfile,
    ProfileDevice,
)
from virt_dra.api.profiles.requests import NamesByDevice, claim_for, constraint_of
from virt_dra.api.profiles.rules import device_profile
from virt_dra.api.resource_v1 import ResourceClaimSpec, ResourceClaimTemplate, ResourceClaimTemplateSpec
from virt_dra.api.validation.claims import REQUESTS_MAX, device_claim
from virt_dra.api.validation.field_errors import (
    Errors,
    FieldError,
    each_invalid,
    forbidden,
    invalid,
    not_found,
    required,
    too_many,
)
from virt_dra.api.validation.rules import DEFAULT_RULES
from virt_dra.api.wire import Wire

PROFILE_LABEL: Final = "virt-dra.io/device-profile"
"""On a template of claims: the profile that it was made from."""


DEFAULT_POD_BINDING: Final = "bridge"
"""Of pod networks that KubeVirt adds, where its configuration doesn't say."""
POD_BINDINGS: Final = ("bridge", "masquerade")
_POD_NETWORK: Final = "default"
DEVICES_MAX: Final = 128
"""Devices of a line. No VM has more."""


@dataclass(frozen=True)
class VmAsking:
    """The VM that asks. ``name``: of the VM, after which templates are called. ``namespace``: the one that it is in.
    Without ``namespace_labels`` profiles are for every namespace. ``above``: the path of the VMI's metadata and spec in
    the object, ``spec.template.`` in a VM. ``pod_binding``: the binding that KubeVirt gives to a VM's pod network."""

    name: str
    namespace: str
    namespace_labels: Mapping[str, str] | None = None
    above: str = ""
    pod_binding: str = DEFAULT_POD_BINDING

    @property
    def line_path(self) -> str:
        return f"{self.above}metadata.annotations[{DEVICES_ANNOTATION}]"


@dataclass(frozen=True)
class ExpandedVm:
    """The VMI's spec with what the line stands for, and the templates that its claims are made from, without the
    namespace that they are for. ``preferences``: alignments that the templates don't have, in the order of the line."""

    spec: VirtualMachineInstanceSpec
    templates: tuple[ResourceClaimTemplate, ...]
    preferences: tuple[PreferredAlignment, ...] = ()


@dataclass(frozen=True)
class _Unrolled:
    """A device of the VM: its name, which is its request's, too."""

    name: str
    claim: str
    device: ProfileDevice

    def entry(self) -> dict[str, Any]:
        """The fields that gpus and hostDevices have in common, by their Python names."""
        tag = {} if self.device.tag is None else {"tag": self.device.tag}
        return {"name": self.name, "claim_name": self.claim, "request_name": self.name, **tag}


@dataclass(frozen=True)
class _Item:
    """An item of the line, with its profile. ``claim``: the name of its claim entry."""

    asked: AskedProfile
    profile: DeviceProfile
    claim: str
    copies: tuple[NamesByDevice, ...]

    def devices(self) -> Iterable[_Unrolled]:
        return (
            _Unrolled(name, self.claim, device)
            for names_of_copy in self.copies
            for device in self.profile.spec.devices
            for name in names_of_copy[device.name]
        )

    def template(self, vm: VmAsking) -> str:
        """The name of the template that its claim is made from."""
        return template_name(vm.name, self.claim)


def template_name(vm: str, claim: str) -> str:
    """The name of the template that a claim entry of a VM is made from."""
    return f"{vm}-{claim}"


_SOURCES: Final[Mapping[type[Wire], tuple[str, ...]]] = {
    PodResourceClaim: ("resource_claim_name", "resource_claim_template_name"),
    GPU: ("claim_name", "request_name", "device_name"),
    HostDevice: ("claim_name", "request_name", "device_name"),
    Network: ("resource_claim", "pod", "multus"),
    Interface: ("sriov", "bridge", "masquerade", "binding"),
}
"""The fields that say where an entry's device comes from. In the others, what the user wrote counts."""


@dataclass(frozen=True)
class _Addition:
    """A list of the spec: as it is ``written``, and the entries that the line makes. Of one type, with names."""

    path: str
    written: Sequence[Any]
    made: Sequence[Any]

    def joined(self) -> Sequence[Any]:
        """What is written, and after it what isn't written yet; the list itself if nothing is added."""
        names = {entry.name for entry in self.written}
        added = tuple(entry for entry in self.made if entry.name not in names)
        return (*self.written, *added) if added else self.written

    def contradictions(self, spec_path: str) -> Errors:
        """Entries that have a name of the line's and another device."""
        made = {entry.name: entry for entry in self.made}
        for index, entry in enumerate(self.written):
            ours = made.get(entry.name)
            if ours is not None and any(
                getattr(entry, field) != getattr(ours, field) for field in _SOURCES[type(ours)]
            ):
                detail = (
                    f"{DEVICES_ANNOTATION} makes another entry of this name; rename one of them, or remove this one"
                )
                yield invalid(f"{spec_path}.{self.path}[{index}].name", entry.name, detail)


def expand_profiles(
    spec: VirtualMachineInstanceSpec,
    asked: Sequence[AskedProfile],
    profiles: Mapping[str, DeviceProfile],
    vm: VmAsking,
) -> ExpandedVm:
    """The spec with the devices of the profiles. Raises :class:`RefusedLineError` for profiles that don't exist, are
    invalid or aren't for this namespace, for names and claims that can't be, and for entries that contradict what is
    written."""
    errors = [*_unusable(asked, profiles, vm)] or [*_too_many_devices(asked, profiles, vm)]
    if errors:
        raise RefusedLineError(*errors)
    items = [_item(item, profiles[item.profile]) for item in asked]
    if any(device.device.listed_as == NETWORK_TYPE for item in items for device in item.devices()):
        spec = _with_pod_network(spec, vm.pod_binding)
    additions = _additions(spec, items, vm)
    errors = [*_unusable_names(items, vm)] or [
        error for addition in additions for error in addition.contradictions(f"{vm.above}spec")
    ]
    templates = tuple(_template(item, vm) for item in items)
    errors = errors or [error for template in templates for error in _refused_by_kubernetes(template, vm)]
    if errors:
        raise RefusedLineError(*errors)
    return ExpandedVm(_written(spec, additions), templates, tuple(_preferences(items)))


class _ByIdentity:
    """A profile as a key that is equal for the same object alone: comparing profiles costs as much as judging one."""

    def __init__(self, profile: DeviceProfile) -> None:
        self.profile = profile

    def __hash__(self) -> int:
        return id(self.profile)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.profile is other.profile


@lru_cache(maxsize=4096)
def _fault(key: _ByIdentity) -> FieldError | None:
    """What is wrong with a profile. Thousands of VMs may ask for one."""
    return next(device_profile(key.profile), None)


def _unusable(asked: Sequence[AskedProfile], profiles: Mapping[str, DeviceProfile], vm: VmAsking) -> Errors:
    if not vm.name:
        yield required("metadata.name", "the templates of its claims are called after it")
    for name in dict.fromkeys(item.profile for item in asked):
        profile = profiles.get(name)
        if profile is None:
            # Only names that this namespace may use are suggested: others needn't be known to it.
            hint = did_you_mean(name, (other for other, candidate in profiles.items() if _is_for(candidate, vm)))
            yield not_found(vm.line_path, name, f"there is no DeviceProfile of this name{hint}")
        elif not _is_for(profile, vm):
            yield forbidden(
                vm.line_path, f"DeviceProfile {name} isn't for namespace {vm.namespace} (namespaceSelector)"
            )
        elif (fault := _fault(_ByIdentity(profile))) is not None:
            yield invalid(vm.line_path, name, f"the DeviceProfile can't be used: {fault}")


def _is_for(profile: DeviceProfile, vm: VmAsking) -> bool:
    """True if VMs of the namespace may ask for the profile."""
    selector, labels = profile.spec.namespace_selector, vm.namespace_labels
    return selector is None or labels is None or selector.matches(labels)


def _too_many_devices(asked: Sequence[AskedProfile], profiles: Mapping[str, DeviceProfile], vm: VmAsking) -> Errors:
    """The fault of a line that asks for too many devices of valid profiles; counted before anything is made of them."""
    counts = [item.copies * sum(device.copies for device in profiles[item.profile].spec.devices) for item in asked]
    for item, count in zip(asked, counts, strict=True):
        if count > REQUESTS_MAX:
            detail = f"asks for {count} devices in one claim, which holds at most {REQUESTS_MAX}; make two items"
            yield invalid(vm.line_path, item.profile, detail)
    if sum(counts) > DEVICES_MAX:
        yield too_many(vm.line_path, sum(counts), DEVICES_MAX)


def _item(asked: AskedProfile, profile: DeviceProfile) -> _Item:
    alone = len(profile.spec.devices) == 1
    copies = tuple(
        {
            device.name: [_device_name(asked, device, alone, copy, number) for number in range(1, device.copies + 1)]
            for device in profile.spec.devices
        }
        for copy in range(1, asked.copies + 1)
    )
    return _Item(asked, profile, asked.name or profile.name, copies)


def _device_name(asked: AskedProfile, device: ProfileDevice, alone: bool, copy: int, number: int) -> str:
    """``gpu``, or ``gpu-2`` of several; the only device of a profile is called after the item, if that has a name."""
    parts = [asked.name] if asked.name else []
    if not (alone and asked.name):
        parts.append(device.name)
    if asked.copies > 1:
        parts.append(str(copy))
    if device.copies > 1:
        parts.append(str(number))
    return "-".join(parts)


def _unusable_names(items: Sequence[_Item], vm: VmAsking) -> Errors:
    claims: dict[str, str] = {}
    devices: dict[str, str] = {}
    for item in items:
        profile, unrolled = item.profile.name, [device.name for device in item.devices()]
        for name in (item.claim, *unrolled):
            yield from each_invalid(vm.line_path, name, names.dns1123_label(name))
        yield from each_invalid(vm.line_path, item.template(vm), names.dns1123_subdomain(item.template(vm)))
        for taken_by, own, noun in ((claims, [item.claim], "claim"), (devices, unrolled, "device")):
            taken = next((name for name in own if name in taken_by), None)
            if taken is not None:
                detail = f"{profile} and {taken_by[taken]} both have a {noun} {taken}; give them names: NAME={profile}"
                yield invalid(vm.line_path, profile, detail)
            taken_by.update(dict.fromkeys(own, profile))


def _refused_by_kubernetes(template: ResourceClaimTemplate, vm: VmAsking) -> Errors:
    """What is wrong with a claim although its profile is valid: many copies have too many constraints."""
    for error in device_claim(defaulted(template).spec.spec.devices, "claim", DEFAULT_RULES):
        profile = template.metadata.labels[PROFILE_LABEL]
        yield invalid(vm.line_path, profile, f"makes a claim that Kubernetes refuses: {error}")


def _additions(spec: VirtualMachineInstanceSpec, items: Sequence[_Item], vm: VmAsking) -> tuple[_Addition, ...]:
    """What the line adds to each list."""
    devices = [device for item in items for device in item.devices()]
    gpus, host_devices, networks = (
        [device for device in devices if device.device.listed_as == type_]
        for type_ in (GPU_TYPE, HOST_DEVICE_TYPE, NETWORK_TYPE)
    )
    written, domain = spec.domain.devices, "domain.devices."
    claims = [PodResourceClaim(name=item.claim, resource_claim_template_name=item.template(vm)) for item in items]
    return (
        _Addition("resourceClaims", spec.resource_claims, claims),
        _Addition(f"{domain}gpus", written.gpus, list(map(_gpu, gpus))),
        _Addition(f"{domain}hostDevices", written.host_devices, list(map(_host_device, host_devices))),
        _Addition("networks", spec.networks, list(map(_network, networks))),
        _Addition(f"{domain}interfaces", written.interfaces, list(map(_interface, networks))),
    )


def _written(spec: VirtualMachineInstanceSpec, additions: Sequence[_Addition]) -> VirtualMachineInstanceSpec:
    claims, gpus, host_devices, networks, interfaces = (addition.joined() for addition in additions)
    devices = spec.domain.devices.replacing(gpus=gpus, host_devices=host_devices, interfaces=interfaces)
    domain = spec.domain.replacing(devices=devices)
    return spec.replacing(domain=domain, resource_claims=claims, networks=networks)


def _with_pod_network(spec: VirtualMachineInstanceSpec, binding: str) -> VirtualMachineInstanceSpec:
    """The spec with the pod network that KubeVirt gives to a VM without networks, before webhooks see its VMI (K-2.37):
    to one with a network of a profile it wouldn't."""
    devices = spec.domain.devices
    if spec.networks or devices.interfaces or devices.autoattach_pod_interface is False:
        return spec
    interface = Interface.from_wire({"name": _POD_NETWORK, binding: {}})
    domain = spec.domain.replacing(devices=devices.replacing(interfaces=(interface,)))
    return spec.replacing(domain=domain, networks=(Network(name=_POD_NETWORK, pod={}),))


def _gpu(device: _Unrolled) -> GPU:
    gpu, options = GPU(**device.entry()), device.device.virtual_gpu_options
    return gpu if options is None else gpu.with_(virtual_gpu_options=options)


def _host_device(device: _Unrolled) -> HostDevice:
    return HostDevice(**device.entry())


def _network(device: _Unrolled) -> Network:
    return Network(name=device.name, resource_claim=ClaimRequest(claim_name=device.claim, request_name=device.name))


def _interface(device: _Unrolled) -> Interface:
    """SR-IOV, the only binding of networks from claims (K-7.21)."""
    interface, tag = Interface(name=device.name, sriov={}), device.device.tag
    return interface if tag is None else interface.with_(tag=tag)


def _preferences(items: Sequence[_Item]) -> Iterable[PreferredAlignment]:
    """Alignments of several devices that are preferred, by item, alignment and copy."""
    for item in items:
        preferred = [alignment for alignment in item.profile.spec.align if not alignment.is_required]
        for alignment, names_of_copy in product(preferred, item.copies):
            devices = tuple(name for device in alignment.devices or names_of_copy for name in names_of_copy[device])
            if len(devices) > 1:
                constraint = constraint_of(alignment, names_of_copy, alone=len(item.copies) == 1)
                yield PreferredAlignment(item.claim, devices, constraint)


def _template(item: _Item, vm: VmAsking) -> ResourceClaimTemplate:
    spec = item.profile.spec
    claim = claim_for(spec, item.copies, [alignment for alignment in spec.align if alignment.is_required])
    return ResourceClaimTemplate(
        metadata=ObjectMeta(name=item.template(vm), labels={PROFILE_LABEL: item.profile.name}),
        spec=ResourceClaimTemplateSpec(spec=ResourceClaimSpec(devices=claim)),
    )
