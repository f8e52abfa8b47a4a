"""The engine behind the ports of selectors and derived attributes: virt_dra.cel (features/selectors.py,
derived_attributes.py)."""

from __future__ import annotations

from virt_dra.allocator.errors import Interrupt
from virt_dra.allocator.features.derived_attributes import Derived, DerivedError
from virt_dra.allocator.features.selectors import Selector, SelectorError
from virt_dra.allocator.model import PoolDevice
from virt_dra.api.resource_v1 import DeviceAttribute
from virt_dra.cel import CompileError, EvaluationError, compile_derived_attribute, device_input
from virt_dra.cel import compile_selector as compile_cel


def compile_selector(expression: str) -> Selector:
    """The compiled selector. Raises :class:`SelectorError` for a text that isn't a valid one."""
    try:
        return _Selector(expression)
    except CompileError as error:
        raise SelectorError(str(error), compile=True) from None


def compile_derived(expression: str) -> Derived:
    """The compiled expression of a derived attribute. Raises :class:`DerivedError` for a text that isn't a valid
    one."""
    try:
        return _Derived(expression)
    except CompileError as error:
        raise DerivedError(str(error)) from None


class _Selector:
    def __init__(self, expression: str) -> None:
        self._selector = compile_cel(expression)
        self.reads = self._selector.reads

    def matches(self, device: PoolDevice, interrupt: Interrupt | None = None) -> bool:
        try:
            return self._selector.matches(device_input(device.id.driver, device.published), interrupt)
        except EvaluationError as error:
            raise SelectorError(str(error), compile=False) from None


class _Derived:
    def __init__(self, expression: str) -> None:
        self._attribute = compile_derived_attribute(expression)

    def evaluate(self, device: PoolDevice, interrupt: Interrupt | None = None) -> DeviceAttribute:
        try:
            return self._attribute.evaluate(device_input(device.id.driver, device.published), interrupt)
        except EvaluationError as error:
            raise DerivedError(str(error)) from None
