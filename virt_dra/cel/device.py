"""The variable ``device``: how a device of a slice becomes a value (L-3.1 to L-3.4, A-21.1, A-21.2)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from virt_dra.api.resource_v1 import Device, DeviceAttribute
from virt_dra.api.semver import SemVer, SemVerError
from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.values import DomainMap, NamedValues, Value


class DeviceInput(NamedValues):
    """A device as expressions see it; attributes and capacity by domain and identifier. Make it with
    :func:`device_input`."""

    __slots__ = ()


def device_input(driver: str, device: Device) -> DeviceInput:
    """Convert a device for evaluation (A-21.1, A-21.2, L-3.2, L-3.3).

    All attributes are converted, used or not. Where ``NAME`` and ``DRIVER/NAME`` are both published, the qualified one
    wins (AC-17). Raises EvaluationError `attribute NAME: …` for a value that can't be converted.
    """
    attributes: dict[str, Value] = {
        name: _attribute_value(name, device.attributes[name]) for name in sorted(device.attributes)
    }
    capacity: dict[str, Value] = {name: device.capacity[name].value for name in sorted(device.capacity)}
    return DeviceInput(
        driver=driver,
        allowMultipleAllocations=bool(device.allow_multiple_allocations),
        attributes=_by_domain(driver, attributes),
        capacity=_by_domain(driver, capacity),
    )


def convertible(attribute: DeviceAttribute) -> bool:
    """True if the value can be converted for expressions. If one attribute of a device can't, every expression fails on
    it (A-21.2)."""
    if attribute.versions is None and (
        attribute.string is not None or attribute.int_value is not None or attribute.bool_value is not None
    ):
        return True  # nothing in it can fail
    try:
        _attribute_value("", attribute)
    except EvaluationError:
        return False
    return True


def _by_domain(driver: str, values: Mapping[str, Value]) -> DomainMap:
    domains: dict[str, NamedValues] = {}
    for qualified in (False, True):
        for name, value in values.items():
            domain, slash, identifier = name.partition("/")
            if bool(slash) is qualified:
                if not qualified:
                    domain, identifier = driver, name
                domains.setdefault(domain, NamedValues())[identifier] = value
    return DomainMap(domains)


def _attribute_value(name: str, attribute: DeviceAttribute) -> Value:
    for values in (attribute.ints, attribute.bools, attribute.strings):
        if values is not None:
            return list(values)
    if attribute.versions is not None:
        return [_version(name, text) for text in attribute.versions]
    for value in (attribute.int_value, attribute.bool_value, attribute.string):
        if value is not None:
            return value
    if attribute.version is not None:
        return _version(name, attribute.version)
    raise EvaluationError(f"attribute {name}: unsupported attribute value")


def _version(name: str, text: str) -> SemVer:
    try:
        return _parsed(text)
    except SemVerError as error:
        raise EvaluationError(f"attribute {name}: parse semantic version: {error}") from None


@lru_cache(maxsize=4096)
def _parsed(text: str) -> SemVer:
    """The version of a text, cached since devices have few versions. Raises SemVerError, which isn't cached."""
    return SemVer.parse(text, uint64=True)
