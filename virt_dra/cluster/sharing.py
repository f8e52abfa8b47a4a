"""Equal values of many devices, read once and kept once.

The attributes and capacities of a cluster's devices repeat: 40,000 GPUs are of three models, with the same memory. As every
value is immutable, all devices can have the same object; that is most of the memory and half of the time of reading ResourceSlices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceAttribute, DeviceCapacity, ResourceSlice
from virt_dra.api.wire import Wire, WireError

LIMIT = 50_000
"""Different values that are remembered; then it is begun anew. What is unique (serial numbers) would pile up otherwise."""


class SharedValues:
    """Of one reader. :meth:`put_into` replaces, in the JSON of an object, values it knows by the typed objects read before."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Wire] = {}

    def put_into(self, kind: type[TypedObject], raw: Mapping[str, Any]) -> None:
        """Changes ``raw``, which must be the caller's own. Nothing happens for other kinds, and to values that can't be read."""
        if not issubclass(kind, ResourceSlice):
            return
        spec = raw.get("spec")
        devices = spec.get("devices") if isinstance(spec, dict) else None
        for device in devices if isinstance(devices, list) else ():
            if isinstance(device, dict):
                self._share(device.get("attributes"), DeviceAttribute)
                self._share(device.get("capacity"), DeviceCapacity)

    def _share(self, values: object, kind: type[Wire]) -> None:
        if not isinstance(values, dict):
            return
        for name, value in values.items():
            if not isinstance(value, dict) or len(value) != 1:
                continue
            ((field, content),) = value.items()
            if not isinstance(content, str | int):
                continue
            key = (kind, field, content.__class__, content)  # the class, since True is 1
            known = self._known.get(key)
            if known is None:
                try:
                    known = kind.from_wire(value)
                except WireError:
                    continue  # told, with its path, when the whole is read
                if len(self._known) >= LIMIT:
                    self._known.clear()
                self._known[key] = known
            values[name] = known
