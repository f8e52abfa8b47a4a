"""CEL selectors of the class, then of the request (A-8.2). The first false one ends the evaluation, an error ends everything (E12, E13).

An outcome depends on the published device and the selectors' texts only: it is kept per (class selectors, request selectors) and device,
for every pod and node, as long as the inventory lives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import repeat
from typing import Final, Protocol

from virt_dra.allocator.errors import Aborted, DeadlineExceeded, FatalError, Interrupt, ending
from virt_dra.allocator.model import AttributeName, Device, Filter, Rejection, Request
from virt_dra.allocator.pools import Reachable
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

    def matches(self, device: Device, interrupt: Interrupt | None = None) -> bool:
        """Raises :class:`SelectorError`, and what ``interrupt`` raises, which is asked now and then; without one nothing is asked."""


CompileSelector = Callable[[str], Selector]
"""Expression -> selector. Raises :class:`SelectorError`."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Which selector said no, or failed with ``error``."""

    of_class: bool
    index: int
    expression: str
    error: SelectorError | None = None


class _Stopped(DeadlineExceeded):
    """In the middle of the selector of that number, the class's or the request's."""

    def __init__(self, of_class: bool, index: int) -> None:
        self.of_class = of_class
        self.index = index
        super().__init__()


Outcome = Refused | None
"""None: every selector is true."""


class _Unknown(Enum):
    UNKNOWN = 0


_UNKNOWN: Final = _Unknown.UNKNOWN


class Reading:
    """What some selectors look at.

    Most selectors name the attributes that they look at. Devices alike in those get the same answer, so that the hundreds of devices of
    a model, which differ in UUIDs and addresses, are evaluated once.
    """

    def __init__(self, reads: Reads) -> None:
        self._more = reads.driver or reads.allow_multiple_allocations or bool(reads.capacity)
        self._attributes = [AttributeName(f"{domain}/{name}") for domain, name in sorted(reads.attributes)]

    def of(self, devices: Sequence[Device]) -> Iterable[Hashable]:
        """Per device; equal for devices that the selectors can't tell apart."""
        columns: list[Sequence[int]] = [name.numbers(devices) for name in self._attributes]
        if self._more or not columns:
            columns.append([device.alike for device in devices])
        return zip(*columns, strict=True)


class Outcomes:
    """What one list of class selectors and one of request selectors say of devices; found out when a device is first asked for."""

    def __init__(
        self, selectors: CompiledSelectors, of_class: tuple[str, ...], of_request: tuple[str, ...], interrupt: Interrupt | None = None
    ) -> None:
        """``interrupt``: of compiling them; it raises DeadlineExceeded."""
        self._selectors = selectors
        self._of_class = of_class
        self._of_request = of_request
        self._known: dict[Device, Outcome] = {}
        self._alike: dict[Hashable, Outcome] = {}
        """By what the selectors look at (:class:`Reading`)."""
        self._reading = selectors.reading((*of_class, *of_request), interrupt)
        """None where the selectors don't tell what they look at."""
        self.candidates: dict[Reachable, tuple[Device, ...]] = {}
        """Per node, the devices to which no selector says no."""

    def of(self, device: Device, interrupt: Interrupt | None) -> Outcome:
        """``interrupt``: asked before and during each evaluation; raises DeadlineExceeded to end it, and nothing of it is kept."""
        try:
            return self._known[device]
        except KeyError:
            return self.of_all((device,), interrupt)[0]

    def of_all(self, devices: Sequence[Device], interrupt: Interrupt | None) -> list[Outcome]:
        """Ends behind the first device on which a selector fails: expressions that fail may be costly, and one failure is enough."""
        found: list[Outcome] = []
        keys: Iterable[Hashable] = repeat(None) if self._reading is None else self._reading.of(devices)
        for device, key in zip(devices, keys, strict=False):
            outcome = self._known.get(device, _UNKNOWN)
            if outcome is _UNKNOWN:
                alike = key is not None and device.convertible
                outcome = self._alike.get(key, _UNKNOWN) if alike else _UNKNOWN
                if outcome is _UNKNOWN:
                    outcome = self._evaluate(device, interrupt)
                    if alike:
                        self._keep(key, outcome)
                self._known[device] = outcome
            found.append(outcome)
            if outcome is not None and outcome.error is not None:
                break
        return found

    def _keep(self, key: Hashable, outcome: Outcome) -> None:
        if len(self._alike) >= _REMEMBERED_READINGS:
            self._alike.clear()
        self._alike[key] = outcome

    def _evaluate(self, device: Device, interrupt: Interrupt | None) -> Outcome:
        """The selectors in order, the class's first."""
        if interrupt is not None:
            interrupt()
        for from_class, expressions in ((True, self._of_class), (False, self._of_request)):
            for i, expression in enumerate(expressions):
                try:
                    if interrupt is not None and i:
                        interrupt()
                    if not self._selectors.of(expression).matches(device, interrupt):
                        return Refused(from_class, i, expression)
                except SelectorError as error:
                    return Refused(from_class, i, expression, error)
                except DeadlineExceeded:
                    raise _Stopped(from_class, i) from None
        return None


