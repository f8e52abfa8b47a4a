"""What selectors read of a device. Devices that are equal in it have the same outcome."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from virt_dra.api.resource_v1 import Device, DeviceAttribute, DeviceCapacity
from virt_dra.cel import Work, convertible
from virt_dra.cel.errors import Stopped
from virt_dra.cel.reads import Reads

D = TypeVar("D")
T = TypeVar("T")

_PER_COMPARISON: Final = 2
"""Microseconds (measured) of finding out whether a device equals another one in what is read."""
_REMEMBERED_KEYS: Final = 10_000
"""Different devices whose answers are remembered; expressions that distinguish every device gain nothing by more."""
_SHARED_DEVICES: Final = 4_096
"""Devices that are remembered by their identity: those that many slices share come early."""


class DriverDevice(Protocol):
    """A device with the driver that publishes it."""

    @property
    def driver(self) -> str: ...

    @property
    def device(self) -> Device: ...


class DeviceOf(NamedTuple):
    """The smallest :class:`DriverDevice`."""

    driver: str
    device: Device


def published_value(values: Mapping[str, T], driver: str, domain: str, identifier: str) -> T | None:
    """The attribute or capacity ``domain/identifier`` of a driver's device; its own domain may be omitted."""
    value = values.get(f"{domain}/{identifier}")
    return values.get(identifier) if value is None and domain == driver else value


class Reading:
    """Keys that are equal for devices which are equal in what some selectors read. Devices must outlive it."""

    def __init__(self, reads: Reads) -> None:
        self._attributes = sorted(reads.attributes)
        self._capacity = sorted(reads.capacity)
        self._keys: dict[tuple[str, int], Hashable | None] = {}
        self._numbers: dict[Hashable, int] = {}
        self._numbers_by_identity: dict[int, int] = {id(None): 0}

    def keys(self, devices: Iterable[DriverDevice]) -> Iterator[Hashable | None]:
        """The :meth:`key` of each device."""
        return (self.key(published.driver, published.device) for published in devices)

    def key(self, driver: str, device: Device) -> Hashable | None:
        """What the selectors read of a device; None for one that can't be converted: every selector fails on it."""
        shared = driver, id(device)
        try:
            return self._keys[shared]
        except KeyError:
            key = self._key(driver, device) if all(map(convertible, device.attributes.values())) else None
            if len(self._keys) < _SHARED_DEVICES:
                self._keys[shared] = key
            return key

    def _key(self, driver: str, device: Device) -> Hashable:
        attributes = [
            self._number(published_value(device.attributes, driver, domain, identifier))
            for domain, identifier in self._attributes
        ]
        capacity = [
            self._number(published_value(device.capacity, driver, domain, identifier))
            for domain, identifier in self._capacity
        ]
        return (driver, bool(device.allow_multiple_allocations), *attributes, *capacity)

    def _number(self, value: DeviceAttribute | DeviceCapacity | None) -> int:
        number = self._numbers_by_identity.get(id(value))
        if number is None:
            content: Hashable = str(value.value) if isinstance(value, DeviceCapacity) else value
            number = self._numbers.setdefault(content, len(self._numbers) + 1)
            self._numbers_by_identity[id(value)] = number
        return number


class _Unknown(Enum):
    UNKNOWN = 0


_UNKNOWN: Final = _Unknown.UNKNOWN


class SharedAnswers(Generic[D, T]):
    """An answer for each device, computed once for all devices with the same key. ``keys``: equal for devices that have
    the same answer, None for one that shares it with no other; without it every answer is computed."""

    def __init__(
        self,
        keys: Callable[[Sequence[D]], Iterable[Hashable | None]] | None,
        compute: Callable[[D, Work | None], T],
    ) -> None:
        self._keys = keys
        self._compute = compute
        self._answers: dict[Hashable, T] = {}

    def of(self, devices: Sequence[D], work: Work | None = None) -> Iterator[T]:
        """The answer of each device, computed when it is asked for. Raises what computing raises, and Interrupted."""
        if self._keys is None:
            for device in devices:
                yield self._compute(device, work)
            return
        answers = self._answers
        budget = None if work is None or work.left is None else work
        for device, key in zip(devices, self._keys(devices), strict=True):
            if budget is not None and budget.spent(_PER_COMPARISON):
                raise Stopped
            answer = answers.get(key, _UNKNOWN)
            if answer is _UNKNOWN:
                answer = self._compute(device, work)
                if key is not None:
                    if len(answers) >= _REMEMBERED_KEYS:
                        answers.clear()
                    answers[key] = answer
            yield answer
