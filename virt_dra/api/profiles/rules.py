"""Validation of DeviceProfiles. What is asked of devices is judged by Kubernetes' own rules for claims, at the place in
the profile where it stands."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from virt_dra.api.defaults import defaulted
from virt_dra.api.nearest import did_you_mean
from virt_dra.api.profiles.device_profile_v1alpha1 import (
    DEVICE_TYPES,
    GPU_TYPE,
    STANDARD_ATTRIBUTES,
    DeviceProfile,
    DeviceProfileSpec,
    ProfileDevice,
)
from virt_dra.api.profiles.requests import claim_of_profile
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimSpec
from virt_dra.api.validation.claims import REQUESTS_MAX, device_claim
from virt_dra.api.validation.field_errors import (
    Errors,
    FieldError,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_many,
)
from virt_dra.api.validation.node_selectors import label_selector
from virt_dra.api.validation.rules import DEFAULT_RULES, Rules

_PLACES: Final = (
    (re.compile(r"claim\.requests(\[\d+\])\.exactly"), r"spec.devices\1"),
    (re.compile(r"claim\.requests"), "spec.devices"),
    (re.compile(r"claim\.constraints(\[\d+\])\.matchAttribute"), r"spec.align\1.attribute"),
    (re.compile(r"claim\.constraints(\[\d+\])\.requests"), r"spec.align\1.devices"),
    (re.compile(r"claim\.constraints"), "spec.align"),
    (re.compile(r"claim\.config"), "spec.config"),
)
"""Paths in the claim that a profile stands for, and in the profile."""


def device_profile(profile: DeviceProfile, rules: Rules = DEFAULT_RULES) -> Errors:
    """The faults of the profile. ``rules``: of the cluster that its claims are for."""
    spec = profile.spec
    own = tuple(_own_rules(spec))
    yield from own
    judged = {error.field for error in own}
    claim = defaulted(ResourceClaim(spec=ResourceClaimSpec(devices=claim_of_profile(spec)))).spec.devices
    for error in device_claim(claim, "claim", rules):
        place = _place(error)
        if place.field not in judged:
            yield place


def _own_rules(spec: DeviceProfileSpec) -> Errors:
    """What claims don't have."""
    if spec.namespace_selector is not None:
        yield from label_selector(spec.namespace_selector, "spec.namespaceSelector")
    if not spec.devices:
        yield required("spec.devices", "a profile has at least one device")
    wanted = sum(max(device.copies, 1) for device in spec.devices)
    if wanted > REQUESTS_MAX:
        yield too_many("spec.devices", wanted, REQUESTS_MAX)
    for index, device in enumerate(spec.devices[:REQUESTS_MAX]):
        yield from _device(device, f"spec.devices[{index}]")
    names = [device.name for device in spec.devices[:REQUESTS_MAX]]
    for index, alignment in enumerate(spec.align[:REQUESTS_MAX]):
        path = f"spec.align[{index}]"
        if "/" not in alignment.attribute and alignment.attribute not in STANDARD_ATTRIBUTES:
            detail = f"must be {' or '.join(STANDARD_ATTRIBUTES)}, or an attribute with its domain"
            hint = did_you_mean(alignment.attribute, STANDARD_ATTRIBUTES)
            yield invalid(f"{path}.attribute", alignment.attribute, detail + hint)
        for number, name in enumerate(alignment.devices[:REQUESTS_MAX]):
            if name not in names:
                hint = did_you_mean(name, names)
                yield not_found(f"{path}.devices[{number}]", name, f"no device of this profile has this name{hint}")


def _device(device: ProfileDevice, path: str) -> Errors:
    if device.type is not None and device.type not in DEVICE_TYPES:
        yield not_supported(f"{path}.type", device.type, DEVICE_TYPES)
    if device.count is not None and not 1 <= device.count <= REQUESTS_MAX:
        yield invalid(f"{path}.count", device.count, f"must be between 1 and {REQUESTS_MAX}")
    for field, value in (
        ("deviceClassName", device.device_class_name),
        ("selectors", device.selectors),
        ("tolerations", device.tolerations),
        ("capacity", device.capacity),
    ):
        if device.first_available and value:
            yield forbidden(f"{path}.{field}", "may not be specified together with firstAvailable")
    for number, alternative in enumerate(device.first_available[:REQUESTS_MAX]):
        if alternative.allocation_mode == "All" or alternative.count > 1:
            yield forbidden(f"{path}.firstAvailable[{number}]", "must be one device: KubeVirt takes one of a request")
    if device.virtual_gpu_options is not None and device.listed_as != GPU_TYPE:
        yield forbidden(f"{path}.virtualGPUOptions", f"may only be specified for type {GPU_TYPE}")


def _place(error: FieldError) -> FieldError:
    """The error with its place in the profile."""
    for pattern, place in _PLACES:
        field, replaced = pattern.subn(place, error.field, count=1)
        if replaced:
            return replace(error, field=field)
    return error
