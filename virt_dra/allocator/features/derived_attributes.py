"""KEP-6080: attributes that a request derives from a device's published ones, for constraints to compare (A-16).

Only constraints read them; there they hide a published attribute of the same name. An expression's value depends on the
published device alone: it is cached. A broken expression ends the attempt on every node (E19, E20), but
only when a constraint asks for it. Existing allocations mean nothing here.
Off: a request that derives attributes is refused (E3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from virt_dra.allocator.errors import DeadlineExceeded, FatalError, Interrupt
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import PoolDevice
from virt_dra.api.resource_v1 import DeviceAttribute, DeviceSubRequest, ExactDeviceRequest


class DerivedError(Exception):
    """The engine's refusal: a text that isn't an expression, or an expression that failed on a device."""


class Derived(Protocol):
    def evaluate(self, device: PoolDevice, interrupt: Interrupt | None = None) -> DeviceAttribute:
        """The value for a device. Raises :class:`DerivedError`, and what ``interrupt``, which is polled, raises."""


CompileDerived = Callable[[str], Derived]
"""Expression -> derived attribute. Raises :class:`DerivedError`."""


def expressions(subject: str, wanted: ExactDeviceRequest | DeviceSubRequest, features: Features) -> Mapping[str, str]:
    """Name -> expression; of two with one name the last counts. ``subject`` names the request in the error (A-6.3)."""
    if wanted.derived_attributes and not features.derived_attributes:
        raise FatalError(f"{subject}: cannot handle request with derived attributes, the feature is disabled")
    return {attribute.name: attribute.expression for attribute in wanted.derived_attributes}


def evaluate(
    compile_derived: CompileDerived, name: str, expression: str, device: PoolDevice, interrupt: Interrupt | None = None
) -> DeviceAttribute:
    """The value of attribute ``name`` on a device. Raises :class:`FatalError` (E19, E20).

    ``interrupt`` raises DeadlineExceeded where it is to end (:func:`~virt_dra.allocator.errors.raising`).
    """
    try:
        derived = compile_derived(expression)
    except DerivedError as error:
        raise FatalError(f"compile derived attribute {name} failed: {error}") from None
    try:
        if interrupt is not None:
            interrupt()
        return derived.evaluate(device, interrupt)
    except DerivedError as error:
        raise FatalError(f"evaluate derived attribute {name} on device {device.id} failed: {error}") from None
    except DeadlineExceeded as error:
        raise error.with_subject(f"derived attribute {name}") from None
