"""Validation of DeviceProfiles. What is asked of devices is judged by Kubernetes' own rules for claims, at the place in
the profile where it stands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from virt_dra.api.defaults import defaulted
from virt_dra.api.nearest import did_you_mean
from virt_dra.api.profiles.device_profile_v1alpha1 import (
    ALIGNMENT_MODES,
    DEVICE_TYPES,
    GPU_TYPE,
    STANDARD_ATTRIBUTES,
    DeviceProfile,
    DeviceProfileSpec,
    ProfileAlignment,
    ProfileDevice,
    ProfileKeep,
)
from virt_dra.api.profiles.profile_limits import (
    A_DURATION,
    CAPACITIES_MAX,
    CONFIGURATIONS_MAX,
    DURATION,
    EXPRESSIONS_MAX,
    NEVER,
    TOLERATIONS_MAX,
)
from virt_dra.api.profiles.requests import claim_of_profile
from virt_dra.api.resource_v1 import ALL, DeviceSubRequest, ResourceClaim, ResourceClaimSpec
from virt_dra.api.validation.claims import ALTERNATIVES_MAX, CONSTRAINTS_MAX, REQUESTS_MAX, device_claim
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
        expressions = len(spec.namespace_selector.match_expressions)
        if expressions > EXPRESSIONS_MAX:
            yield too_many("spec.namespaceSelector.matchExpressions", expressions, EXPRESSIONS_MAX)
    if not spec.devices:
        yield required("spec.devices", "a profile has at least one device")
    wanted = sum(max(device.copies, 1) for device in spec.devices)
    if wanted > REQUESTS_MAX:
        yield too_many("spec.devices", wanted, REQUESTS_MAX)
    for index, device in enumerate(spec.devices[:REQUESTS_MAX]):
        yield from _device(device, f"spec.devices[{index}]")
    names = [device.name for device in spec.devices[:REQUESTS_MAX]]
    for index, alignment in enumerate(spec.align[:CONSTRAINTS_MAX]):
        yield from _alignment(alignment, names, f"spec.align[{index}]")
    if len(spec.config) > CONFIGURATIONS_MAX:
        yield too_many("spec.config", len(spec.config), CONFIGURATIONS_MAX)
    if spec.keep is not None:
        yield from _keep(spec.keep, "spec.keep")


def _alignment(alignment: ProfileAlignment, names: Sequence[str], path: str) -> Errors:
    if "/" not in alignment.attribute and alignment.attribute not in STANDARD_ATTRIBUTES:
        detail = f"must be {' or '.join(STANDARD_ATTRIBUTES)}, or an attribute with its domain"
        hint = did_you_mean(alignment.attribute, STANDARD_ATTRIBUTES)
        yield invalid(f"{path}.attribute", alignment.attribute, detail + hint)
    if alignment.mode is not None and alignment.mode not in ALIGNMENT_MODES:
        yield not_supported(f"{path}.mode", alignment.mode, ALIGNMENT_MODES)
    for number, name in enumerate(alignment.devices[:REQUESTS_MAX]):
        if name not in names:
            hint = did_you_mean(name, names)
            yield not_found(f"{path}.devices[{number}]", name, f"no device of this profile has this name{hint}")


def _keep(keep: ProfileKeep, path: str) -> Errors:
    if keep.stopped_for is not None and not _is_duration(keep.stopped_for):
        yield invalid(f"{path}.stoppedFor", keep.stopped_for, f"must be {A_DURATION}")
    if keep.on_node_loss is not None and keep.on_node_loss != NEVER and not _is_duration(keep.on_node_loss):
        yield invalid(f"{path}.onNodeLoss", keep.on_node_loss, f"must be {NEVER} or {A_DURATION}")


def _is_duration(text: str) -> bool:
    return text != "" and re.fullmatch(DURATION, text) is not None


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
    yield from _bounded(device, path)
    for number, alternative in enumerate(device.first_available[:ALTERNATIVES_MAX]):
        place = f"{path}.firstAvailable[{number}]"
        if alternative.allocation_mode == ALL or alternative.count > 1:
            yield forbidden(place, "must be one device: KubeVirt takes one of a request")
        if alternative.derived_attributes:
            yield forbidden(f"{place}.derivedAttributes", "devices are aligned by attributes that they have")
        yield from _bounded(alternative, place)
    if device.virtual_gpu_options is not None and device.listed_as != GPU_TYPE:
        yield forbidden(f"{path}.virtualGPUOptions", f"may only be specified for type {GPU_TYPE}")


def _bounded(asked: ProfileDevice | DeviceSubRequest, path: str) -> Errors:
    """Sizes that Kubernetes leaves to the size of an object."""
    if len(asked.tolerations) > TOLERATIONS_MAX:
        yield too_many(f"{path}.tolerations", len(asked.tolerations), TOLERATIONS_MAX)
    if asked.capacity is not None and len(asked.capacity.requests) > CAPACITIES_MAX:
        yield too_many(f"{path}.capacity.requests", len(asked.capacity.requests), CAPACITIES_MAX)


def _place(error: FieldError) -> FieldError:
    """The error with its place in the profile."""
    for pattern, place in _PLACES:
        field, replaced = pattern.subn(place, error.field, count=1)
        if replaced:
            return replace(error, field=field)
    return error
