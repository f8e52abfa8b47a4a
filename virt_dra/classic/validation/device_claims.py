"""The rules of the API server of 1.31 for the ``devices`` of a claim of v1alpha3 (C-18.3). Today's differ: a long list
isn't read, requests have alternatives, and the cost of a selector is limited."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from typing import TypeVar

from virt_dra.api import names
from virt_dra.api.names import byte_length
from virt_dra.api.resource_v1 import (
    DeviceConstraint,
    DeviceSelector,
    OpaqueDeviceConfiguration,
)
from virt_dra.api.validation.claims import CONFIGURATIONS_MAX, CONSTRAINTS_MAX, REQUESTS_MAX, allocation_mode
from virt_dra.api.validation.expressions import EXPRESSION_MAX, SELECTORS_MAX
from virt_dra.api.validation.field_errors import (
    Errors,
    ErrorType,
    FieldError,
    duplicate,
    each_invalid,
    invalid,
    required,
    too_long,
)
from virt_dra.api.validation.formats import DRIVER_MAX, IDENTIFIER_MAX, label, subdomain
from virt_dra.cel import CompileError, compile_selector, new_expressions
from virt_dra.classic.objects import ClassicDeviceClaim, ClassicDeviceRequest

T = TypeVar("T")

_ENVIRONMENT = new_expressions(consumable_capacity=False, list_attributes=False)


def device_claim(devices: ClassicDeviceClaim, path: str) -> Errors:
    """The faults of a claim's devices at ``path``."""
    requests = frozenset(request.name for request in devices.requests)
    yield from listed(devices.requests, f"{path}.requests", REQUESTS_MAX, _request)
    yield from _repeated(devices.requests, f"{path}.requests", lambda request: request.name, ".name")
    yield from listed(
        devices.constraints, f"{path}.constraints", CONSTRAINTS_MAX, partial(_constraint, requests=requests)
    )
    for index, entry in enumerate(devices.config):
        at = f"{path}.config[{index}]"
        yield from _references(entry.requests, f"{at}.requests", requests)
        yield from _configuration(entry.opaque, f"{at}.opaque")
    if len(devices.config) > CONFIGURATIONS_MAX:
        yield longer(f"{path}.config", CONFIGURATIONS_MAX)


def driver(name: str, path: str) -> Errors:
    """The faults of a driver's name. An empty name is missing and no subdomain."""
    if not name:
        yield required(path)
    if byte_length(name) > DRIVER_MAX:
        yield FieldError(ErrorType.TOO_LONG, path, "", f"must have at most {DRIVER_MAX} bytes")
    yield from each_invalid(path, name, names.dns1123_subdomain(name.lower()))


def longer(path: str, limit: int) -> FieldError:
    """The fault of a text or a list over its limit."""
    return FieldError(ErrorType.TOO_LONG, path, "", f"may not be longer than {limit}")


def listed(items: Sequence[T], path: str, limit: int, check: Callable[[T, str], Errors]) -> Errors:
    """The faults of a list. A long one is read to its end, as there: an object's size is bounded."""
    for index, item in enumerate(items):
        yield from check(item, f"{path}[{index}]")
    if len(items) > limit:
        yield longer(path, limit)


def _repeated(items: Sequence[T], path: str, key: Callable[[T], Hashable], field: str = "") -> Errors:
    """A fault for every item with the key of an earlier one; ``field`` is the key's path below the item."""
    seen: set[Hashable] = set()
    for index, item in enumerate(items):
        if key(item) in seen:
            yield duplicate(f"{path}[{index}]{field}", key(item))
        seen.add(key(item))


def _request(request: ClassicDeviceRequest, path: str) -> Errors:
    yield from label(request.name, f"{path}.name")
    if request.device_class_name:
        yield from subdomain(request.device_class_name, f"{path}.deviceClassName")
    else:
        yield required(f"{path}.deviceClassName")
    yield from listed(request.selectors, f"{path}.selectors", SELECTORS_MAX, _selector)
    yield from allocation_mode(request, path)


def _selector(selector: DeviceSelector, path: str) -> Errors:
    if selector.cel is None:
        yield required(f"{path}.cel")
        return
    text, at = selector.cel.expression, f"{path}.cel.expression"
    if byte_length(text) > EXPRESSION_MAX:
        yield too_long(at, EXPRESSION_MAX)
        return
    try:
        compile_selector(text, _ENVIRONMENT)
    except CompileError as error:
        # The CEL of 1.31 counts the column of an empty expression from one.
        fault = str(error) if text else str(error).replace("<input>:1:0:", "<input>:1:1:")
        yield invalid(at, text, fault)


def _constraint(constraint: DeviceConstraint, path: str, requests: Collection[str]) -> Errors:
    yield from _references(constraint.requests, f"{path}.requests", requests)
    if constraint.match_attribute is None:
        yield required(f"{path}.matchAttribute")
    else:
        yield from _attribute(constraint.match_attribute, f"{path}.matchAttribute")


def _references(references: Sequence[str], path: str, requests: Collection[str]) -> Errors:
    def reference(name: str, at: str) -> Errors:
        yield from label(name, at)
        if name not in requests:
            yield invalid(at, name, "must be the name of a request in the claim")

    yield from listed(references, path, REQUESTS_MAX, reference)
    yield from _repeated(references, path, str)


def _attribute(name: str, path: str) -> Errors:
    """The faults of a fully qualified name; one with several slashes has none."""
    domain, slash, identifier = name.rpartition("/")
    if not name:
        yield required(path, "name required")
    elif name.count("/") < 2:
        if slash and not domain:
            yield required(path, "the prefix must not be empty")
        elif slash:
            yield from driver(domain, path)
        if not identifier:
            yield required(path, "the name must not be empty")
        else:
            if byte_length(identifier) > IDENTIFIER_MAX:
                yield longer(path, IDENTIFIER_MAX)
            yield from each_invalid(path, identifier, names.c_identifier(identifier))
    if not slash:
        yield required(f"{path}.domain", "must include a prefix")


def _configuration(opaque: OpaqueDeviceConfiguration | None, path: str) -> Errors:
    if opaque is None:
        yield required(path)
        return
    yield from driver(opaque.driver, f"{path}.driver")
    if opaque.parameters is None:
        yield required(f"{path}.parameters")
    elif not isinstance(opaque.parameters, dict):
        yield invalid(f"{path}.parameters", "<value omitted>", "parameters must be a valid JSON object")
