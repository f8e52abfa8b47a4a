"""Kubernetes' named formats (L-2.8): ``format.dns1123Label().validate(text)`` says what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import ClassVar

from virt_dra.api.names import (
    dns1035_label,
    dns1123_label,
    dns1123_subdomain,
    label_key,
    label_value,
    without_trailing_dash,
)
from virt_dra.cel.functions.registry import Library
from virt_dra.cel.functions.urls import check_url
from virt_dra.cel.limits.budget import Budget
from virt_dra.cel.values import NONE, Optional

library = Library()

FormatCheck = Callable[[str], tuple[str, ...]]
"""The faults of a text; none if it has the format."""

_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")


def _is_date(text: str) -> bool:
    if _DATE.fullmatch(text) is None:
        return False
    year, month, day = map(int, text.split("-"))
    try:
        date(year or 4, month, day)  # Go has a year 0, a leap year; Python has none
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    """True for a date-time. As in Kubernetes, text after a second "t" is ignored."""
    parts = text.lower().split("t")
    time = _TIME.fullmatch(parts[1]) if len(parts) > 1 and _is_date(parts[0]) else None
    return time is not None and time[1] <= "23" and time[2] <= "59" and time[3] <= "59"


def _simply(fits: Callable[[str], object], complaint: str) -> FormatCheck:
    return lambda text: () if fits(text) else (complaint,)


def _uri(text: str) -> tuple[str, ...]:
    complaint = check_url(text)
    return (complaint,) if complaint else ()


def _prefix(check: FormatCheck) -> FormatCheck:
    return lambda text: check(without_trailing_dash(text))


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A value of type ``kubernetes.NamedFormat``: a named check of texts."""

    CEL_TYPE: ClassVar[str] = "kubernetes.NamedFormat"
    GO_TYPE: ClassVar[str] = "cel.Format"

    name: str
    check: FormatCheck = field(compare=False)
    pattern_size: int = field(compare=False)
    """The length of the regular expression that Kubernetes' cost assumes for it."""


_CHECKS: dict[str, tuple[FormatCheck, int]] = {
    "byte": (_simply(_BASE64.fullmatch, "invalid base64"), 84),
    "date": (_simply(_is_date, "invalid date"), 71),
    "datetime": (_simply(_is_datetime, "invalid datetime"), 71),
    "dns1035Label": (dns1035_label, 30),
    "dns1035LabelPrefix": (_prefix(dns1035_label), 30),
    "dns1123Label": (dns1123_label, 30),
    "dns1123LabelPrefix": (_prefix(dns1123_label), 30),
    "dns1123Subdomain": (dns1123_subdomain, 60),
    "dns1123SubdomainPrefix": (_prefix(dns1123_subdomain), 60),
    "labelValue": (label_value, 40),
    "qualifiedName": (label_key, 60),
    "uri": (_uri, 1103),
    "uuid": (_simply(_UUID.fullmatch, "does not match the UUID format"), 70),
}
FORMATS = {name: NamedFormat(name, check, size) for name, (check, size) in _CHECKS.items()}
for _name in FORMATS:
    library.define({f"format.{_name}() -> kubernetes.NamedFormat": partial(FORMATS.__getitem__, _name)})


@library.function("format.named(string) -> optional_type(kubernetes.NamedFormat)")
def named(name: str) -> Optional:
    format_value = FORMATS.get(name)
    return NONE if format_value is None else Optional(True, format_value)


@library.function("kubernetes.NamedFormat::validate(string) -> optional_type(list(string))", budget=True)
def validate(budget: Budget, given: NamedFormat, text: str) -> Optional:
    """none if the text has the format, else an optional with the list of faults."""
    budget.read(text, 1.0)
    complaints = given.check(text)
    return Optional(True, list(complaints)) if complaints else NONE
