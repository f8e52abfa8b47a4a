"""Rules for ``gpus`` and ``hostDevices``: the source of each device, and that its claim is listed (K-2.10 to K-2.17).

The releases differ in few points, which are the fields of :class:`DeviceRules`; 1.6 and 1.7, which only check GPUs,
have a rule of their own, and so have older releases, in which devices can't name claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from virt_dra.api.go_text import quoted
from virt_dra.api.kubevirt_v1 import DeviceEntry
from virt_dra.api.kubevirt_versions import GPUS_WITH_DRA, NETWORK_DEVICES_WITH_DRA
from webhooks.rules.reviewed_spec import DEVICE_LISTS, GPUS, DeviceList, ReviewedSpec
from webhooks.verdict import DUPLICATE, INVALID, REQUIRED, AdmissionCause

Indexed = tuple[int, DeviceEntry]


@dataclass(frozen=True)
class DeviceRules:
    """One release's device rules, called as a rule.

    * ``refuse_mixed_gpus``: K-2.10.
    * ``original_indices``: causes carry the position in the spec; 1.8.0 to 1.8.2 count DRA devices only (K-2.29).
    * ``across``: the kinds between which pairs must differ (K-2.16); none in 1.8.0 to 1.8.2.
    """

    refuse_mixed_gpus: bool = True
    original_indices: bool = True
    across: tuple[str, ...] = ("GPUs", "HostDevices", "Networks")

    def __call__(self, subject: ReviewedSpec) -> Iterator[AdmissionCause]:
        complete: dict[str, list[Indexed]] = {}
        for kind in DEVICE_LISTS:
            usable: list[Indexed] = []
            yield from self._kind(subject, kind, usable)
            complete[kind.plural] = usable
        yield from self._between_kinds(subject, complete)
        yield from _coverage(subject, complete)

    def _kind(self, subject: ReviewedSpec, kind: DeviceList, usable: list[Indexed]) -> Iterator[AdmissionCause]:
        """The rules within one list. Fills ``usable`` with the DRA devices for later rules."""
        devices = kind.devices(subject.spec)
        dra = [(index, device) for index, device in enumerate(devices) if device.is_dra]
        if self.refuse_mixed_gpus and kind is GPUS and 0 < len(dra) < len(devices):
            text = f"contains both DRA and non-DRA {kind.plural}; each {kind.word} must be either DRA or non-DRA"
            yield subject.cause(INVALID, kind.field, f"vmi.spec.{kind.field} {text}")  # K-2.10
            return
        yield from _source(subject, devices, kind)
        if dra and kind.gate not in subject.gates:
            yield _gate_off(subject, kind.field, kind)
            return
        yield from _missing_names(subject, self._shown(dra), kind)
        usable.extend((index, device) for index, device in dra if device.claim_name and device.request_name)
        yield from _duplicate_pairs(subject, self._shown(usable), kind)

    def _shown(self, devices: list[Indexed]) -> list[Indexed]:
        """The devices with the indices that causes carry."""
        if self.original_indices:
            return devices
        return [(position, device) for position, (_, device) in enumerate(devices)]

    def _between_kinds(self, subject: ReviewedSpec, complete: dict[str, list[Indexed]]) -> Iterator[AdmissionCause]:
        """Pairs of claim and request that two lists have (K-2.16). KubeVirt's order is random; here it is by list, then
        by position.

        A pair belongs to the first list that has it; other lists are compared with that one only.
        """
        firsts = {name: _first_indices((i, _pair(device)) for i, device in usable) for name, usable in complete.items()}
        firsts["Networks"] = _network_pairs(subject)
        fields = {kind.plural: kind.field for kind in DEVICE_LISTS} | {"Networks": "networks"}
        owned: dict[str, str] = {}
        for later in self.across:
            for pair, index in firsts[later].items():
                owner = owned.setdefault(pair, later)
                if owner != later:
                    places = f"{owner}[{firsts[owner][pair]}] and {later}[{index}]"
                    text = f"duplicate claimName/requestName pair {quoted(pair)} between {places}"
                    yield subject.cause(DUPLICATE, f"{fields[later]}[{index}]", text)


def _source(subject: ReviewedSpec, devices: Sequence[DeviceEntry], kind: DeviceList) -> Iterator[AdmissionCause]:
    """Devices with neither source (K-2.11) or both (K-2.12)."""
    for device in devices:
        if not device.is_plugin and not device.is_dra:
            text = (
                f"vmi.spec.{kind.field} contains {kind.plural} without deviceName or claimRequest; "
                f"each {kind.word} must specify either a deviceName or a claimRequest"
            )
            yield subject.cause(REQUIRED, kind.field, text)
        elif device.is_plugin and device.names_claim:
            yield _both_sources(subject, kind.field, kind)


def _both_sources(subject: ReviewedSpec, field: str, kind: DeviceList) -> AdmissionCause:
    text = f"contains {kind.plural} with both deviceName and claimRequest"
    return subject.cause(INVALID, field, f"vmi.spec.{kind.field} {text}")


def _gate_off(subject: ReviewedSpec, field: str, kind: DeviceList) -> AdmissionCause:
    """Devices from claims with the feature gate off (K-2.13)."""
    text = f"contains DRA enabled {kind.plural} but feature gate is not enabled"
    return subject.cause(INVALID, field, f"vmi.spec.{kind.field} {text}")


def _missing_names(subject: ReviewedSpec, dra: Sequence[Indexed], kind: DeviceList) -> Iterator[AdmissionCause]:
    """Devices from claims without claim or request name (K-2.14)."""
    for index, device in dra:
        for name, value in (("claimName", device.claim_name), ("requestName", device.request_name)):
            if not value:
                yield subject.cause(
                    REQUIRED, f"{kind.field}[{index}].{name}", f"{name} is required for DRA {kind.word}"
                )


def _duplicate_pairs(subject: ReviewedSpec, usable: Sequence[Indexed], kind: DeviceList) -> Iterator[AdmissionCause]:
    """Devices of one list with the same claim and request (K-2.15)."""
    seen: set[str] = set()
    for index, device in usable:
        pair = _pair(device)
        if pair in seen:
            text = f"duplicate claimName/requestName pair {quoted(pair)}"
            yield subject.cause(DUPLICATE, f"{kind.field}[{index}]", text)
        seen.add(pair)


def _coverage(subject: ReviewedSpec, complete: dict[str, list[Indexed]]) -> Iterator[AdmissionCause]:
    """Claims that ``resourceClaims`` doesn't list (K-2.17): at most one cause."""
    listed = subject.listed_claims()
    if any(device.claim_name not in listed for usable in complete.values() for _, device in usable):
        used = "vmi.spec.domain.devices.gpus and vmi.spec.domain.devices.hostDevices"
        yield subject.cause(
            INVALID, "resourceClaims", f"vmi.spec.resourceClaims must specify all claims used in {used}"
        )


