"""The published devices, and which of them selectors match. No node and no claim in use is looked at: that is the allocator's matter.

Of every pool only the newest generation counts (K-5.9). Answers are kept with the inventory, which never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from virt_dra.api.attribute_keys import DriverKeys
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.cel import CompileError, DeviceInput, EvaluationError, Interrupted, Selector, compile_selector, device_input
from webhooks.lint.device_set import DeviceSet
from webhooks.lint.published import Name, Published

KEPT_ANSWERS: Final = 512
"""Lists of selectors whose answers are kept: texts come from users, so their number must have an end."""


@dataclass(frozen=True)
class Fault:
    """A selector that can't be used: ``selector`` is its position; ``device`` is None where the text itself is wrong."""

    selector: int
    message: str
    device: Published | None = None


@dataclass(frozen=True)
class Match:
    """What a list of selectors, all of which must hold, says of the devices.

    ``passed[i]``: how many devices the first ``i`` selectors leave. ``nearest``: some that pass as many as any device does, and then
    fail. ``cut``: not all devices were tried.
    """

    devices: tuple[Published, ...] = ()
    passed: tuple[int, ...] = ()
    nearest: tuple[Published, ...] = ()
    fault: Fault | None = None
    cut: bool = False

    @cached_property
    def set(self) -> DeviceSet:
        return DeviceSet(self.devices)


NEAREST: Final = 3

_PER_EVALUATION: Final = 5
_CHARACTERS: Final = 8
_PER_COMPILED_CHARACTER: Final = 5
_PER_INTERRUPT: Final = 350
"""Microseconds (measured): of an evaluation, besides one for so many characters; of a compiled character; of 100 steps of a loop."""


class Work:
    """What may still be done on selectors, counted down (:class:`~webhooks.lint.finding.Settings`). Its only state is the rest."""

    __slots__ = ("left",)

    def __init__(self, left: int | None = None) -> None:
        self.left = left

    def spent(self, amount: int) -> bool:
        """Take an amount away; whether there was less."""
        if self.left is None:
            return False
        self.left -= amount
        return self.left < 0

    def interrupt(self) -> bool:
        return self.spent(_PER_INTERRUPT)


@dataclass(frozen=True, eq=False)
class Inventory:
    """All devices of a cluster, in the order of driver, pool and slice name. Make it with :meth:`of`, once per state of the slices."""

    devices: tuple[Published, ...] = ()
    _by_name: dict[Name, Published] = field(default_factory=dict, repr=False)
    _inputs: dict[int, DeviceInput | str] = field(default_factory=dict, repr=False)
    _answers: dict[tuple[tuple[str, ...], int | None], Match] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, slices: Iterable[ResourceSlice], keys: Iterable[DriverKeys] = ()) -> Inventory:
        """``keys``: configured attribute keys of addresses (K-6.6)."""
        by_driver: dict[str, tuple[DriverKeys, ...]] = {}
        for each in keys:
            by_driver[each.driver] = (*by_driver.get(each.driver, ()), each)
        newest: dict[tuple[str, str], list[ResourceSlice]] = {}
        for part in slices:
            pool = (part.spec.driver, part.spec.pool.name)
            held = newest.get(pool)
            if held is None or part.spec.pool.generation > held[0].spec.pool.generation:
                newest[pool] = [part]
            elif part.spec.pool.generation == held[0].spec.pool.generation:
                held.append(part)
        devices = tuple(
            Published(driver, pool, device, part.spec.node_name or device.node_name or "", by_driver.get(driver, ()))
            for (driver, pool), parts in sorted(newest.items(), key=lambda item: item[0])
            for part in sorted(parts, key=lambda each: each.name)
            for device in part.spec.devices
        )
        return cls(devices, {each.name: each for each in devices})

    def get(self, driver: str, pool: str, device: str) -> Published | None:
        return self._by_name.get((driver, pool, device))

    def matching(self, expressions: Sequence[str], limit: int | None = None, work: Work | None = None) -> Match:
        """The devices that every selector matches; nothing but ``cut`` where the work was not enough.

        A fault on one device is told, and the others are tried all the same.
        """
        key = (tuple(expressions), limit)
        kept = self._answers.get(key)
        if kept is not None:
            return kept
        try:
            found = self._tried(key[0], limit, work or Work())
        except Interrupted:
            return Match(cut=True)
        if len(self._answers) >= KEPT_ANSWERS:
            self._answers.clear()
        self._answers[key] = found
        return found

    def _tried(self, expressions: tuple[str, ...], limit: int | None, work: Work) -> Match:
        """Raises Interrupted where the work is not enough."""
        selectors: list[Selector] = []
        for position, text in enumerate(expressions):
            if work.spent(_PER_COMPILED_CHARACTER * len(text)):
                raise Interrupted
            try:
                selectors.append(compile_selector(text))
            except CompileError as error:
                return Match(fault=Fault(position, error.message))
        passed = [0] * (len(selectors) + 1)
        matching: list[Published] = []
        stopped: dict[int, list[Published]] = {}
        fault: Fault | None = None
        tried = self.devices if limit is None else self.devices[:limit]
        for index, published in enumerate(tried):
            answer = self._ask(index, published, selectors, work)
            if isinstance(answer, Fault):
                fault = fault or answer
                answer = answer.selector
            for depth in range(answer + 1):
                passed[depth] += 1
            if answer == len(selectors):
                matching.append(published)
            elif len(stopped.setdefault(answer, [])) < NEAREST:
                stopped[answer].append(published)
        nearest = tuple(stopped[max(stopped)]) if stopped and not matching else ()
        return Match(tuple(matching), tuple(passed), nearest, fault, cut=len(tried) < len(self.devices))

    def _ask(self, index: int, published: Published, selectors: Sequence[Selector], work: Work) -> int | Fault:
        """How many selectors match, one after the other; all of them, or the position of the first that doesn't."""
        if not selectors:
            return 0
        given = self._inputs.get(index)
        if given is None:
            try:
                given = device_input(published.driver, published.device)
            except EvaluationError as error:
                given = error.message
            self._inputs[index] = given
        if isinstance(given, str):
            return Fault(0, given, published)
        interrupt = None if work.left is None else work.interrupt
        for position, selector in enumerate(selectors):
            if work.spent(_PER_EVALUATION + len(selector.expression) // _CHARACTERS):
                raise Interrupted
            try:
                if not selector.matches(given, interrupt):
                    return position
            except Interrupted:
                raise
            except EvaluationError as error:
                return Fault(position, error.message, published)
        return len(selectors)
