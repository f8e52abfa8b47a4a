"""The facts about a device that make a selector false: ``productName is "NVIDIA L40S"``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from virt_dra.allocator import Interrupt
from virt_dra.api.go_text import quoted
from virt_dra.api.resource_v1 import Device, DeviceAttribute
from virt_dra.cel import CompiledSelector, CompileError, EvaluationError, compile_selector, device_input
from virt_dra.cel.syntax.tokens import SyntaxFault, tokenize

_SHOWN: Final = 3
"""Facts of one device that are named."""
_LONGEST: Final = 80
"""Characters of a value that are shown."""
_OPEN: Final = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


@dataclass(frozen=True)
class MismatchFacts:
    """``expression``: the part of the selector that is false. ``text``: what the device has instead, "" if it isn't
    known."""

    expression: str
    text: str


class MismatchReader:
    """The facts of many devices: those that are equal in what a selector reads are looked at once."""

    def __init__(self, interrupt: Interrupt | None = None) -> None:
        self._interrupt = interrupt
        self._known: dict[tuple[object, ...], MismatchFacts] = {}

    def facts(self, expression: str, driver: str, device: Device) -> MismatchFacts:
        """As :func:`mismatch_facts`."""
        names = _names_read(expression, driver)
        if names is None:
            return mismatch_facts(expression, driver, device, self._interrupt)
        # By identity: equal values of a cluster's devices are one object, and all of them outlive this.
        values = [id(device.attributes.get(name)) for name in names[0]] + [
            id(device.capacity.get(name)) for name in names[1]
        ]
        key = (expression, driver, device.allow_multiple_allocations, *values)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = mismatch_facts(expression, driver, device, self._interrupt)
        return found


@lru_cache(maxsize=1024)
def _names_read(expression: str, driver: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The names under which a device publishes the attributes and capacity that are read; None if it isn't known
    which."""
    selector = _compiled(expression)
    reads = selector.reads if selector is not None else None
    if reads is None:
        return None

    def names(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        qualified = [f"{domain}/{name}" for domain, name in sorted(pairs)]
        return (*qualified, *(name for domain, name in sorted(pairs) if domain == driver))

    return names(reads.attributes), names(reads.capacity)


def mismatch_facts(expression: str, driver: str, device: Device, interrupt: Interrupt | None = None) -> MismatchFacts:
    """Why a selector is false for a device: of a conjunction, the first part that is false.

    ``interrupt``: polled during evaluations; True ends them, and then nothing is known."""
    for part in conjuncts(expression):
        selector = _compiled(part)
        if selector is None:
            return MismatchFacts(expression, "")
        try:
            if selector.matches(device_input(driver, device), interrupt):
                continue
        except EvaluationError:
            pass  # a part may fail alone that another one guards
        return MismatchFacts(part, ", ".join(_facts(selector, driver, device)))
    return MismatchFacts(expression, "")


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


@lru_cache(maxsize=256)
def _compiled(expression: str) -> CompiledSelector | None:
    try:
        return compile_selector(expression)
    except CompileError:
        return None


def _facts(selector: CompiledSelector, driver: str, device: Device) -> Iterator[str]:
    """What the device has of what the expression reads: attributes, then capacity, then its driver."""
    reads = selector.reads
    if reads is None:
        return
    known = [*(_attribute(domain, name, driver, device) for domain, name in sorted(reads.attributes))]
    known += [_capacity(domain, name, driver, device) for domain, name in sorted(reads.capacity)]
    if reads.driver and not known:
        known.append(f"driver is {driver}")
    if reads.allow_multiple_allocations and not known:
        known.append(f"allowMultipleAllocations is {'true' if device.allow_multiple_allocations else 'false'}")
    yield from known[:_SHOWN]


def _attribute(domain: str, name: str, driver: str, device: Device) -> str:
    found = device.attributes.get(f"{domain}/{name}") or (device.attributes.get(name) if domain == driver else None)
    shown = name if domain == driver else f"{domain}/{name}"
    return f"has no attribute {shown}" if found is None else f"{shown} is {value_text(found)}"


def _capacity(domain: str, name: str, driver: str, device: Device) -> str:
    found = device.capacity.get(f"{domain}/{name}") or (device.capacity.get(name) if domain == driver else None)
    shown = name if domain == driver else f"{domain}/{name}"
    return f"has no capacity {shown}" if found is None else f"{shown} is {found.value}"


def value_text(attribute: DeviceAttribute) -> str:
    """An attribute's value as CEL writes it."""
    for one in (attribute.string, attribute.version):
        if one is not None:
            return _quoted(one)
    if attribute.bool_value is not None:
        return "true" if attribute.bool_value else "false"
    if attribute.int_value is not None:
        return str(attribute.int_value)
    several = (attribute.strings, attribute.versions, attribute.ints, attribute.bools)
    given: Sequence[object] = next((each for each in several if each is not None), ())
    text = ", ".join(_quoted(each) if isinstance(each, str) else str(each).lower() for each in given)
    return f"[{text[:_LONGEST]}]"


def _quoted(text: str) -> str:
    return quoted(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")
