"""CEL selectors of the class, then of the request (A-8.2). The first false one ends the evaluation, an error ends
everything (E12, E13). An outcome is cached per (class selectors, request selectors) and device, for every pod and
node."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from operator import attrgetter

from virt_dra.allocator.errors import SELECTOR_ERROR, Aborted, DeadlineExceeded, FatalError, Interrupt
from virt_dra.allocator.memo import remember
from virt_dra.allocator.model import AttributeName, Filter, PoolDevice, Rejection, Request
from virt_dra.allocator.pools import Pools, Reachable
from virt_dra.cel import DeviceInput, Interrupted, Work
from virt_dra.cel.reads import Reads
from virt_dra.matching.matcher import Matcher, MatchingStopped, Mismatch, Outcome, SelectorList, interruptible, readable

MISMATCH = "SelectorMismatch"
"""A selector of the class or of the request is false for the device."""

_REMEMBERED_LISTS = 4096
"""Pairs of selector lists whose outcomes are cached. A cluster has few; only generated texts reach this."""
_REMEMBERED_NODES = 100_000
"""Per pair of lists."""
_CONVERTIBLE = attrgetter("convertible")


class NumberedReading:
    """The facts of devices that some selectors read, as the numbers that their values have already
    (`PoolDevice.numbers`). Most selectors name the attributes that they read. Devices with equal values of these get
    the same answer, so the hundreds of devices of a model, which differ in UUIDs and addresses, are evaluated once."""

    def __init__(self, reads: Reads) -> None:
        self._more = reads.driver or reads.allow_multiple_allocations or bool(reads.capacity)
        self._attributes = [AttributeName(f"{domain}/{name}") for domain, name in sorted(reads.attributes)]

    def of(self, devices: Sequence[PoolDevice]) -> Iterable[Hashable]:
        """Per device; equal for convertible devices that the selectors can't distinguish."""
        columns: list[Sequence[int]] = [name.numbers(devices) for name in self._attributes]
        if self._more or not columns:
            columns.append([device.profile for device in devices])
        return zip(*columns, strict=True)

    def keys(self, devices: Sequence[PoolDevice]) -> Iterable[Hashable | None]:
        """As :meth:`of`, but None for a device that isn't convertible."""
        facts = self.of(devices)
        if all(map(_CONVERTIBLE, devices)):
            return facts
        return [key if device.convertible else None for device, key in zip(devices, facts, strict=True)]


def _readable(device: PoolDevice) -> DeviceInput | str:
    return readable(device.id.driver, device.published)


class Outcomes:
    """The outcomes of one list of class selectors followed by those of a request, per device; evaluated when first
    needed."""

    def __init__(self, expressions: Sequence[str], work: Work | None = None) -> None:
        """Raises Interrupted."""
        selectors = SelectorList(expressions, work)
        self._known: dict[PoolDevice, Outcome] = {}
        self._reading = None if selectors.reads is None else NumberedReading(selectors.reads)
        """None if it isn't known what they read."""
        self._matcher = Matcher(selectors, None if self._reading is None else self._reading.keys, _readable)
        self.candidates: dict[Reachable, tuple[PoolDevice, ...]] = {}
        """Per node, the devices that no selector refuses."""
        self._failing: tuple[Pools, bool] | None = None

    def fail_in(self, pools: Pools, work: Work | None) -> bool:
        """Whether a selector fails on some device of the cluster; for the latest pools from memory. Raises
        Interrupted."""
        if self._failing is None or self._failing[0] is not pools:
            self._failing = pools, any(self._fail_on(devices, work) for devices in pools.usable_devices())
        return self._failing[1]

    def _fail_on(self, devices: Sequence[PoolDevice], work: Work | None) -> bool:
        outcomes = self.of_all(devices, work)
        return bool(outcomes) and (last := outcomes[-1]) is not None and last.fault is not None

    def of(self, device: PoolDevice, work: Work | None) -> Outcome:
        """Raises Interrupted."""
        try:
            return self._known[device]
        except KeyError:
            return self.of_all((device,), work)[0]

    def of_all(self, devices: Sequence[PoolDevice], work: Work | None) -> list[Outcome]:
        """Ends behind the first device on which a selector fails: expressions that fail may be costly, and one failure
        is enough. Raises Interrupted."""
        outcomes: list[Outcome] = []
        by_device = self._known
        for device, outcome in zip(devices, self._matcher.of(devices, work), strict=False):
            by_device[device] = outcome
            outcomes.append(outcome)
            if outcome is not None and outcome.fault is not None:
                break
        return outcomes

    def readings(self, devices: Sequence[PoolDevice]) -> tuple[Hashable, ...] | None:
        """Per device what the selectors read of it; None if it isn't known what they read."""
        return None if self._reading is None else tuple(self._reading.of(devices))


class SelectorOutcomes:
    """The outcomes of all lists of selectors so far (A-8.2)."""

    def __init__(self) -> None:
        self._outcomes: dict[tuple[str, ...], Outcomes] = {}

    def of(self, expressions: tuple[str, ...], work: Work | None = None) -> Outcomes:
        """Raises Interrupted, and then nothing is cached."""
        outcomes = self._outcomes.get(expressions)
        if outcomes is None:
            outcomes = remember(self._outcomes, expressions, Outcomes(expressions, work), _REMEMBERED_LISTS)
        return outcomes


