"""What a report says, as values: numbers, VMs, what waits, how the free devices lie, findings, and when devices were
taken. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from virt_dra.allocator.model import DeviceId
from virt_dra.api.wire import Json
from virt_dra.cli.documents.heads import output_document
from virt_dra.inventory.device_rows import DeviceRow
from virt_dra.inventory.document_types import VmRowJson
from virt_dra.inventory.topology import PLACES, TopologyNode
from virt_dra.inventory.vm_rows import VmRow
from virt_dra.model.kept import KeptUntil, KeptUntilJson, kept_until_json
from virt_dra.simulator.explaining.answer import ExplainedAnswerJson, answer_json
from virt_dra.simulator.explaining.waiting import WaitingAnswers
from webhooks.lint import LintFindingJson, ObjectFindings

SIZES: Final = (1, 2, 4, 8)
"""Devices of one VM for which the report says on how many nodes they fit."""


@dataclass(frozen=True)
class ModelFree:
    """How many devices of one model are held and free. ``nodes_for``: on how many nodes so many are free, by SIZES;
    ``largest``: the most on one node."""

    model: str
    held: int
    free: int
    total: int
    largest: int
    nodes_for: tuple[int, ...]


@dataclass(frozen=True)
class KeptDevice:
    """A device that a stopped VM keeps (P-1). ``stopped_since``: an RFC 3339 time, "" if it isn't known; ``until``:
    None without an end."""

    device: DeviceId
    namespace: str
    vm: str
    claim: str
    stopped_since: str
    until: KeptUntil | None = None


@dataclass(frozen=True)
class ReportContents:
    """``taken``: the days (``2026-11-20``) on which devices were allocated that are still held, with how many."""

    nodes: int
    states: tuple[tuple[str, int], ...]
    vms: tuple[VmRow, ...]
    topology: tuple[TopologyNode, ...]
    waiting: WaitingAnswers
    models: tuple[ModelFree, ...]
    findings: tuple[ObjectFindings, ...]
    taken: tuple[tuple[str, int], ...]
    kept: tuple[KeptDevice, ...] = ()
    notes: tuple[str, ...] = ()


class ModelFreeJson(TypedDict):
    """How the free devices of a model are spread over nodes."""

    model: str
    free: int
    total: int
    largestOnANode: int
    nodesFor: Mapping[str, int]
    """Number of devices -> on how many nodes so many are free."""


class KeptDeviceJson(KeptUntilJson):
    """A device that a stopped VM keeps."""

    driver: str
    pool: str
    device: str
    namespace: str
    vm: str
    claim: str
    stoppedSince: str | None
    """RFC 3339"""


class ReportedFindingJson(LintFindingJson):
    """A finding with its object."""

    object: str


class ReportJson(TypedDict):
    """What a report says of a cluster."""

    nodes: int
    devices: Mapping[str, int]
    """State -> devices in it."""
    vms: list[VmRowJson]
    waiting: list[ExplainedAnswerJson]
    free: list[ModelFreeJson]
    findings: list[ReportedFindingJson]
    takenByDay: Mapping[str, int]
    """Day -> devices that are held since then."""
    kept: list[KeptDeviceJson]
    notes: list[str]


def free_of_models(nodes: Iterable[TopologyNode]) -> tuple[ModelFree, ...]:
    """How the free devices of each model are spread over nodes: many free devices are no use to a VM that wants several
    of one node."""
    free: dict[str, list[int]] = defaultdict(list)
    total, held = Counter[str](), Counter[str]()
    for node in nodes:
        here: Counter[str] = Counter()
        for device in node.devices:
            total[device.label] += 1
            held[device.label] += device.row.held
            here[device.label] += device.row.free
        if node.name not in PLACES:
            for model, number in here.items():
                free[model].append(number)
    nodes_for = {
        model: tuple(sum(number >= size for number in free[model]) for size in SIZES) for model in sorted(total)
    }
    return tuple(
        ModelFree(model, held[model], sum(free[model]), total[model], max(free[model], default=0), of_sizes)
        for model, of_sizes in nodes_for.items()
    )


def taken_by_day(rows: Iterable[DeviceRow]) -> tuple[tuple[str, int], ...]:
    """How many of the devices in use are held since each day, by date."""
    holders = (holder for row in rows for holder in row.holders)
    return tuple(sorted(Counter(holder.since[:10] for holder in holders if holder.since and not holder.admin).items()))


def kept_devices(rows: Iterable[DeviceRow]) -> tuple[KeptDevice, ...]:
    """The devices that stopped VMs keep, by namespace and VM."""
    kept = [
        KeptDevice(row.id, holder.namespace, user.vm, holder.claim.name, user.stopped_since, user.kept)
        for row in rows
        for holder in row.holders
        for user in holder.users
        if user.keeps
    ]
    return tuple(sorted(kept, key=lambda item: (item.namespace, item.vm, item.device)))


def contents_json(contents: ReportContents) -> Json:
    members: ReportJson = {
        "nodes": contents.nodes,
        "devices": dict(contents.states),
        "vms": [row.to_json() for row in contents.vms],
        "waiting": [answer_json(answer) for answer in contents.waiting.answers],
        "free": [
            {
                "model": free.model,
                "free": free.free,
                "total": free.total,
                "largestOnANode": free.largest,
                "nodesFor": {str(size): number for size, number in zip(SIZES, free.nodes_for, strict=True)},
            }
            for free in contents.models
        ],
        "findings": [
            {"object": obj.title, **finding.to_json()} for obj in contents.findings for finding in obj.findings
        ],
        "takenByDay": dict(contents.taken),
        "kept": [
            {
                "driver": kept.device.driver,
                "pool": kept.device.pool,
                "device": kept.device.device,
                "namespace": kept.namespace,
                "vm": kept.vm,
                "claim": kept.claim,
                "stoppedSince": kept.stopped_since or None,
                **kept_until_json(kept.until),
            }
            for kept in contents.kept
        ],
        "notes": list(contents.notes),
    }
    return output_document("Report", members)


def state_counts(rows: Sequence[DeviceRow]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(row.states[0] for row in rows).items(), key=lambda item: (-item[1], item[0])))
