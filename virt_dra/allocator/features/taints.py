"""KEP-5055: a tainted device needs a request that tolerates the taint (A-14); rules add taints to published devices
(A-24). Off: taints are ignored; tolerations still appear in results. Existing allocations aren't affected."""

from __future__ import annotations

from collections.abc import Iterable

from virt_dra.allocator.features.static import StaticCheck
from virt_dra.allocator.model import PoolDevice, Rejection, Request
from virt_dra.api import resource_v1
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceSlice
from virt_dra.api.tolerations import taints_of_rules, untolerated

TAINTED = "DeviceTainted"
"""The device has a taint that the request doesn't tolerate."""


class Taints(StaticCheck):
    def add(self, request: Request, device: PoolDevice) -> bool:
        taints = device.published.taints
        return not taints or next(untolerated(request.tolerations, taints), None) is None

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        taint = next(untolerated(request.tolerations, device.published.taints), None)
        if taint is None:
            raise AssertionError(f"taints accept {device.id}: there is no refusal to explain")
        return Rejection(
            TAINTED, "untolerated device taint", device.id, f"taint {taint.key}={taint.value}:{taint.effect}"
        )


def with_rules(slices: Iterable[ResourceSlice], rules: Iterable[DeviceTaintRule]) -> list[ResourceSlice]:
    """The slices with the taints of the rules appended, rules in order of their names (A-24, AC-20)."""
    ordered = sorted(rules, key=lambda rule: rule.name)
    return [_tainted(slice_, ordered) for slice_ in slices] if ordered else list(slices)


def _tainted(slice_: ResourceSlice, rules: list[DeviceTaintRule]) -> ResourceSlice:
    devices = tuple(_with_taints(slice_, device, rules) for device in slice_.spec.devices)
    if all(after is before for after, before in zip(devices, slice_.spec.devices, strict=True)):
        return slice_
    return slice_.with_(spec=slice_.spec.with_(devices=devices))


def _with_taints(slice_: ResourceSlice, device: resource_v1.Device, rules: list[DeviceTaintRule]) -> resource_v1.Device:
    added = taints_of_rules(rules, slice_.spec.driver, slice_.spec.pool.name, device.name)
    return device.with_(taints=(*device.taints, *added)) if added else device