class CompiledSelectors:
    """Compiled once per text. Errors of compilation are kept too."""

    def __init__(self, compile_selector: CompileSelector) -> None:
        self._compile = compile_selector
        self._compiled: dict[str, Selector | SelectorError] = {}

    def of(self, expression: str, interrupt: Interrupt | None = None) -> Selector:
        """Raises :class:`SelectorError`. ``interrupt``: asked before it is compiled; raises DeadlineExceeded to end."""
        known = self._compiled.get(expression)
        if known is None:
            if interrupt is not None:
                interrupt()
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

    def reading(self, expressions: tuple[str, ...], interrupt: Interrupt | None = None) -> Reading | None:
        """None where they don't tell what they look at, or can't be compiled."""
        try:
            reads = together([self.of(expression, interrupt).reads for expression in expressions])
        except SelectorError:
            return None
        return None if reads is None else Reading(reads)


class SelectorOutcomes:
    """The outcomes of all lists of selectors met so far (A-8.2)."""

    def __init__(self, compile_selector: CompileSelector) -> None:
        self._compiled = CompiledSelectors(compile_selector)
        self._outcomes: dict[tuple[tuple[str, ...], tuple[str, ...]], Outcomes] = {}

    def of(self, of_class: tuple[str, ...], of_request: tuple[str, ...], interrupt: Interrupt | None = None) -> Outcomes:
        """``interrupt``: asked before each expression that is compiled; raises DeadlineExceeded to end, and nothing is kept."""
        key = (of_class, of_request)
        known = self._outcomes.get(key)
        if known is None:
            if len(self._outcomes) >= _REMEMBERED_PAIRS:
                del self._outcomes[next(iter(self._outcomes))]
            known = self._outcomes[key] = Outcomes(self._compiled, of_class, of_request, interrupt)
        return known


class SelectorFilter(Filter):
    """The selectors of the requests of one pod."""

    def __init__(self, outcomes: SelectorOutcomes, interrupt: Interrupt | None = None) -> None:
        """``interrupt``: asked before and during each evaluation whether to stop, with DeadlineExceeded."""
        self._outcomes = outcomes
        self._known: dict[Request, Outcomes] = {}
        self._interrupt = ending(interrupt)

    @property
    def interrupt(self) -> Interrupt | None:
        """What is asked during evaluations; it raises DeadlineExceeded to end them."""
        return self._interrupt

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

    def matching(self, request: Request, devices: Sequence[Device]) -> list[bool] | None:
        """`matches` of each device; None where one of them is an error: what comes behind it isn't asked."""
        try:
            known = self._outcomes_of(request)
        except Aborted:
            raise
        except FatalError:
            return None
        try:
            outcomes = known.of_all(devices, self._interrupt)
        except _Stopped as stopped:
            raise self._of_request(request, stopped) from None
        if outcomes and (last := outcomes[-1]) is not None and last.error is not None:
            return None
        return [outcome is None for outcome in outcomes]

    def candidates(self, request: Request, reachable: Reachable) -> Sequence[Device]:
        """The devices that the selectors don't refuse: they are true, or an error that must surface when it is their turn."""
        try:
            known = self._outcomes_of(request)
        except Aborted:
            raise
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
            of_class = self._class_selectors(request)
            try:
                known = self._known[request] = self._outcomes.of(of_class, request.selectors, self._interrupt)
            except DeadlineExceeded:
                raise DeadlineExceeded(subject=f"claim {request.claim.key}, request {request.full_name}, all selectors together") from None
        return known

    def _outcome(self, request: Request, device: Device) -> Outcome:
        known = self._outcomes_of(request)
        try:
            return known.of(device, self._interrupt)
        except _Stopped as stopped:
            raise self._of_request(request, stopped) from None

    @staticmethod
    def _of_request(request: Request, stopped: _Stopped) -> DeadlineExceeded:
        """With whose selector it was that was evaluated; not on which device, which may be nobody's business."""
        owner = f"class {request.device_class.name}" if stopped.of_class else f"claim {request.claim.key}, request {request.full_name}"
        return DeadlineExceeded(subject=f"{owner}, selector #{stopped.index}")

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
