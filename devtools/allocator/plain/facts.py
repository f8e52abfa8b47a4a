"""The problem, read; and what is in use (A-3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from virt_dra.api.core_v1 import Node
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import Device, DeviceClass, ResourceClaim, ResourceSlice

Json = dict[str, Any]
Id = tuple[str, str, str]
"""Driver, pool, device."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A device of a slice."""

    device: Device
    slice: ResourceSlice

    @property
    def pool(self) -> tuple[str, str]:
        return self.slice.spec.driver, self.slice.spec.pool.name

    @property
    def id(self) -> Id:
        return (*self.pool, self.device.name)

    @property
    def shown(self) -> str:
        return "/".join(self.id)


class Facts:
    def __init__(self, problem: Json, corrected: frozenset[str]) -> None:
        self._corrected = corrected
        self._features = problem.get("features")
        self.node = Node.from_wire(problem["node"])
        self.slices = [ResourceSlice.from_wire(raw) for raw in problem["slices"]]
        self.classes = {raw["metadata"]["name"]: DeviceClass.from_wire(raw) for raw in problem["classes"]}
        self.claims = [ResourceClaim.from_wire(raw) for raw in problem["claims"]]
        self.exclusive: set[Id] = set()
        self.shared: set[Id] = set()
        self.consumed: dict[Id, dict[str, int]] = {}
        """Billionths by capacity name."""
        for claim in (ResourceClaim.from_wire(raw) for raw in problem["allocated"]):
            self._use(claim)
        state = problem.get("allocated_state", {})
        self.exclusive |= {_id(entry) for entry in state.get("devices", ())}
        self.shared |= {_id(entry) for entry in state.get("shared", ())}
        for entry in state.get("capacity", ()):
            self._consume(_id(entry), {name: Quantity(amount) for name, amount in entry.get("consumed", {}).items()})

    def _use(self, claim: ResourceClaim) -> None:
        for result in claim.status.allocation.devices.results if claim.status.allocation is not None else ():
            place = (result.driver, result.pool, result.device)
            if result.admin_access:
                continue
            if not self.on("ConsumableCapacity") or result.share_id is None:
                self.exclusive.add(place)
                continue
            self.shared.add(place)
            if result.given("consumed_capacity"):
                self._consume(place, dict(result.consumed_capacity))

    def _consume(self, place: Id, amounts: dict[str, Quantity]) -> None:
        held = self.consumed.setdefault(place, {})
        for name, amount in amounts.items():
            held[name] = held.get(name, 0) + amount.nano

    def fixed(self, correction: str) -> bool:
        return correction in self._corrected

    def on(self, feature: str) -> bool:
        return self._features is None or bool(self._features.get(feature, False))

    @property
    def experimental(self) -> bool:
        """Whether the reference takes its experimental variant (A-2.1)."""
        return any(
            map(self.on, ("ListTypeAttributes", "OptionalNodeOperations", "DerivedAttributes", "CompatibilityGroups"))
        )

    def multi(self, candidate: Candidate) -> bool:
        """A-10.1."""
        return self.on("ConsumableCapacity") and bool(candidate.device.allow_multiple_allocations)

    def allocated(self, place: Id) -> bool:
        """A-3.5."""
        return place in self.exclusive or self.has_shares(place)

    def has_shares(self, place: Id) -> bool:
        return place in self.shared or place in self.consumed


def _id(entry: Json) -> Id:
    return entry["driver"], entry["pool"], entry["device"]
