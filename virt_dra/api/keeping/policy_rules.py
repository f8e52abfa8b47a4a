"""Validation of KeepPolicies, and their bounds."""

from __future__ import annotations

import re
from typing import Final

from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.profiles.profile_limits import A_DURATION, DURATION
from virt_dra.api.validation.field_errors import Errors, duplicate, invalid, required, too_many
from virt_dra.api.validation.formats import declared_subdomain

CLASSES_MAX: Final = 64
DEVICES_MAX: Final = 1_000_000
DURATION_MAX: Final = 32
"""Characters."""
LIMITS_NOTHING: Final = "a policy limits stoppedFor, devices or classes"


def keep_policy(policy: KeepPolicy) -> Errors:
    """The faults of the policy."""
    spec = policy.spec
    if spec.stopped_for is None and spec.devices is None and not spec.classes:
        yield invalid("spec", {}, LIMITS_NOTHING)
    if spec.stopped_for is not None and not _is_duration(spec.stopped_for):
        yield invalid("spec.stoppedFor", spec.stopped_for, f"must be {A_DURATION}")
    if spec.devices is not None:
        yield from _devices(spec.devices, "spec.devices")
    if len(spec.classes) > CLASSES_MAX:
        yield too_many("spec.classes", len(spec.classes), CLASSES_MAX)
    names = set()
    for index, limit in enumerate(spec.classes[:CLASSES_MAX]):
        path = f"spec.classes[{index}]"
        if not limit.device_class_name:
            yield required(f"{path}.deviceClassName")
        elif limit.device_class_name in names:
            yield duplicate(f"{path}.deviceClassName", limit.device_class_name)
        else:
            yield from declared_subdomain(limit.device_class_name, f"{path}.deviceClassName")
        names.add(limit.device_class_name)
        if limit.devices is None:
            yield required(f"{path}.devices")
        else:
            yield from _devices(limit.devices, f"{path}.devices")


def _is_duration(text: str) -> bool:
    return 0 < len(text) <= DURATION_MAX and re.fullmatch(DURATION, text) is not None


def _devices(number: int, path: str) -> Errors:
    if not 0 <= number <= DEVICES_MAX:
        yield invalid(path, number, f"must be between 0 and {DEVICES_MAX}")
