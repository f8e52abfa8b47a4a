"""CEL selectors of the class, then of the request (A-8.2). The first false one ends the evaluation, an error ends
everything (E12, E13).

An outcome depends on the published device and the selectors' texts only: it is cached per (class selectors, request
selectors) and device, for every pod and node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import repeat
from typing import Final, Protocol

from virt_dra.allocator.errors import Aborted, DeadlineExceeded, FatalError, Interrupt, raising
from virt_dra.allocator.memo import remember
from virt_dra.allocator.model import AttributeName, Filter, PoolDevice, Rejection, Request
from virt_dra.allocator.pools import Reachable
from virt_dra.cel.reads import Reads, together

MISMATCH = "SelectorMismatch"
"""A selector of the class or of the request is false for the device."""

_REMEMBERED_READINGS = 10_000
"""Per pair of lists; selectors that distinguish every device gain nothing by more."""

_REMEMBERED_PAIRS = 4096
"""Pairs of selector lists whose outcomes are cached. A cluster has few; only generated texts reach this."""


_REMEMBERED_NODES = 100_000
"""Per pair of lists."""


class SelectorError(Exception):
    """An error of the engine. ``compile``: the text isn't an expression; else the expression failed on a device."""

    def __init__(self, message: str, *, compile: bool) -> None:
        self.compile = compile
        super().__init__(message)


class Selector(Protocol):
    @property
    def reads(self) -> Reads | None:
        """The facts of a device that the answer depends on, besides `PoolDevice.convertible`; None: on anything."""

    def matches(self, device: PoolDevice, interrupt: Interrupt | None = None) -> bool:
        """Raises :class:`SelectorError`, and what ``interrupt`` raises, which is polled."""


CompileSelector = Callable[[str], Selector]
"""Expression -> selector. Raises :class:`SelectorError`."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The selector that is false, or failed with ``error``."""

    of_class: bool
    index: int
    expression: str
    error: SelectorError | None = None


class _Stopped(DeadlineExceeded):
    """Interrupted during the selector of that number, the class's or the request's."""

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
    """The facts of a device that some selectors read.

    Most selectors name the attributes that they read. Devices with equal values of these get the same answer, so the
    hundreds of devices of a model, which differ in UUIDs and addresses, are evaluated once.
    """

    def __init__(self, reads: Reads) -> None:
        self._more = reads.driver or reads.allow_multiple_allocations or bool(reads.capacity)
        self._attributes = [AttributeName(f"{domain}/{name}") for domain, name in sorted(reads.attributes)]

    def of(self, devices: Sequence[PoolDevice]) -> Iterable[Hashable]:
        """Per device; equal for devices that the selectors can't distinguish."""
        columns: list[Sequence[int]] = [name.numbers(devices) for name in self._attributes]
        if self._more or not columns:
            columns.append([device.profile for device in devices])
        return zip(*columns, strict=True)