class SelectorFilter(Filter):
    """The selectors of the requests of one pod."""

    def __init__(self, outcomes: SelectorOutcomes, interrupt: Interrupt | None = None) -> None:
        """``interrupt``: polled before and during each evaluation; True ends the attempt with DeadlineExceeded."""
        self._outcomes = outcomes
        self._known: dict[Request, Outcomes] = {}
        self.work = interruptible(interrupt)
        """What evaluations of this attempt may cost: no limit but the interrupt."""

    def admits(self, request: Request, device: PoolDevice) -> bool:
        """Raises :class:`FatalError` if a selector can't be compiled or evaluated."""
        mismatch = self._outcome(request, device)
        if mismatch is not None and mismatch.fault is not None:
            raise _fatal(request, device, mismatch)
        return mismatch is None

    def matches(self, request: Request, device: PoolDevice) -> bool | None:
        """As `admits`, but None instead of an error."""
        mismatch = self._outcome(request, device)
        return None if mismatch is not None and mismatch.fault is not None else mismatch is None

    def matching(self, request: Request, devices: Sequence[PoolDevice]) -> list[bool] | None:
        """`matches` of each device; None if one of them is an error: the devices behind it aren't evaluated."""
        try:
            of_request = self._outcomes_of(request)
        except Aborted:
            raise
        except FatalError:
            return None
        try:
            outcomes = of_request.of_all(devices, self.work)
        except Interrupted as stopped:
            raise _deadline(request, stopped) from None
        if outcomes and (last := outcomes[-1]) is not None and last.fault is not None:
            return None
        return [outcome is None for outcome in outcomes]

    def may_fail(self, request: Request, pools: Pools) -> bool:
        """False if the request's selectors fail on no device of the cluster, wherever it can be reached from."""
        try:
            return self._outcomes_of(request).fail_in(pools, self.work)
        except Interrupted as stopped:
            raise _deadline(request, stopped) from None
        except Aborted:
            raise
        except FatalError:
            return True

    def readings(self, request: Request, devices: Sequence[PoolDevice]) -> tuple[Hashable, ...] | None:
        """Per device what the request's selectors read of it; None if that isn't known of all. Raises FatalError."""
        if not all(device.convertible for device in devices):
            return None
        return self._outcomes_of(request).readings(devices)

    def candidates(self, request: Request, reachable: Reachable) -> Sequence[PoolDevice]:
        """The devices that the selectors don't refuse: they are true, or an error that must surface when it is their
        turn."""
        try:
            of_request = self._outcomes_of(request)
        except Aborted:
            raise
        except FatalError:  # raised again by the first device that is tested
            return reachable.devices
        devices = of_request.candidates.get(reachable)
        if devices is None:
            devices = self._not_refused(request, reachable.devices)
            remember(of_request.candidates, reachable, devices, _REMEMBERED_NODES)
        return devices

    def _not_refused(self, request: Request, devices: Sequence[PoolDevice]) -> tuple[PoolDevice, ...]:
        """Devices behind an error are rarely reached, and expressions that fail may be costly: they are left in
        untested."""
        candidates: list[PoolDevice] = []
        for number, device in enumerate(devices):
            matches = self.matches(request, device)
            if matches is None:
                return (*candidates, *devices[number:])
            if matches:
                candidates.append(device)
        return tuple(candidates)

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        mismatch = self._outcome(request, device)
        if mismatch is None:
            raise AssertionError(f"selectors accept {device.id}: there is no refusal to explain")
        owner, number = _owner(request, mismatch.selector, f"request {request.full_name}")
        expression = _expressions(request)[mismatch.selector]
        detail = f"{owner}, selector #{number}: {expression}"
        return Rejection(MISMATCH, "selector does not match", device.id, detail, expression)

    def _outcomes_of(self, request: Request) -> Outcomes:
        of_request = self._known.get(request)
        if of_request is None:
            try:
                of_request = self._known[request] = self._outcomes.of(_expressions(request), self.work)
            except Interrupted as stopped:
                raise _deadline(request, stopped) from None
        return of_request

    def _outcome(self, request: Request, device: PoolDevice) -> Outcome:
        of_request = self._outcomes_of(request)
        try:
            return of_request.of(device, self.work)
        except Interrupted as stopped:
            raise _deadline(request, stopped) from None


def _expressions(request: Request) -> tuple[str, ...]:
    """The selectors of the class, then those of the request. Raises FatalError for one of another type."""
    expressions: list[str] = []
    for number, selector in enumerate(request.device_class.spec.selectors):
        if selector.cel is None:
            raise FatalError(
                f"class {request.device_class.name}: selector #{number}: CEL "
                "expression empty (unsupported selector type?)"
            )
        expressions.append(selector.cel.expression)
    return (*expressions, *request.selectors)


def _owner(request: Request, selector: int, of_request: str) -> tuple[str, int]:
    """The class, or ``of_request`` where it isn't one of the class's, and the selector's number there."""
    count = len(request.device_class.spec.selectors)
    return (f"class {request.device_class.name}", selector) if selector < count else (of_request, selector - count)


def _deadline(request: Request, stopped: Interrupted) -> DeadlineExceeded:
    """The error with the owner of the selector that was being compiled or evaluated, or all of them between two; not
    the device, which the reader may not be allowed to see."""
    if not isinstance(stopped, MatchingStopped):
        return DeadlineExceeded(
            subject=f"claim {request.claim.key}, request {request.full_name}, all selectors together"
        )
    owner, number = _owner(request, stopped.selector, f"claim {request.claim.key}, request {request.full_name}")
    return DeadlineExceeded(subject=f"{owner}, selector #{number}")


def _fatal(request: Request, device: PoolDevice, mismatch: Mismatch) -> FatalError:
    owner, number = _owner(request, mismatch.selector, f"claim {request.claim.key}")
    where, error = (f" on device {device.id}", "runtime") if mismatch.compiles else ("", "compile")
    return FatalError(f"{owner}: selector #{number}{where}: CEL {error} error: {mismatch.fault}", SELECTOR_ERROR)
