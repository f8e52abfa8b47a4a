"""An expression evaluated on the devices of slices, and the report of the results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NotRequired, TypedDict

from virt_dra.api.counting import counted, listed
from virt_dra.api.pool_generations import generation_of, newest_generation
from virt_dra.api.resource_v1 import DeviceAttribute, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.cel import CompiledSelector, DerivedAttribute, Examined, Work
from virt_dra.matching.matcher import readable
from virt_dra.matching.reading import DeviceOf, Reading, SharedAnswers

SHOWN_DEVICES: Final = 10
"""Devices that have a line of their own without being asked for; of more, those with the same result share one."""
SHOWN_RESULTS: Final = 20
SAMPLE: Final = 5
"""The most devices that a line names."""


class DeviceResultJson(TypedDict):
    """The result for one device: matches, attribute or error."""

    device: str
    """driver/pool/device"""
    node: NotRequired[str]
    matches: NotRequired[bool | None]
    """Of a selector."""
    attribute: NotRequired[Json]
    """Of a derived attribute: a DeviceAttribute of resource.k8s.io/v1."""
    error: NotRequired[str]
    cost: int | None
    """What the evaluation cost, by Kubernetes' estimate."""


class SelectorReportJson(TypedDict):
    """An expression with its result for each device."""

    expression: str
    costEstimate: int | None
    devices: list[DeviceResultJson]
    outdatedSlices: list[str]
    """Slices that were left out, because their pool has a newer generation."""


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """The result for one device: a value, or an error."""

    device: str
    """``driver/pool/device``, as results of allocations name it."""
    node: str | None
    value: bool | DeviceAttribute | None
    error: str | None
    cost: int | None

    @property
    def matches(self) -> bool:
        return self.value is True

    def to_json(self) -> DeviceResultJson:
        result: DeviceResultJson = {"device": self.device, "cost": self.cost}
        if self.node:
            result["node"] = self.node
        if self.error is not None:
            result["error"] = self.error
        elif isinstance(self.value, DeviceAttribute):
            result["attribute"] = self.value.to_wire()
        else:
            result["matches"] = self.value
        return result

    @property
    def said(self) -> str:
        """The result without its device."""
        if self.error is not None:
            return f"error: {self.error}"
        if isinstance(self.value, DeviceAttribute):
            return json.dumps(self.value.to_wire(), ensure_ascii=False)
        return "matches" if self.value else "does not match"

    def __str__(self) -> str:
        return f"{self.device} on node {self.node}: {self.said}" if self.node else f"{self.device}: {self.said}"


@dataclass(frozen=True, slots=True)
class CelReport:
    """An expression that compiles, with its result for each device."""

    expression: str
    cost_estimate: int | None
    devices: tuple[DeviceResult, ...]
    outdated: tuple[str, ...]
    """Slices that were left out, because their pool has a newer generation."""
    derived: bool

    @property
    def failed(self) -> int:
        return sum(device.error is not None for device in self.devices)

    @property
    def matching(self) -> int:
        return sum(device.matches for device in self.devices)

    @property
    def good(self) -> bool:
        return not self.failed and (self.derived or not self.devices or self.matching > 0)

    def to_json(self) -> SelectorReportJson:
        return {
            "expression": self.expression,
            "costEstimate": self.cost_estimate,
            "devices": [device.to_json() for device in self.devices],
            "outdatedSlices": list(self.outdated),
        }

    def lines(self, *, every_device: bool = False, devices: bool = True) -> Iterator[str]:
        """``every_device``: a line for each however many there are; ``devices``: False for the counts alone."""
        if devices:
            yield from map(str, self.devices) if every_device or len(self.devices) <= SHOWN_DEVICES else self._samples()
        for name in self.outdated:
            yield f"left out: slice {name}, whose pool has a newer generation"
        if not self.devices:
            yield f"compiles; estimated cost {self.cost_estimate}"
            return
        failed = f", {self.failed} failed" if self.failed else ""
        count = len(self.devices)
        evaluated = f"{counted(count, 'device')} evaluated{failed}"
        verb = "matches" if count == 1 else "match"
        said = evaluated if self.derived else f"{self.matching} of {counted(count, 'device')} {verb}{failed}"
        costs = [device.cost for device in self.devices if device.cost is not None]
        yield f"{said}; cost up to {max(costs)} of an estimated {self.cost_estimate}" if costs else said

    def _samples(self) -> Iterator[str]:
        """One line for all devices with the same result, those first that fewest have."""
        groups: dict[str, list[str]] = {}
        for device in self.devices:
            groups.setdefault(device.said, []).append(device.device)
        rarest = sorted(groups.items(), key=lambda group: len(group[1]))
        for said, names in rarest[:SHOWN_RESULTS]:
            yield f"{counted(len(names), 'device')} ({listed(names, SAMPLE)}): {said}"
        if len(rarest) > SHOWN_RESULTS:
            yield f"and {counted(len(rarest) - SHOWN_RESULTS, 'other result')}; -v shows each device"


def evaluate(compiled: CompiledSelector | DerivedAttribute, slices: Sequence[ResourceSlice]) -> CelReport:
    """Evaluate on each device of the newest generation of each pool, in the order of the slices."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for piece in slices:
        pools.setdefault(piece.pool_key, []).append(piece)
    newest = {pool: newest_generation(members, generation_of)[0] for pool, members in pools.items()}
    reads = compiled.program.reads
    answers = SharedAnswers(None if reads is None else Reading(reads).keys, partial(_examined, compiled))
    results: list[DeviceResult] = []
    outdated: list[str] = []
    for piece in slices:
        if generation_of(piece) < newest[piece.pool_key]:
            outdated.append(piece.metadata.name)
            continue
        spec = piece.spec
        devices = [DeviceOf(spec.driver, device) for device in spec.devices]
        for device, examined in zip(spec.devices, answers.of(devices), strict=True):
            node = device.node_name if spec.per_device_node_selection else spec.node_name
            name = "/".join((*piece.pool_key, device.name))
            results.append(DeviceResult(name, node, examined.value, examined.error, examined.cost))
    derived = isinstance(compiled, DerivedAttribute)
    return CelReport(compiled.expression, compiled.cost_estimate, tuple(results), tuple(outdated), derived)


def _examined(
    compiled: CompiledSelector | DerivedAttribute, published: DeviceOf, work: Work | None
) -> Examined[bool] | Examined[DeviceAttribute]:
    given = readable(*published)
    return Examined(error=given) if isinstance(given, str) else compiled.examine(given)
