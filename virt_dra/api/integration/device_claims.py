"""The user's annotation for the device-plugin path: which claim takes the place of which plugin device (K-11.2,
decision 0012).

The annotation ``virt-dra.io/device-claims`` of a VMI (of a VM: of its template) is a JSON object:

    {"<name of a gpus or hostDevices entry>": {"resourceClaimTemplateName": "<name>", "request": "<request>"}, ...}

with ``resourceClaimName`` in place of ``resourceClaimTemplateName`` for a claim that exists.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from virt_dra.api import names
from virt_dra.api.core_v1 import PodResourceClaim
from virt_dra.api.integration.paths import DEVICE_CLAIMS_ANNOTATION, MDEV_PREFIX, PCI_PREFIX, resource_variable
from virt_dra.api.kubevirt_v1 import DeviceEntry, VirtualMachineInstance
from virt_dra.api.reading.json_annotations import AnnotationError, parse
from virt_dra.api.wire import Json

DeviceListName = Literal["gpus", "hostDevices"]
_Check = Callable[[str], tuple[str, ...]]

_DIRECT, _TEMPLATE, _REQUEST = "resourceClaimName", "resourceClaimTemplateName", "request"
_MAX_DEVICES = 128
"""The most devices of one VM: more than any machine has slots for."""
_MAX_VARIABLE = 1024
"""The most characters of a variable's name: names of Kubernetes' resources are much shorter."""


@dataclass(frozen=True)
class ClaimAssignment:
    """The source and request for one device. Exactly one of the two names is set."""

    device: str
    request: str
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


@dataclass(frozen=True)
class AssignedDevice:
    """A device entry of a VMI and the claim of its pod that serves it in place of ``resource``.

    ``index``: in ``gpus`` or ``hostDevices``. ``entry``: of the pod's resourceClaims.
    """

    kind: DeviceListName
    index: int
    name: str
    resource: str
    entry: PodResourceClaim
    request: str

    @property
    def variables(self) -> tuple[str, str]:
        """The resource's variables of PCI addresses and of mdev UUIDs (K-7.2). One of them is to stay empty."""
        return resource_variable(PCI_PREFIX, self.resource), resource_variable(MDEV_PREFIX, self.resource)


def read_device_claims(
    annotations: Mapping[str, str], root: str = "metadata.annotations"
) -> tuple[ClaimAssignment, ...]:
    """The claims in the annotation, in its order; () without it. Raises :class:`AnnotationError` with every fault."""
    text = annotations.get(DEVICE_CLAIMS_ANNOTATION)
    if text is None:
        return ()
    field = f"{root}[{DEVICE_CLAIMS_ANNOTATION}]"
    raw = parse(text, field)
    if not isinstance(raw, dict) or not raw:
        raise AnnotationError(
            field, [("", 'must be an object such as {"gpu1": {"resourceClaimTemplateName": "gpu", "request": "gpu"}}')]
        )
    if len(raw) > _MAX_DEVICES:
        raise AnnotationError(field, [("", f"must name no more than {_MAX_DEVICES} devices, not {len(raw)}")])
    problems = [problem for device, claim in raw.items() for problem in _faults(_shown(device), claim)]
    if problems:
        raise AnnotationError(field, problems)
    return tuple(
        ClaimAssignment(device, c[_REQUEST], c.get(_DIRECT) or "", c.get(_TEMPLATE) or "") for device, c in raw.items()
    )


def _shown(device: str) -> str:
    """A key of the annotation as part of a path."""
    return f"[{device[:_SHOWN]}]" if len(device) > _SHOWN or names.dns1123_label(device) else device


_SHOWN = 63


def _faults(device: str, claim: object) -> Iterable[tuple[str, str]]:
    if not isinstance(claim, dict):
        yield device, f"must be an object with {_REQUEST}, and {_TEMPLATE} or {_DIRECT}"
        return
    for unknown in sorted(claim.keys() - {_DIRECT, _TEMPLATE, _REQUEST}):
        yield f"{device}.{unknown[:_SHOWN]}", f"is unknown; an entry has {_REQUEST}, and {_TEMPLATE} or {_DIRECT}"
    given = [source for source in (_DIRECT, _TEMPLATE) if claim.get(source) is not None]
    if len(given) != 1:
        yield device, f"must have exactly one of {_TEMPLATE} and {_DIRECT}"
    for source in given:
        yield from _name_faults(f"{device}.{source}", claim[source], names.dns1123_subdomain)
    if claim.get(_REQUEST) is None:
        yield f"{device}.{_REQUEST}", "is required: the name of a request of the claim"
    else:
        yield from _name_faults(f"{device}.{_REQUEST}", claim[_REQUEST], names.dns1123_label)


def _name_faults(path: str, name: object, check: _Check) -> Iterable[tuple[str, str]]:
    if not isinstance(name, str):
        yield path, "must be a string"
    else:
        yield from ((path, fault) for fault in check(name))


