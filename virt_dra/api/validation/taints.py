"""Device taints and tolerations of them (C-14.1, C-14.4)."""

from __future__ import annotations

from virt_dra.api import names
from virt_dra.api.resource_v1 import DeviceTaint, DeviceToleration
from virt_dra.api.validation.field_errors import Errors, each_invalid, invalid, not_supported, required
from virt_dra.api.validation.formats import label_name, time

TAINTS_MAX = 16
EFFECTS = ("NoExecute", "NoSchedule", "None")
OPERATORS = ("Equal", "Exists")


def taint(value: DeviceTaint, path: str, *, stored_effect: str | None = None) -> Errors:
    """``stored_effect``: an effect that is kept is not checked again."""
    yield from label_name(value.key, f"{path}.key")
    if value.value:
        yield from each_invalid(f"{path}.value", value.value, names.label_value(value.value))
    if value.effect != stored_effect:
        yield from taint_effect(value.effect, path)
    yield from time(value.time_added, f"{path}.timeAdded")


def taint_effect(effect: str, path: str) -> Errors:
    """``path`` is the taint's."""
    if not effect:
        yield required(f"{path}.effect")
    elif effect not in EFFECTS:
        yield not_supported(f"{path}.effect", effect, EFFECTS)


def toleration(value: DeviceToleration, path: str) -> Errors:
    """An empty key or effect tolerates every one."""
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
