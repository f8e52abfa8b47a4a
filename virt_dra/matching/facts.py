"""The facts about devices that make a selector false: ``productName is "NVIDIA L40S"``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from virt_dra.api.go_text import quoted
from virt_dra.api.resource_v1 import Device, DeviceAttribute
from virt_dra.cel import CompiledSelector, CompileError, InterruptCheck, Interrupted, Work, compile_selector
from virt_dra.cel.reads import Wanted
from virt_dra.cel.syntax.tokens import SyntaxFault, tokenize
from virt_dra.matching.matcher import SelectorList, interruptible, readable
from virt_dra.matching.reading import DeviceOf, DriverDevice, Reading, SharedAnswers, published_value

_SHOWN: Final = 3
"""Facts of one device that are named, and values of one attribute."""
_LONGEST: Final = 80
"""Characters of a value that are shown."""
_OPEN: Final = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


@dataclass(frozen=True)
class MismatchFacts:
    """Why a selector is false for a device. ``expression``: the false part. ``text``: what it has instead, or ""."""

    expression: str
    text: str


class MismatchReader:
    """Why selectors are false for devices, which must outlive it. ``interrupt``: polled during evaluations."""

    def __init__(self, interrupt: InterruptCheck | None = None) -> None:
        self._work = interruptible(interrupt)
        self._facts: dict[str, SharedAnswers[DeviceOf, MismatchFacts]] = {}

    def facts(self, expression: str, driver: str, device: Device) -> MismatchFacts:
        """Why a selector is false for a device: of a conjunction, the first part that is false."""
        if expression not in self._facts:
            self._facts[expression] = _facts_of(expression)
        try:
            return next(self._facts[expression].of((DeviceOf(driver, device),), self._work))
        except Interrupted:
            return MismatchFacts(expression, "")


def _facts_of(expression: str) -> SharedAnswers[DeviceOf, MismatchFacts]:
    parts = conjuncts(expression)
    selectors = SelectorList(parts)

    def compute(published: DeviceOf, work: Work | None) -> MismatchFacts:
        mismatch = selectors.first_mismatch(readable(*published), work)
        if mismatch is None or not mismatch.compiles:
            return MismatchFacts(expression, "")
        part = parts[mismatch.selector]  # it is false, or fails alone because another part guards it
        return MismatchFacts(part, facts_read(part, *published))

    return SharedAnswers(None if selectors.reads is None else Reading(selectors.reads).keys, compute)


@lru_cache(maxsize=256)
def conjuncts(expression: str) -> tuple[str, ...]:
    """The operands of the outermost ``&&``; the expression itself if that isn't its outermost operator."""
    try:
        tokens = tokenize(expression)
    except SyntaxFault:
        return (expression,)
    depth, cuts = 0, [0]
    for token in tokens:
        depth += _OPEN.get(token.kind, 0)
        if depth == 0 and token.kind in ("||", "?"):
            return (expression,)
        if depth == 0 and token.kind == "&&":
            cuts.append(token.offset)
    return tuple(_parts(expression, cuts))


def _parts(expression: str, cuts: Sequence[int]) -> Iterator[str]:
    for start, end in zip(cuts, (*cuts[1:], len(expression)), strict=True):
        yield expression[start:end].removeprefix("&&").strip()


def _compiled(expression: str) -> CompiledSelector | None:
    try:
        return compile_selector(expression)
    except CompileError:
        return None


def facts_read(expression: str, driver: str, device: Device) -> str:
    """What a device has of what a selector reads: attributes, then capacity, else its driver; "" if it isn't known."""
    selector = _compiled(expression)
    reads = selector.reads if selector is not None else None
    if reads is None:
        return ""
    facts: list[str] = []
    for domain, identifier in sorted(reads.attributes):
        attribute = published_value(device.attributes, driver, domain, identifier)
        text = None if attribute is None else value_text(attribute)
        facts.append(_fact("attribute", driver, domain, identifier, text))
    for domain, identifier in sorted(reads.capacity):
        capacity = published_value(device.capacity, driver, domain, identifier)
        text = None if capacity is None else str(capacity.value)
        facts.append(_fact("capacity", driver, domain, identifier, text))
    if reads.driver and not facts:
        facts.append(f"driver is {driver}")
    if reads.allow_multiple_allocations and not facts:
        facts.append(f"allowMultipleAllocations is {'true' if device.allow_multiple_allocations else 'false'}")
    return ", ".join(facts[:_SHOWN])


def _fact(kind: str, driver: str, domain: str, identifier: str, value: str | None) -> str:
    name = identifier if domain == driver else f"{domain}/{identifier}"
    return f"has no {kind} {name}" if value is None else f"{name} is {value}"


def contradiction(expression: str, devices: Sequence[DriverDevice]) -> str:
    """A comparison of a selector that is false on all devices: ``model is "T4" on all 12 devices; the selector wants
    "A100"``; or ""."""
    selector = _compiled(expression)
    for want in selector.wanted if selector is not None and devices else ():
        values = Counter(_value(published, want) for published in devices)
        wanted, missing = _literal(want.value), values.pop(None, 0)
        if want.field == "capacity" or wanted in values:
            continue
        if not values:
            return f"no device has {want.domain}/{want.identifier}, which the selector wants to be {wanted}"
        shown = " or ".join(value or "" for value, _ in values.most_common(_SHOWN))
        shown += " or …" if len(values) > _SHOWN else ""
        having = len(devices) - missing
        if having == 1:
            among = "one device" if missing else "the only device"
        else:
            among = f"{'all' if len(values) == 1 and not missing else 'the'} {having} devices"
        lacking = f", and missing on {missing}" if missing else ""
        return f"{want.identifier} is {shown} on {among}{lacking}; the selector wants {wanted}"
    return ""


def _value(published: DriverDevice, want: Wanted) -> str | None:
    """A device's value of what a comparison wants; None if it doesn't have it."""
    if want.field == "driver":
        return _literal(published.driver)
    attribute = published_value(published.device.attributes, published.driver, want.domain, want.identifier)
    return None if attribute is None else value_text(attribute)


def value_text(attribute: DeviceAttribute) -> str:
    """An attribute's value as CEL writes it."""
    for value in (attribute.string, attribute.version, attribute.bool_value, attribute.int_value):
        if value is not None:
            return _literal(value)
    lists = (attribute.strings, attribute.versions, attribute.ints, attribute.bools)
    values: Sequence[str | bool | int] = next((values for values in lists if values is not None), ())
    return f"[{', '.join(map(_literal, values))[:_LONGEST]}]"


def _literal(value: str | bool | int) -> str:
    if not isinstance(value, str):
        return str(value).lower()
    return quoted(value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…")