def _pair(device: DeviceEntry) -> str:
    return f"{device.claim_name}/{device.request_name}"


def _first_indices(pairs: Iterable[tuple[int, str]]) -> dict[str, int]:
    firsts: dict[str, int] = {}
    for index, pair in pairs:
        firsts.setdefault(pair, index)
    return firsts


def _network_pairs(subject: ReviewedSpec) -> dict[str, int]:
    if NETWORK_DEVICES_WITH_DRA not in subject.gates:
        return {}
    claims = ((index, network.resource_claim) for index, network in enumerate(subject.spec.networks))
    complete = ((i, claim) for i, claim in claims if claim and claim.claim_name and claim.request_name)
    return _first_indices((i, f"{claim.claim_name}/{claim.request_name}") for i, claim in complete)


def gpus_of_1_6(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """The device rule of 1.6 and 1.7, which only checks GPUs, and writes ``spec`` twice into the path (K-2.30).

    A DRA GPU without the key ``claimName`` crashes KubeVirt's webhook, so that the API server refuses the VMI with an
    internal error. This rule refuses it with a cause.
    """
    field = f"spec.{GPUS.field}"
    gpus = subject.spec.domain.devices.gpus
    for gpu in gpus:
        if gpu.is_dra:
            continue
        if not gpu.is_plugin:
            yield subject.cause(INVALID, field, f"vmi.spec.{GPUS.field} contains GPUs without deviceName")
            return
        if gpu.names_claim:
            yield _both_sources(subject, field, GPUS)
    dra = [(index, gpu) for index, gpu in enumerate(gpus) if gpu.is_dra]
    if dra and GPUS_WITH_DRA not in subject.gates:
        yield _gate_off(subject, field, GPUS)
        return
    for index, gpu in dra:
        if gpu.claim_name is None:
            yield subject.cause(REQUIRED, f"{GPUS.field}[{index}].claimName", "claimName is required for DRA GPU")
    listed = subject.listed_claims()
    if any(gpu.claim_name is not None and gpu.claim_name not in listed for _, gpu in dra):
        text = f"vmi.spec.resourceClaims must specify all claims used in vmi.spec.{GPUS.field}"
        yield subject.cause(INVALID, "resourceClaims", text)


def device_name_required(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """Devices without ``deviceName``, which the schema requires up to 1.5, without claims (K-2.31)."""
    for kind in DEVICE_LISTS:
        for index, device in enumerate(kind.devices(subject.spec)):
            if device.device_name is None:
                yield subject.cause(REQUIRED, f"{kind.field}[{index}].deviceName", "Required value")
