"""The selectors' engine: virt_dra.cel behind the allocator's port (features/selectors.py)."""

from __future__ import annotations

from virt_dra.allocator.features.selectors import Selector, SelectorError
from virt_dra.allocator.model import Device
from virt_dra.cel import CompileError, EvaluationError, device_input
from virt_dra.cel import compile_selector as compile_cel


class _Compiled:
    def __init__(self, expression: str) -> None:
        self._selector = compile_cel(expression)

    def matches(self, device: Device) -> bool:
        try:
            return self._selector.matches(device_input(device.id.driver, device.published))
        except EvaluationError as error:
            raise SelectorError(str(error), compile=False) from None


def compile_selector(expression: str) -> Selector:
    """Raises :class:`SelectorError` for a text that isn't a valid selector."""
    try:
        return _Compiled(expression)
    except CompileError as error:
        raise SelectorError(str(error), compile=True) from None
