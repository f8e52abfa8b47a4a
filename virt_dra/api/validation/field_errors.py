"""Field errors with the wording and rendering of apimachinery's ``field.Error``.

    spec.devices.requests[0].name: Invalid value: "A": a lowercase RFC 1123 label must …

Rules are generators of these: each yields what it finds, so all faults of an object come at once and in the order of
its fields. Which constructor takes what follows apimachinery: *required*, *forbidden* and *too long* show no value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from virt_dra.api.go_text import printable, quoted
from virt_dra.api.quantity import Quantity
from virt_dra.api.wire import Wire

Errors = Iterator["FieldError"]


class ErrorType(StrEnum):
    """The machine-readable word of a cause in an API server's answer."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    DUPLICATE = "FieldValueDuplicate"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    NOT_FOUND = "FieldValueNotFound"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"


_LABELS = {
    ErrorType.REQUIRED: "Required value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_MANY: "Too many",
}


@dataclass(frozen=True)
class FieldError:
    """``field`` is a path in Kubernetes notation, ``value`` the offending value as shown (empty: not shown)."""

    type: ErrorType
    field: str
    value: str = ""
    detail: str = ""

    @property
    def message(self) -> str:
        """The text without the path: what a cause in an API server's answer carries."""
        return ": ".join(part for part in (_LABELS[self.type], self.value, self.detail) if part)

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def required(field: str, detail: str = "") -> FieldError:
    return FieldError(ErrorType.REQUIRED, field, "", detail)


def invalid(field: str, value: object, detail: str) -> FieldError:
    return FieldError(ErrorType.INVALID, field, rendered(value), detail)


def one_of(field: str, given: Sequence[str], members: Iterable[str]) -> Errors:
    """The fault of a union that has no member, or several. ``given``: those that are set."""
    listed = ", ".join(f"`{member}`" for member in members)
    if not given:
        yield invalid(field, "", f"must specify one of: {listed}")
    elif len(given) > 1:
        yield invalid(field, f"{{{', '.join(given)}}}", f"must specify exactly one of: {listed}")


def each_invalid(field: str, value: object, details: Iterable[str]) -> Errors:
    """One *invalid* for every detail, as name checks report them."""
    for detail in details:
        yield invalid(field, value, detail)


def immutable(field: str, value: object) -> FieldError:
    return invalid(field, value, "field is immutable")


def duplicate(field: str, value: object) -> FieldError:
    return FieldError(ErrorType.DUPLICATE, field, rendered(value))


def not_supported(field: str, value: str, supported: Iterable[str]) -> FieldError:
    """Values with a set of supported ones have a type of their own in Go."""
    return FieldError(
        ErrorType.NOT_SUPPORTED,
        field,
        rendered(TypedText(value)),
        f"supported values: {', '.join(map(quoted, supported))}",
    )


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError(ErrorType.FORBIDDEN, field, "", detail)


def not_found(field: str, value: object, detail: str = "") -> FieldError:
    return FieldError(ErrorType.NOT_FOUND, field, rendered(value), detail)


def too_long(field: str, limit: int) -> FieldError:
    """``limit`` in bytes. The value is never shown."""
    return FieldError(ErrorType.TOO_LONG, field, "", f"may not be more than {limit} byte{'' if limit == 1 else 's'}")


def too_many(field: str, count: int, limit: int) -> FieldError:
    return FieldError(
        ErrorType.TOO_MANY, field, str(count), f"must have at most {limit} item{'' if limit == 1 else 's'}"
    )


class TypedText(str):
    """A text whose Go type is not plain string: shown as JSON, while other texts are shown quoted as in Go's source."""

    __slots__ = ()


class Struct(dict[str, object]):
    """JSON of a Go struct: in the order of its fields, while maps are sorted."""


def rendered(value: object) -> str:
    """A value as apimachinery shows it: text quoted, others (and :class:`TypedText`) as compact JSON."""
    if isinstance(value, str) and not isinstance(value, TypedText):
        return quoted(value)
    if isinstance(value, Quantity):
        return quoted(str(value))
    plain = printable(json.dumps(_as_json(value), ensure_ascii=False, separators=(",", ":")))
    # Go's encoder writes these so that the text is safe inside HTML and JavaScript.
    return plain.translate({ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


def _as_json(value: object) -> object:
    if isinstance(value, Wire):
        return value.to_wire()
    if isinstance(value, Quantity):
        return str(value)
    if isinstance(value, tuple | list):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        keys = value if isinstance(value, Struct) else sorted(value)
        return {key: _as_json(value[key]) for key in keys}
    return value


def invalid_message(kind: str, name: str, errors: Iterable[FieldError]) -> str:
    """The API server's sentence for a refused object: ``ResourceClaim.resource.k8s.io "x" is invalid: [a, b]``.

    ``kind`` is qualified by its group, except in the core group (``Pod``). Equal texts are listed once; one alone has
    no brackets.
    """
    texts = list(dict.fromkeys(map(str, errors)))
    detail = f"[{', '.join(texts)}]" if len(texts) > 1 else "".join(texts)
    return f"{kind} {quoted(name)} is invalid{': ' if texts else ''}{detail}"