class Outcomes:
    """The outcomes of one list of class selectors and one of request selectors, per device; evaluated when first
    needed."""

    def __init__(
        self,
        selectors: CompiledSelectors,
        of_class: tuple[str, ...],
        of_request: tuple[str, ...],
        interrupt: Interrupt | None = None,
    ) -> None:
        """``interrupt``: of compiling them; it raises DeadlineExceeded."""
        self._selectors = selectors
        self._of_class = of_class
        self._of_request = of_request
        self._known: dict[PoolDevice, Outcome] = {}
        self._by_reading: dict[Hashable, Outcome] = {}
        """By the facts that the selectors read."""
        self._reading = selectors.reading((*of_class, *of_request), interrupt)
        """None if it isn't known what they read."""
        self.candidates: dict[Reachable, tuple[PoolDevice, ...]] = {}
        """Per node, the devices that no selector refuses."""

    def of(self, device: PoolDevice, interrupt: Interrupt | None) -> Outcome:
        """``interrupt``: polled before and during each evaluation; raises DeadlineExceeded to end it, and nothing of it
        is cached."""
        try:
            return self._known[device]
        except KeyError:
            return self.of_all((device,), interrupt)[0]

    def of_all(self, devices: Sequence[PoolDevice], interrupt: Interrupt | None) -> list[Outcome]:
        """Ends behind the first device on which a selector fails: expressions that fail may be costly, and one failure
        is enough."""
        found: list[Outcome] = []
        keys: Iterable[Hashable] = repeat(None) if self._reading is None else self._reading.of(devices)
        for device, key in zip(devices, keys, strict=False):
            outcome = self._known.get(device, _UNKNOWN)
            if outcome is _UNKNOWN:
                cacheable = key is not None and device.convertible
                outcome = self._by_reading.get(key, _UNKNOWN) if cacheable else _UNKNOWN
                if outcome is _UNKNOWN:
                    outcome = self._evaluate(device, interrupt)
                    if cacheable:
                        self._keep(key, outcome)
                self._known[device] = outcome
            found.append(outcome)
            if outcome is not None and outcome.error is not None:
                break
        return found

    def readings(self, devices: Sequence[PoolDevice]) -> tuple[Hashable, ...] | None:
        """Per device what the selectors read of it; None if it isn't known what they read."""
        return None if self._reading is None else tuple(self._reading.of(devices))

    def _keep(self, key: Hashable, outcome: Outcome) -> None:
        if len(self._by_reading) >= _REMEMBERED_READINGS:
            self._by_reading.clear()
        self._by_reading[key] = outcome

    def _evaluate(self, device: PoolDevice, interrupt: Interrupt | None) -> Outcome:
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
        """Raises :class:`SelectorError`. ``interrupt``: polled before it is compiled; raises DeadlineExceeded to
        end."""
        known = self._compiled.get(expression)
        if known is None:
            if interrupt is not None:
                interrupt()
            try:
                known = self._compile(expression)
            except SelectorError as error:
                known = error
            remember(self._compiled, expression, known, _REMEMBERED_PAIRS)
        if isinstance(known, SelectorError):
            raise known
        return known

    def reading(self, expressions: tuple[str, ...], interrupt: Interrupt | None = None) -> Reading | None:
        """None if it isn't known what they read, or they can't be compiled."""
        try:
            reads = together([self.of(expression, interrupt).reads for expression in expressions])
        except SelectorError:
            return None
        return None if reads is None else Reading(reads)


class SelectorOutcomes:
    """The outcomes of all lists of selectors so far (A-8.2)."""

    def __init__(self, compile_selector: CompileSelector) -> None:
        self._compiled = CompiledSelectors(compile_selector)
        self._outcomes: dict[tuple[tuple[str, ...], tuple[str, ...]], Outcomes] = {}

    def of(
        self, of_class: tuple[str, ...], of_request: tuple[str, ...], interrupt: Interrupt | None = None
    ) -> Outcomes:
        """``interrupt``: polled before each expression is compiled; raises DeadlineExceeded to end, and nothing is
        cached."""
        key = (of_class, of_request)
        known = self._outcomes.get(key)
        if known is None:
            known = remember(
                self._outcomes, key, Outcomes(self._compiled, of_class, of_request, interrupt), _REMEMBERED_PAIRS
            )
        return known


