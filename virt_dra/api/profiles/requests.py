"""The claim that a profile's devices make: a request for each, since KubeVirt takes one device of a request (K-7.9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfileSpec, ProfileAlignment, ProfileDevice
from virt_dra.api.resource_v1 import (
    DeviceClaim,
    DeviceClaimConfiguration,
    DeviceConstraint,
    DeviceRequest,
    ExactDeviceRequest,
)

NamesByDevice = Mapping[str, Sequence[str]]
"""The names of the requests that each device of a copy of a profile gets, by its name in the profile."""


def claim_of_profile(spec: DeviceProfileSpec) -> DeviceClaim:
    """A claim for one of each device, with the profile's names and every alignment: what Kubernetes' rules judge the
    profile by."""
    return claim_for(spec, [{device.name: [device.name] for device in spec.devices}], spec.align)


def claim_for(
    spec: DeviceProfileSpec, copies: Sequence[NamesByDevice], alignments: Sequence[ProfileAlignment]
) -> DeviceClaim:
    """A claim for copies of the profile. ``alignments``: those that must hold; the devices of a copy are aligned, those
    of different copies aren't."""
    fields: dict[str, Any] = {
        "requests": tuple(
            _request(device, name) for names in copies for device in spec.devices for name in names[device.name]
        )
    }
    if alignments:
        fields["constraints"] = tuple(
            constraint_of(alignment, names, alone=len(copies) == 1) for names in copies for alignment in alignments
        )
    if spec.config:
        fields["config"] = tuple(_configuration(entry, copies) for entry in spec.config)
    return DeviceClaim(**fields)


def _request(device: ProfileDevice, name: str) -> DeviceRequest:
    if device.first_available:
        return DeviceRequest(name=name, first_available=device.first_available)
    given = ("device_class_name", "selectors", "tolerations", "capacity")
    return DeviceRequest(
        name=name,
        exactly=ExactDeviceRequest(**{field: value for field in given if (value := getattr(device, field))}),
    )


def constraint_of(alignment: ProfileAlignment, names: NamesByDevice, *, alone: bool) -> DeviceConstraint:
    """The constraint of a copy, of its requests; of all requests where the claim has nothing but this copy."""
    constraint = DeviceConstraint(match_attribute=alignment.qualified_attribute)
    if alone and not alignment.devices:
        return constraint
    devices = alignment.devices or tuple(names)
    return constraint.with_(requests=tuple(name for device in devices for name in names.get(device, (device,))))


def _configuration(entry: DeviceClaimConfiguration, copies: Sequence[NamesByDevice]) -> DeviceClaimConfiguration:
    """The configuration with the requests of all copies; ``device/alternative`` stands for that alternative of each."""
    if not entry.requests:
        return entry
    references = [reference.partition("/") for reference in entry.requests]
    requests = tuple(
        f"{name}{slash}{alternative}"
        for names in copies
        for device, slash, alternative in references
        for name in names.get(device, (device,))
    )
    return entry.with_(requests=requests)