def assign(
    vmi: VirtualMachineInstance,
    claims: Iterable[ClaimAssignment],
    taken: Iterable[str] = (),
    root: str = "metadata.annotations",
) -> tuple[AssignedDevice, ...]:
    """The devices with their claims, gpus first, in spec order. Raises :class:`AnnotationError` with every fault.

    Entries that name one template share one claim, as long as their requests differ: a template's requests and
    constraints are made for each other. The second entry for the same request begins another claim. ``taken``: names of
    entries that the pod has besides.
    """
    field = f"{root}[{DEVICE_CLAIMS_ANNOTATION}]"
    wanted = {claim.device: claim for claim in claims}
    entries = _plugin_entries(vmi)
    problems = [*_not_assignable(wanted, entries, vmi), *_resource_faults(wanted, entries)]
    if problems:
        raise AnnotationError(field, problems)
    numbers = _Numbers({*taken, *(entry.name for entry in vmi.spec.resource_claims)})
    assigned: list[AssignedDevice] = []
    pairs: set[tuple[str, str]] = set()
    for kind, index, device in entries:
        claim = wanted.get(device.name)
        if claim is None:
            continue
        if claim.resource_claim_name and (claim.resource_claim_name, claim.request) in pairs:
            message = (
                f"request {claim.request} of ResourceClaim {claim.resource_claim_name} serves another device already"
            )
            problems.append((_shown(device.name), message))
            continue
        pairs.add((claim.resource_claim_name, claim.request))
        assigned.append(
            AssignedDevice(kind, index, device.name, device.device_name or "", numbers.entry(claim), claim.request)
        )
    if problems:
        raise AnnotationError(field, problems)
    return tuple(assigned)


def pod_claims(assigned: Iterable[AssignedDevice]) -> tuple[PodResourceClaim, ...]:
    """The entries that the pod gets, each once."""
    return tuple({device.entry.name: device.entry for device in assigned}.values())


class _Numbers:
    """Names of claim entries: ``virt-dra-<number>``, the same for the same input."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._entries: list[tuple[PodResourceClaim, set[str]]] = []
        self._next = 0

    def entry(self, claim: ClaimAssignment) -> PodResourceClaim:
        direct, template = claim.resource_claim_name or None, claim.resource_claim_template_name or None
        for entry, requests in self._entries:
            same = (entry.resource_claim_name, entry.resource_claim_template_name) == (direct, template)
            if same and claim.request not in requests:
                requests.add(claim.request)
                return entry
        while f"virt-dra-{self._next}" in self._taken:
            self._next += 1
        source: Json = {_DIRECT: direct} if direct else {_TEMPLATE: template}
        made = PodResourceClaim.from_wire({"name": f"virt-dra-{self._next}", **source})
        self._next += 1
        self._entries.append((made, {claim.request}))
        return made


_Entries = tuple[tuple[DeviceListName, int, DeviceEntry], ...]


def _plugin_entries(vmi: VirtualMachineInstance) -> _Entries:
    devices = vmi.spec.domain.devices
    gpus: _Entries = tuple(("gpus", index, gpu) for index, gpu in enumerate(devices.gpus) if gpu.is_plugin)
    hosts: _Entries = tuple(
        ("hostDevices", index, device) for index, device in enumerate(devices.host_devices) if device.is_plugin
    )
    return (*gpus, *hosts)


def _not_assignable(
    wanted: Mapping[str, ClaimAssignment], entries: _Entries, vmi: VirtualMachineInstance
) -> Iterable[tuple[str, str]]:
    times = Counter(device.name for _, _, device in entries)
    present = {device.name for device in (*vmi.spec.domain.devices.gpus, *vmi.spec.domain.devices.host_devices)}
    for name in wanted:
        if times[name] > 1:
            yield _shown(name), f"{times[name]} devices have this name; give each its own"
        elif not times[name] and name in present:
            yield _shown(name), "has no deviceName; this path is for devices with one"
        elif not times[name]:
            yield _shown(name), "is no entry of gpus or hostDevices"


def _resource_faults(wanted: Mapping[str, ClaimAssignment], entries: _Entries) -> Iterable[tuple[str, str]]:
    """The faults of variables: one variable serves all devices of a resource, and each kind of devices by itself
    (K-7.3), so all of them must be ours, and of one kind."""
    by_variable: dict[str, list[tuple[DeviceListName, DeviceEntry]]] = defaultdict(list)
    for kind, _, device in entries:
        by_variable[resource_variable(PCI_PREFIX, device.device_name or "")].append((kind, device))
    for variable, sharing in by_variable.items():
        ours = [(kind, device) for kind, device in sharing if device.name in wanted]
        if not ours:
            continue
        first = _shown(ours[0][1].name)
        resource = ours[0][1].device_name or ""
        faults = names.label_key(resource)
        if faults or len(variable) > _MAX_VARIABLE:
            yield (
                first,
                f"deviceName {resource[:_SHOWN]!r} can't be an extended resource: "
                f"{'; '.join(faults) or 'it is too long'}",
            )
        elif len({kind for kind, _ in ours}) > 1:
            yield (
                first,
                f"resource {resource} is used in gpus and in hostDevices, and KubeVirt "
                "would give the same device to both; use two names",
            )
        elif len(ours) < len(sharing):
            others = ", ".join(_shown(device.name) for _, device in sharing if device.name not in wanted)
            yield first, f"variable {variable} serves {others} too; name all devices of the resource, or none"
