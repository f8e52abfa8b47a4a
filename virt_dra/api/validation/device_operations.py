"""Validation of what devices and allocation results share: binding conditions, skipped node operations (C-14.4)."""

from __future__ import annotations

from virt_dra.api.resource_v1 import Device, DeviceRequestAllocationResult
from virt_dra.api.validation.field_errors import Errors, duplicate, invalid, not_supported
from virt_dra.api.validation.formats import items, label_name, unique_items

BINDING_CONDITIONS_MAX = 4
PREPARE, UNPREPARE, EVERY = "NodePrepareResources", "NodeUnprepareResources", "*"


def binding_conditions(owner: Device | DeviceRequestAllocationResult, path: str) -> Errors:
    """The faults of binding conditions: both lists or neither, without repetition within or across them."""
    conditions, failures = owner.binding_conditions, owner.binding_failure_conditions
    yield from items(conditions, f"{path}.bindingConditions", label_name, BINDING_CONDITIONS_MAX)
    yield from items(failures, f"{path}.bindingFailureConditions", label_name, BINDING_CONDITIONS_MAX)
    yield from _repeated(conditions, f"{path}.bindingConditions")
    yield from _repeated(failures, f"{path}.bindingFailureConditions")
    for index, failure in enumerate(failures):
        if failure in conditions:
            yield invalid(
                f"{path}.bindingFailureConditions[{index}]",
                failure,
                "bindingFailureConditions must not overlap with bindingConditions",
            )
    if failures and not conditions:
        shown = conditions if owner.given("binding_conditions") else None
        yield invalid(
            f"{path}.bindingConditions", shown, "bindingConditions are required to use bindingFailureConditions"
        )
    if conditions and not failures:
        shown = failures if owner.given("binding_failure_conditions") else None
        yield invalid(
            f"{path}.bindingFailureConditions", shown, "bindingFailureConditions are required to use bindingConditions"
        )


def _repeated(names: tuple[str, ...], path: str) -> Errors:
    for index, name in enumerate(names):
        if name in names[:index]:
            yield duplicate(f"{path}[{index}]", name)


def skipped_operations(operations: tuple[str, ...], path: str) -> Errors:
    """The faults of skipped operations: whoever skips preparing a device must skip its counterpart (A-22.7)."""

    def operation(name: str, at: str) -> Errors:
        if name not in (PREPARE, UNPREPARE, EVERY):
            yield not_supported(at, name, (EVERY, PREPARE, UNPREPARE))

    yield from unique_items(operations, path, operation, lambda name: name)
    if PREPARE in operations and not {UNPREPARE, EVERY} & set(operations):
        yield invalid(path, operations, f"{PREPARE} cannot be skipped unless {UNPREPARE} is also skipped")