class SelectorFilter(Filter):
    """The selectors of the requests of one pod."""

    def __init__(self, outcomes: SelectorOutcomes, interrupt: Interrupt | None = None) -> None:
        """``interrupt``: polled before and during each evaluation; True ends the attempt with DeadlineExceeded."""
        self._outcomes = outcomes
        self._known: dict[Request, Outcomes] = {}
        self._interrupt = raising(interrupt)

    @property
    def interrupt(self) -> Interrupt | None:
        """Polled during evaluations; raises DeadlineExceeded to end them."""
        return self._interrupt

    def admits(self, request: Request, device: PoolDevice) -> bool:
        """Raises :class:`FatalError` if a selector can't be compiled or evaluated."""
        outcome = self._outcome(request, device)
        if outcome is None:
            return True
        if outcome.error is None:
            return False
        raise FatalError(self._text(request, device, outcome, outcome.error))

    def matches(self, request: Request, device: PoolDevice) -> bool | None:
        """As `admits`, but None instead of an error."""
        outcome = self._outcome(request, device)
        if outcome is None:
            return True
        return False if outcome.error is None else None

    def matching(self, request: Request, devices: Sequence[PoolDevice]) -> list[bool] | None:
        """`matches` of each device; None if one of them is an error: the devices behind it aren't evaluated."""
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

    def readings(self, request: Request, devices: Sequence[PoolDevice]) -> tuple[Hashable, ...] | None:
        """Per device what the request's selectors read of it; None if that isn't known of all. Raises FatalError."""
        if not all(device.convertible for device in devices):
            return None
        return self._outcomes_of(request).readings(devices)

    def candidates(self, request: Request, reachable: Reachable) -> Sequence[PoolDevice]:
        """The devices that the selectors don't refuse: they are true, or an error that must surface when it is their
        turn."""
        try:
            known = self._outcomes_of(request)
        except Aborted:
            raise
        except FatalError:  # raised again by the first device that is tested
            return reachable.devices
        found = known.candidates.get(reachable)
        if found is None:
            found = remember(
                known.candidates, reachable, self._not_refused(request, reachable.devices), _REMEMBERED_NODES
            )
        return found

    def _not_refused(self, request: Request, devices: Sequence[PoolDevice]) -> tuple[PoolDevice, ...]:
        """Devices behind an error are rarely reached, and expressions that fail may be costly: they are left in
        untested."""
        found: list[PoolDevice] = []
        for number, device in enumerate(devices):
            matches = self.matches(request, device)
            if matches is None:
                return (*found, *devices[number:])
            if matches:
                found.append(device)
        return tuple(found)

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        outcome = self._outcome(request, device)
        if outcome is None:
            raise AssertionError(f"selectors accept {device.id}: there is no refusal to explain")
        owner = f"class {request.device_class.name}" if outcome.of_class else f"request {request.full_name}"
        detail = f"{owner}, selector #{outcome.index}: {outcome.expression}"
        return Rejection(MISMATCH, "selector does not match", device.id, detail, outcome.expression)

    def _outcomes_of(self, request: Request) -> Outcomes:
        known = self._known.get(request)
        if known is None:
            of_class = self._class_selectors(request)
            try:
                known = self._known[request] = self._outcomes.of(of_class, request.selectors, self._interrupt)
            except DeadlineExceeded:
                raise DeadlineExceeded(
                    subject=f"claim {request.claim.key}, request {request.full_name}, all selectors together"
                ) from None
        return known

    def _outcome(self, request: Request, device: PoolDevice) -> Outcome:
        known = self._outcomes_of(request)
        try:
            return known.of(device, self._interrupt)
        except _Stopped as stopped:
            raise self._of_request(request, stopped) from None

    @staticmethod
    def _of_request(request: Request, stopped: _Stopped) -> DeadlineExceeded:
        """The error with the owner of the selector that was being evaluated; not the device, which the reader may not
        be allowed to see."""
        owner = (
            f"class {request.device_class.name}"
            if stopped.of_class
            else f"claim {request.claim.key}, request {request.full_name}"
        )
        return DeadlineExceeded(subject=f"{owner}, selector #{stopped.index}")

    @staticmethod
    def _class_selectors(request: Request) -> tuple[str, ...]:
        expressions: list[str] = []
        for i, selector in enumerate(request.device_class.spec.selectors):
            if selector.cel is None:
                raise FatalError(
                    f"class {request.device_class.name}: selector #{i}: CEL "
                    "expression empty (unsupported selector type?)"
                )
            expressions.append(selector.cel.expression)
        return tuple(expressions)

    @staticmethod
    def _text(request: Request, device: PoolDevice, refused: Refused, error: SelectorError) -> str:
        owner = f"class {request.device_class.name}" if refused.of_class else f"claim {request.claim.key}"
        if error.compile:
            return f"{owner}: selector #{refused.index}: CEL compile error: {error}"
        return f"{owner}: selector #{refused.index} on device {device.id}: CEL runtime error: {error}"
