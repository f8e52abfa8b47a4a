"""The engine behind the ports of selectors and derived attributes: virt_dra.cel (features/selectors.py, derived_attributes.py).

Most selectors name the attributes that they look at. Devices alike in those get the same answer, so that the hundreds of devices of a
model, which differ in UUIDs and addresses, are evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import attrgetter

from virt_dra.allocator.features.derived_attributes import Derived, DerivedError
from virt_dra.allocator.features.selectors import Selector, SelectorError
from virt_dra.allocator.model import Device
from virt_dra.api.resource_v1 import DeviceAttribute
from virt_dra.cel import CompileError, EvaluationError, compile_derived_attribute, convertible, device_input
from virt_dra.cel import compile_selector as compile_cel
from virt_dra.cel.reads import Reads

_REMEMBERED_ANSWERS = 10_000
"""Per selector; one that tells every device from every other gains nothing by more."""

_Answer = bool | str
"""What a selector says, or the text of its failure."""

_attribute_value: Callable[[DeviceAttribute], tuple[Hashable, ...]] = attrgetter(
    "ints", "bools", "strings", "versions", "int_value", "bool_value", "string", "version"
)


class CelEngine:
    """One for each version of a cluster's devices, since it remembers them."""

    def __init__(self) -> None:
        self._convertible: dict[Device, bool] = {}

    def compile_selector(self, expression: str) -> Selector:
        """Raises :class:`SelectorError` for a text that isn't a valid selector."""
        try:
            return _Selector(self, expression)
        except CompileError as error:
            raise SelectorError(str(error), compile=True) from None

    def compile_derived(self, expression: str) -> Derived:
        """Raises :class:`DerivedError` for a text that isn't a derived attribute."""
        try:
            return _Derived(expression)
        except CompileError as error:
            raise DerivedError(str(error)) from None

    def convertible(self, device: Device) -> bool:
        """Whether all attributes can be converted: one that can't is an error even to expressions that don't look at it (A-21.2)."""
        known = self._convertible.get(device)
        if known is None:
            known = self._convertible[device] = convertible(device.published)
        return known


class _Selector:
    def __init__(self, engine: CelEngine, expression: str) -> None:
        self._engine = engine
        self._selector = compile_cel(expression)
        self._reads = self._selector.reads
        self._names: dict[str, _Names] = {}
        self._answers: dict[Hashable, _Answer] = {}

    def matches(self, device: Device) -> bool:
        answer = self._answer(device)
        if isinstance(answer, str):
            raise SelectorError(answer, compile=False)
        return answer

    def _answer(self, device: Device) -> _Answer:
        if self._reads is None or not self._engine.convertible(device):
            return self._evaluate(device)
        driver = device.id.driver
        names = self._names.get(driver)
        if names is None:
            names = self._names[driver] = _Names(self._reads, driver)
        key = names.values(device)
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= _REMEMBERED_ANSWERS:
                self._answers.clear()
            answer = self._answers[key] = self._evaluate(device)
        return answer

    def _evaluate(self, device: Device) -> _Answer:
        try:
            return self._selector.matches(device_input(device.id.driver, device.published))
        except EvaluationError as error:
            return str(error)


class _Names:
    """Where the devices of one driver publish what a selector looks at: by the qualified name, else in its own domain by the bare one."""

    def __init__(self, reads: Reads, driver: str) -> None:
        self._driver = driver if reads.driver else None
        self._multiple = reads.allow_multiple_allocations
        self._attributes = tuple((f"{domain}/{name}", name if domain == driver else None) for domain, name in sorted(reads.attributes))
        self._capacity = tuple((f"{domain}/{name}", name if domain == driver else None) for domain, name in sorted(reads.capacity))

    def values(self, device: Device) -> Hashable:
        published = device.published
        values: list[Hashable] = [self._driver, self._multiple and bool(published.allow_multiple_allocations)]
        attributes = published.attributes
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


class _Derived:
    def __init__(self, expression: str) -> None:
        self._attribute = compile_derived_attribute(expression)

    def evaluate(self, device: Device) -> DeviceAttribute:
        try:
            return self._attribute.evaluate(device_input(device.id.driver, device.published))
        except EvaluationError as error:
            raise DerivedError(str(error)) from None
