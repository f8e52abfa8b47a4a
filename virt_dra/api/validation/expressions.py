"""Validation of selectors, derived attributes and opaque configuration: text that CEL or a driver interprets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from virt_dra.api.names import byte_length
from virt_dra.api.resource_v1 import DeviceSelector, OpaqueDeviceConfiguration
from virt_dra.api.validation.field_errors import Errors, FieldError, forbidden, invalid, required, too_long
from virt_dra.api.validation.formats import declared_driver, items
from virt_dra.api.validation.rules import TOO_COMPLEX, ExpressionCheck

SELECTORS_MAX = 32
EXPRESSION_MAX = 10 * 1024
PARAMETERS_MAX = 10 * 1024


def selectors(entries: Sequence[DeviceSelector], path: str, check: ExpressionCheck | None) -> Errors:
    """The faults of selectors. ``check`` None: they are stored and count as valid, whatever their length (C-14.6)."""

    def one(selector: DeviceSelector, at: str) -> Errors:
        if selector.cel is None:
            yield required(f"{at}.cel")
        elif check is not None:
            yield from expression(selector.cel.expression, f"{at}.cel.expression", check)

    yield from items(entries, path, one, SELECTORS_MAX)


def expression(text: str, path: str, check: ExpressionCheck) -> Errors:
    if byte_length(text) > EXPRESSION_MAX:
        yield too_long(path, EXPRESSION_MAX)
        return
    fault = check(text)
    if fault == TOO_COMPLEX:
        yield forbidden(path, fault)
    elif fault is not None:
        yield invalid(path, text, fault)


def unchecked(text: str) -> str | None:
    """The check for callers without a compiler: every expression passes."""
    return None


def configuration(opaque: OpaqueDeviceConfiguration | None, path: str, *, stored: bool = False) -> Errors:
    """The faults of opaque configuration. ``stored``: parameters that were accepted before may be of any length."""
    if opaque is None:
        yield required(f"{path}.opaque")
        return
    yield from declared_driver(opaque.driver, f"{path}.opaque.driver")
    yield from json_object(opaque.parameters, f"{path}.opaque.parameters", None if stored else PARAMETERS_MAX)


def json_object(value: Any, path: str, limit: int | None) -> Errors:
    """The faults of an object of at most ``limit`` bytes as compact JSON."""
    if value is None:
        yield required(path)
    elif limit is not None and _json_length(value) > limit:
        yield too_long(path, limit)
    elif not isinstance(value, dict):
        yield _no_object(path)


def _no_object(path: str) -> FieldError:
    return invalid(path, "<value omitted>", "must be a valid JSON object")


def _json_length(value: object) -> int:
    return byte_length(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
