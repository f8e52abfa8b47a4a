"""CEL selectors of the class, then of the request (A-8.2). The first false one ends the evaluation, an error ends everything (E12, E13).

An outcome depends on the published device and the selectors' texts only: it is kept per (class selectors, request selectors) and device,
for every pod and node, as long as the inventory lives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

from virt_dra.allocator.errors import DeadlineExceeded, FatalError
from virt_dra.allocator.model import Device, Rejection, Request
from virt_dra.allocator.pools import Reachable
from virt_dra.api.resource_v1 import DeviceAttribute
from virt_dra.cel.reads import Reads, together

MISMATCH = "SelectorMismatch"
"""A selector of the class or of the request is false for the device."""

_REMEMBERED_READINGS = 10_000
"""Per pair of lists; selectors that tell every device from every other gain nothing by more."""

_REMEMBERED_PAIRS = 4096
"""Selector lists whose outcomes are kept; the oldest goes first. A cluster has few; only generated texts reach this."""


class SelectorError(Exception):
    """The engine's refusal. ``compile`` tells a text that isn't an expression from an expression that failed on a device."""

    def __init__(self, message: str, *, compile: bool) -> None:
        self.compile = compile
        super().__init__(message)


class Selector(Protocol):
    @property
    def reads(self) -> Reads | None:
        """What of a device the answer depends on, besides that all its attributes can be converted; None: on anything."""

    def matches(self, device: Device) -> bool:
        """Raises :class:`SelectorError`."""


CompileSelector = Callable[[str], Selector]
"""Expression -> selector. Raises :class:`SelectorError`."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Which selector said no, or failed with ``error``."""

    of_class: bool
    index: int
    expression: str
    error: SelectorError | None = None


Outcome = Refused | None
"""None: every selector is true."""


class Outcomes:
    """What is known so far of one list of class selectors and one of request selectors."""

    def __init__(self) -> None:
        self.of: dict[Device, Outcome] = {}
        self.candidates: dict[Reachable, tuple[Device, ...]] = {}
        """Per node, the devices to which no selector says no."""
        self.alike: dict[Hashable, Outcome] = {}
        """By what the selectors look at (:class:`Reading`)."""
        self.readings: dict[str, Reading | None] = {}
        """Per driver; None where the selectors don't tell what they look at."""


class Reading:
    """Where the devices of one driver publish what some selectors look at.

    Most selectors name the attributes that they look at. Devices alike in those get the same answer, so that the hundreds of devices of
    a model, which differ in UUIDs and addresses, are evaluated once.
    """

    def __init__(self, reads: Reads, driver: str) -> None:
        self._driver = driver if reads.driver else None
        self._multiple = reads.allow_multiple_allocations
        self._attributes = _published_names(reads.attributes, driver)
        self._capacity = _published_names(reads.capacity, driver)

    def of(self, device: Device) -> Hashable:
        """Equal for devices that the selectors can't tell apart."""
        published = device.published
        attributes = published.attributes
        values: list[Hashable] = [self._driver, self._multiple and bool(published.allow_multiple_allocations)]
        for qualified, bare in self._attributes:
            attribute = attributes.get(qualified)
            if attribute is None and bare is not None:
                attribute = attributes.get(bare)
            values.append(None if attribute is None else _attribute_value(attribute))
        for qualified, bare in self._capacity:
            capacity = published.capacity.get(qualified)
            if capacity is None and bare is not None:
                capacity = published.capacity.get(bare)
            values.append(None if capacity is None else capacity.value.spelling)
        return tuple(values)


_attribute_value: Callable[[DeviceAttribute], tuple[Hashable, ...]] = attrgetter(
    "ints", "bools", "strings", "versions", "int_value", "bool_value", "string", "version"
)


def _published_names(names: Iterable[tuple[str, str]], driver: str) -> tuple[tuple[str, str | None], ...]:
    """The qualified name, which wins (AC-17), and in the driver's own domain the bare one."""
    return tuple((f"{domain}/{name}", name if domain == driver else None) for domain, name in sorted(names))


