"""Validation of device taints, tolerations of them, and DeviceTaintRules (C-14.1, C-14.4, C-14.6)."""

from __future__ import annotations

from virt_dra.api import names
from virt_dra.api.resource_v1 import DeviceTaint, DeviceTaintRule, DeviceToleration
from virt_dra.api.validation.conditions import conditions
from virt_dra.api.validation.field_errors import Errors, each_invalid, invalid, not_supported, required
from virt_dra.api.validation.formats import driver, label, label_name, pool, time

TAINTS_MAX = 16
CONDITIONS_MAX = 8
EFFECTS = ("NoExecute", "NoSchedule", "None")
OPERATORS = ("Equal", "Exists")


def taint(value: DeviceTaint, path: str, *, stored_effect: str | None = None) -> Errors:
    """The faults of a taint. ``stored_effect``: an unchanged effect is not checked again."""
    yield from label_name(value.key, f"{path}.key")
    if value.value:
        yield from each_invalid(f"{path}.value", value.value, names.label_value(value.value))
    if value.effect != stored_effect:
        yield from taint_effect(value.effect, path)
    yield from time(value.time_added, f"{path}.timeAdded")


def taint_effect(effect: str, path: str) -> Errors:
    """The fault of a taint's effect; ``path`` is the taint's."""
    if not effect:
        yield required(f"{path}.effect")
    elif effect not in EFFECTS:
        yield not_supported(f"{path}.effect", effect, EFFECTS)


def toleration(value: DeviceToleration, path: str) -> Errors:
    """The faults of a toleration. An empty key or effect is valid and tolerates all."""
    if value.key:
        yield from label_name(value.key, f"{path}.key")
    if not value.operator:
        yield required(f"{path}.operator")
    elif value.operator not in OPERATORS:
        yield not_supported(f"{path}.operator", value.operator, OPERATORS)
    elif value.operator == "Equal":
        yield from each_invalid(f"{path}.value", value.value, names.label_value(value.value))
    elif value.value:
        yield invalid(f"{path}.value", value.value, "must be empty for operator `Exists`")
    if value.effect and value.effect not in EFFECTS:
        yield not_supported(f"{path}.effect", value.effect, EFFECTS)


def taint_rule(obj: DeviceTaintRule, old: DeviceTaintRule | None) -> Errors:
    """The faults of a rule; ``old``: what an update replaces. One without a selector is legal and selects nothing."""
    selector, path = obj.spec.device_selector, "spec.deviceSelector"
    if selector is not None:
        if selector.driver is not None:
            yield from driver(selector.driver, f"{path}.driver")
        if selector.pool is not None:
            yield from pool(selector.pool, f"{path}.pool")
        if selector.device is not None:
            yield from label(selector.device, f"{path}.device")
    yield from taint(obj.spec.taint, "spec.taint", stored_effect=None if old is None else old.spec.taint.effect)


def taint_rule_status(obj: DeviceTaintRule) -> Errors:
    yield from conditions(obj.status.conditions, "status.conditions", CONDITIONS_MAX)
