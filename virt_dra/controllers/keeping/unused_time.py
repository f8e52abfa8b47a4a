"""How many devices VMs keep, and for how long stopped ones did: what keeping costs, in device-seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from virt_dra.api.keeping.claims import STOPPED_ANNOTATION, is_kept
from virt_dra.api.resource_v1 import ResourceClaim


def unused_devices(claim: ResourceClaim | None) -> int:
    """The devices of a claim that a stopped VM keeps."""
    return _kept_devices(claim) if claim is not None and STOPPED_ANNOTATION in claim.metadata.annotations else 0


def _kept_devices(claim: ResourceClaim | None) -> int:
    return len(claim.results) if claim is not None and is_kept(claim) else 0


class UnusedTime:
    """Devices of kept claims, and device-seconds since the process began, by namespace; a change and a question cost
    the same however many there are. ``monotonic``: seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._devices: Counter[str] = Counter()
        self._all: Counter[str] = Counter()
        self._until: dict[str, tuple[float, float]] = {}
        """The sum of a namespace, and the moment up to which it is computed."""

    def claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = new or old
        if claim is None:
            return
        self._all[claim.namespace] += _kept_devices(new) - _kept_devices(old)
        more = unused_devices(new) - unused_devices(old)
        if more:
            self._until[claim.namespace] = self._sum(claim.namespace), self._monotonic()
            self._devices[claim.namespace] += more

    def devices(self) -> dict[tuple[str, str], float]:
        """How many are kept, by namespace and whether their VM is stopped (``unused``)."""
        counts: dict[tuple[str, str], float] = {}
        for namespace, number in self._all.items():
            unused = self._devices[namespace]
            counts |= {(namespace, "unused"): unused, (namespace, "in_use"): number - unused}
        return {key: number for key, number in counts.items() if number}

    def device_seconds(self) -> dict[str, float]:
        return {namespace: self._sum(namespace) for namespace in self._until}

    def _sum(self, namespace: str) -> float:
        now = self._monotonic()
        seconds, until = self._until.get(namespace, (0.0, now))
        return seconds + self._devices[namespace] * (now - until)
