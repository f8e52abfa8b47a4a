"""KEP-6080: attributes that a request derives from a device's published ones, for constraints to compare (A-16); there
they hide a published attribute of the same name. A value is cached. A broken expression ends the attempt on every node
(E19, E20), but only when a constraint asks for it. Off: a request that derives attributes is refused (E3)."""

from __future__ import annotations

from collections.abc import Mapping

from virt_dra.allocator.errors import DeadlineExceeded, FatalError
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import PoolDevice
from virt_dra.api.resource_v1 import DeviceAttribute, DeviceSubRequest, ExactDeviceRequest
from virt_dra.cel import CompileError, EvaluationError, Interrupted, Work, compile_derived_attribute, device_input


def expressions(subject: str, wanted: ExactDeviceRequest | DeviceSubRequest, features: Features) -> Mapping[str, str]:
    """Name -> expression; of two with one name the last counts. ``subject`` names the request in the error (A-6.3)."""
    if wanted.derived_attributes and not features.derived_attributes:
        raise FatalError(f"{subject}: cannot handle request with derived attributes, the feature is disabled")
    return {attribute.name: attribute.expression for attribute in wanted.derived_attributes}


def evaluate(name: str, expression: str, device: PoolDevice, work: Work | None = None) -> DeviceAttribute:
    """The value of attribute ``name`` on a device. Raises :class:`FatalError` (E19, E20), and DeadlineExceeded if the
    work is interrupted."""
    try:
        derived = compile_derived_attribute(expression)
    except CompileError as error:
        raise FatalError(f"compile derived attribute {name} failed: {error}") from None
    try:
        if work is not None and work.interrupt is not None:
            work.interrupt()
        return derived.evaluate(device_input(device.id.driver, device.published), work)
    except Interrupted:
        raise DeadlineExceeded(subject=f"derived attribute {name}") from None
    except EvaluationError as error:
        raise FatalError(f"evaluate derived attribute {name} on device {device.id} failed: {error}") from None