class SelectorOutcomes:
    """Compiled selectors and their outcomes. Holds no errors of compilation back: they are outcomes too (A-8.2)."""

    def __init__(self, compile_selector: CompileSelector) -> None:
        self._compile = compile_selector
        self._compiled: dict[str, Selector | SelectorError] = {}
        self._outcomes: dict[tuple[tuple[str, ...], tuple[str, ...]], Outcomes] = {}

    def of(self, of_class: tuple[str, ...], of_request: tuple[str, ...]) -> Outcomes:
        """What is known so far for these selectors; its readers add to it with :meth:`evaluate`."""
        key = (of_class, of_request)
        known = self._outcomes.get(key)
        if known is None:
            if len(self._outcomes) >= _REMEMBERED_PAIRS:
                del self._outcomes[next(iter(self._outcomes))]
            known = self._outcomes[key] = Outcomes()
        return known

    def evaluate(self, of_class: tuple[str, ...], of_request: tuple[str, ...], device: Device) -> Outcome:
        """The outcome of the selectors in order, the class's first."""
        known = self.of(of_class, of_request)
        driver = device.id.driver
        if driver not in known.readings:
            known.readings[driver] = self._reading((*of_class, *of_request), driver)
        reading = known.readings[driver]
        if reading is None or not device.convertible:
            return self._evaluate(of_class, of_request, device)
        key = reading.of(device)
        if key not in known.alike:
            if len(known.alike) >= _REMEMBERED_READINGS:
                known.alike.clear()
            known.alike[key] = self._evaluate(of_class, of_request, device)
        return known.alike[key]

    def _evaluate(self, of_class: tuple[str, ...], of_request: tuple[str, ...], device: Device) -> Outcome:
        for from_class, expressions in ((True, of_class), (False, of_request)):
            for i, expression in enumerate(expressions):
                try:
                    if not self._selector(expression).matches(device):
                        return Refused(from_class, i, expression)
                except SelectorError as error:
                    return Refused(from_class, i, expression, error)
        return None

    def _reading(self, expressions: tuple[str, ...], driver: str) -> Reading | None:
        try:
            reads = together([self._selector(expression).reads for expression in expressions])
        except SelectorError:
            return None
        return None if reads is None else Reading(reads, driver)

    def _selector(self, expression: str) -> Selector:
        known = self._compiled.get(expression)
        if known is None:
            if len(self._compiled) >= _REMEMBERED_PAIRS:
                del self._compiled[next(iter(self._compiled))]
            try:
                known = self._compile(expression)
            except SelectorError as error:
                known = error
            self._compiled[expression] = known
        if isinstance(known, SelectorError):
            raise known
        return known


class SelectorFilter:
    """The selectors of the requests of one pod."""

    def __init__(self, outcomes: SelectorOutcomes, interrupt: Callable[[], bool] | None = None) -> None:
        """``interrupt``: asked before each evaluation whether to stop."""
        self._outcomes = outcomes
        self._texts: dict[Request, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._known: dict[Request, Outcomes] = {}
        self._interrupt = interrupt

    def admits(self, request: Request, device: Device) -> bool:
        """Raises :class:`FatalError` if a selector can't be compiled or evaluated."""
        outcome = self._outcome(request, device)
        if outcome is None:
            return True
        if outcome.error is None:
            return False
        raise FatalError(self._text(request, device, outcome, outcome.error))

    def matches(self, request: Request, device: Device) -> bool | None:
        """As `admits`, but None instead of an error."""
        outcome = self._outcome(request, device)
        if outcome is None:
            return True
        return False if outcome.error is None else None

    def candidates(self, request: Request, reachable: Reachable) -> Sequence[Device]:
        """The devices that the selectors don't refuse: they are true, or an error that must surface when it is their turn."""
        try:
            known = self._outcomes_of(request)
        except FatalError:  # raised again by the first device that is looked at
            return reachable.devices
        found = known.candidates.get(reachable)
        if found is None:
            found = known.candidates[reachable] = self._not_refused(request, reachable.devices)
        return found

    def _not_refused(self, request: Request, devices: Sequence[Device]) -> tuple[Device, ...]:
        """What comes behind an error is rarely reached, and expressions that fail may be costly: it is left as it is."""
        found: list[Device] = []
        for number, device in enumerate(devices):
            matches = self.matches(request, device)
            if matches is None:
                return (*found, *devices[number:])
            if matches:
                found.append(device)
        return tuple(found)

    def explain(self, request: Request, device: Device) -> Rejection:
        outcome = self._outcome(request, device)
        if outcome is None:
            raise AssertionError(f"asked why selectors refused {device.id}, which they accept")
        owner = f"class {request.device_class.name}" if outcome.of_class else f"request {request.full_name}"
        return Rejection(MISMATCH, "selector does not match", device.id, f"{owner}, selector #{outcome.index}: {outcome.expression}")

    def _outcomes_of(self, request: Request) -> Outcomes:
        known = self._known.get(request)
        if known is None:
            texts = (self._class_selectors(request), request.selectors)
            self._texts[request] = texts
            known = self._known[request] = self._outcomes.of(*texts)
        return known

    def _outcome(self, request: Request, device: Device) -> Outcome:
        known = self._outcomes_of(request).of
        try:
            return known[device]
        except KeyError:
            if self._interrupt is not None and self._interrupt():
                raise DeadlineExceeded from None
            outcome = known[device] = self._outcomes.evaluate(*self._texts[request], device)
            return outcome

    @staticmethod
    def _class_selectors(request: Request) -> tuple[str, ...]:
        expressions: list[str] = []
        for i, selector in enumerate(request.device_class.spec.selectors):
            if selector.cel is None:
                raise FatalError(f"class {request.device_class.name}: selector #{i}: CEL expression empty (unsupported selector type?)")
            expressions.append(selector.cel.expression)
        return tuple(expressions)

    @staticmethod
    def _text(request: Request, device: Device, refused: Refused, error: SelectorError) -> str:
        owner = f"class {request.device_class.name}" if refused.of_class else f"claim {request.claim.key}"
        if error.compile:
            return f"{owner}: selector #{refused.index}: CEL compile error: {error}"
        return f"{owner}: selector #{refused.index} on device {device.id}: CEL runtime error: {error}"
