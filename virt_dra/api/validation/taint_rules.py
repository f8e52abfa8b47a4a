"""DeviceTaintRule (C-14.6)."""

from __future__ import annotations

from virt_dra.api.resource_v1 import DeviceTaintRule
from virt_dra.api.validation.conditions import conditions
from virt_dra.api.validation.field_errors import Errors
from virt_dra.api.validation.formats import driver, label, pool
from virt_dra.api.validation.taints import taint

CONDITIONS_MAX = 8


def taint_rule(obj: DeviceTaintRule, old: DeviceTaintRule | None) -> Errors:
    """``old`` is what an update replaces. A rule without a selector is legal and selects nothing."""
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
