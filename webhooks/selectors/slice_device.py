"""A published device, and texts about its attributes for messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from virt_dra.api.go_text import quoted
from virt_dra.api.integration.attribute_keys import Addresses, DriverKeys, Unusable, addresses
from virt_dra.api.resource_v1 import Device, DeviceAttribute
from virt_dra.cel import CompileError, DeviceInput, EvaluationError, compile_selector, device_input
from virt_dra.cel.reads import Reads, Wanted

T = TypeVar("T")

SliceDeviceName = tuple[str, str, str]
"""Driver, pool, device."""


@dataclass(frozen=True, eq=False)
class SliceDevice:
    """A device of a pool's newest generation. ``node``: the only node that has it, or ""."""

    driver: str
    pool: str
    device: Device
    node: str
    keys: tuple[DriverKeys, ...] = ()
    """Configured attribute keys of addresses, besides the well-known ones (K-6.6)."""

    @cached_property
    def addresses(self) -> Addresses | Unusable:
        """Its addresses, or why it has none."""
        return addresses(self.driver, self.device.attributes, self.keys)

    @cached_property
    def input(self) -> DeviceInput | str:
        """The input of selectors, or why the device can't be converted."""
        try:
            return device_input(self.driver, self.device)
        except EvaluationError as error:
            return error.message

    @property
    def name(self) -> SliceDeviceName:
        return self.driver, self.pool, self.device.name

    def __str__(self) -> str:
        return f"{self.device.name} (driver {self.driver}, pool {self.pool})"


def values_read(expression: str, published: SliceDevice) -> str:
    """The attributes that a selector reads, with a device's values: ``model "T4", memory 16Gi``; "" if they can't be
    derived."""
    try:
        reads = compile_selector(expression).reads
    except CompileError:
        return ""
    if reads is None:
        return ""
    shown = [f"driver {published.driver}"] if reads.driver and not reads.attributes and not reads.capacity else []
    for domain, identifier in sorted(reads.attributes):
        attribute = _of(published, published.device.attributes, domain, identifier)
        shown.append(f"{identifier} {_shown(attribute)}" if attribute is not None else f"no {domain}/{identifier}")
    for domain, identifier in sorted(reads.capacity):
        capacity = _of(published, published.device.capacity, domain, identifier)
        shown.append(f"{identifier} {capacity.value}" if capacity is not None else f"no capacity {domain}/{identifier}")
    return ", ".join(shown)


VALUES_SHOWN = 3


def contradiction(expression: str, devices: Sequence[SliceDevice]) -> str:
    """A comparison of a selector that is false on all devices: ``model is "T4" on all 12 devices; the selector wants
    "A100"``; "" if there is none, or none can be derived from its text."""
    try:
        wants = compile_selector(expression).wanted
    except CompileError:
        return ""
    for want in wants:
        counted = Counter(_value(each, want) for each in devices)
        shown = {value for value in counted if value is not None}
        wanted = _literal(want.value)
        if not devices or wanted in shown:
            continue
        if not shown:
            return f"no device has {want.domain}/{want.identifier}, which the selector wants to be {wanted}"
        first = [value for value, _ in counted.most_common() if value is not None][:VALUES_SHOWN]
        values = " or ".join(first) + (" or …" if len(shown) > VALUES_SHOWN else "")
        lacking = f", and missing on {counted[None]}" if counted[None] else ""
        having = len(devices) - counted[None]
        if having == 1:
            among = "one device" if lacking else "the only device"
        else:
            among = f"{'all' if len(shown) == 1 and not lacking else 'the'} {having} devices"
        return f"{want.identifier} is {values} on {among}{lacking}; the selector wants {wanted}"
    return ""


def _value(published: SliceDevice, want: Wanted) -> str | None:
    """A device's value of an attribute as a CEL literal; None if it doesn't have it, or for another kind of
    attribute."""
    if want.field == "driver":
        return _literal(published.driver)
    if want.field == "capacity":
        return None
    attribute = _of(published, published.device.attributes, want.domain, want.identifier)
    if attribute is None:
        return None
    given = [value for value in (attribute.string, attribute.bool_value, attribute.int_value) if value is not None]
    return _literal(given[0]) if given else None


def _literal(value: str | bool | int) -> str:
    return quoted(value) if isinstance(value, str) else str(value).lower()


def seen_by(reads: Reads, published: SliceDevice) -> tuple[object, ...]:
    """The values that expressions read of a device, besides its driver; equal for two devices that are equal for
    them."""
    seen: list[object] = [bool(published.device.allow_multiple_allocations)] if reads.allow_multiple_allocations else []
    for domain, identifier in sorted(reads.attributes):
        seen.append(_of(published, published.device.attributes, domain, identifier))
    for domain, identifier in sorted(reads.capacity):
        capacity = _of(published, published.device.capacity, domain, identifier)
        seen.append(str(capacity.value) if capacity is not None else None)
    return tuple(seen)


def _of(published: SliceDevice, values: Mapping[str, T], domain: str, identifier: str) -> T | None:
    """The attribute or capacity of this name, which the driver's own domain may omit."""
    found = values.get(f"{domain}/{identifier}")
    return values.get(identifier) if found is None and domain == published.driver else found


def text_of(published: SliceDevice, identifier: str) -> str | None:
    """The string value of one of the driver's own attributes, or None."""
    attribute = _of(published, published.device.attributes, published.driver, identifier)
    return attribute.string if attribute is not None else None


def _shown(attribute: DeviceAttribute) -> str:
    values = [f'"{value}"' if isinstance(value, str) else str(value) for value in attribute.to_wire().values()]
    return ", ".join(values) or "without a value"
