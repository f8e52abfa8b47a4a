"""The annotation ``virt-dra.io/integration``: what the pod webhook added to a launcher pod and the operator has to fill
in.

Whoever may write pods may write this annotation, so it grants nothing: it names claims of the same pod only, the reader
checks each against the pod, and keys of other annotations are made from names, never taken from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, Literal, Self

from virt_dra.api import names
from virt_dra.api.integration.device_claims import AssignedDevice, DeviceListName
from virt_dra.api.integration.paths import (
    INTEGRATION_ANNOTATION,
    METADATA_SHIM,
    NONE,
    ClaimRequestPair,
    IntegrationPath,
    Layout,
    PathDecision,
)
from virt_dra.api.reading.json_annotations import AnnotationRecord, StrictWire
from virt_dra.api.wire import List, Str

FORMAT: Final = 1
"""The format of the annotation; another one is refused."""
_MAX = 256
"""The most pairs, and devices, of one pod. Kubernetes' own limits are lower."""


class RecordedPair(StrictWire):
    """The path of one pair. ``layout``: of the metadata file, on the metadata-shim path only."""

    claim: Str
    request: Str = ""
    path: IntegrationPath
    reason: Str = ""
    layout: Layout | None = None

    @property
    def pair(self) -> ClaimRequestPair:
        return ClaimRequestPair(self.claim, self.request)


class RecordedDevice(StrictWire):
    """A device of the device-plugin path: its address goes into variables of ``resource``, in the record's order."""

    kind: DeviceListName
    name: Str
    resource: Str
    claim: Str
    request: Str


class Integration(AnnotationRecord):
    """The annotation's value, made by :meth:`from_decisions`, read by :meth:`from_annotations`."""

    KEY: ClassVar = INTEGRATION_ANNOTATION

    format: Literal[1] = FORMAT
    pairs: List[RecordedPair] = ()
    devices: List[RecordedDevice] = ()

    @classmethod
    def from_decisions(
        cls, decisions: Iterable[PathDecision], devices: Iterable[AssignedDevice], layout: Layout
    ) -> Self:
        """The record of the decisions. ``devices``: those of the device-plugin path, in spec order, gpus first."""
        pairs = tuple(
            RecordedPair(claim=d.pair.claim, request=d.pair.request, path=d.path, reason=d.reason, layout=layout)
            if d.path == METADATA_SHIM
            else RecordedPair(claim=d.pair.claim, request=d.pair.request, path=d.path, reason=d.reason)
            for d in decisions
        )
        recorded = tuple(
            RecordedDevice(kind=d.kind, name=d.name, resource=d.resource, claim=d.entry.name, request=d.request)
            for d in devices
        )
        return cls(format=FORMAT, pairs=pairs, devices=recorded)

    def path_of(self, pair: ClaimRequestPair) -> IntegrationPath:
        """The path of the pair's first entry in the record; ``none`` without one."""
        return next((recorded.path for recorded in self.pairs if recorded.pair == pair), NONE)

    def faults(self) -> Iterable[tuple[str, str]]:
        if len(self.pairs) > _MAX or len(self.devices) > _MAX:
            yield (
                "",
                f"has {len(self.pairs)} pairs and {len(self.devices)} devices; no pod has more than {_MAX} of either",
            )
            return
        for index, pair in enumerate(self.pairs):
            yield from _name(f"pairs[{index}].claim", pair.claim)
            if pair.request:
                yield from _name(f"pairs[{index}].request", pair.request)
            if (pair.layout is not None) != (pair.path == METADATA_SHIM):
                yield f"pairs[{index}].layout", f"belongs to path {METADATA_SHIM} and only to it"
        for index, device in enumerate(self.devices):
            yield from _name(f"devices[{index}].claim", device.claim)
            yield from _name(f"devices[{index}].request", device.request)
            yield from ((f"devices[{index}].resource", fault) for fault in names.label_key(device.resource))


def _name(path: str, name: str) -> Iterable[tuple[str, str]]:
    return ((path, fault) for fault in names.dns1123_label(name))
