"""What the terminal shows of a cluster: three tables, each row with its details, and a line about all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, Literal

from virt_dra.api.counting import counted
from virt_dra.api.go_text import visible
from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.tolerations import taint_text
from virt_dra.cli.explain.text import lines
from virt_dra.cli.get.columns import columns_of
from virt_dra.cli.shared.aligned import aligned
from virt_dra.inventory.device_rows import DeviceRow, device_rows
from virt_dra.inventory.topology import SHARED_PLACE
from virt_dra.inventory.vm_rows import RUNNING, Readiness, VmRow, and_stopped, of_those_to_run, vm_rows
from virt_dra.model.cluster import ClusterModel
from virt_dra.simulator.explaining.answer import ExplainedAnswer
from virt_dra.simulator.explaining.waiting import WaitingAnswers

TableName = Literal["vms", "nodes", "waiting"]
TABLES: Final[Mapping[TableName, tuple[str, ...]]] = {
    "vms": ("", *(column.title for column in columns_of("vms", wide=False))),
    "nodes": ("", "NODE", "DEVICES", "FREE", "USED", "TAINTED", "MODELS"),
    "waiting": ("", "SUBJECT", "WHY"),
}
"""The columns of each table. The first says by a sign what needs attention."""
ATTENTION: Final = "!"
_LISTED: Final = 200
"""Devices in the details of a node, and lines of any details."""
_CELL: Final = 400


@dataclass(frozen=True)
class TopRow:
    """``key``: unique in its table; ``details``: lines."""

    key: str
    cells: tuple[str, ...]
    details: tuple[str, ...]


@dataclass(frozen=True)
class TopContents:
    """``title``: one line about the whole cluster."""

    title: str
    tables: Mapping[TableName, tuple[TopRow, ...]]

    def to_text(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> TopContents:
        """Raises ValueError, KeyError or TypeError for what :meth:`to_text` doesn't write."""
        raw = json.loads(text)
        tables = {
            name: tuple(TopRow(row["key"], tuple(row["cells"]), tuple(row["details"])) for row in raw["tables"][name])
            for name in TABLES
        }
        return cls(str(raw["title"]), tables)


def top_contents(
    model: ClusterModel, waiting: WaitingAnswers, now: datetime, namespace: str = "", keys: tuple[DriverKeys, ...] = ()
) -> TopContents:
    """``namespace``: of VMs and of what waits; "" for all. ``keys``: attributes that are addresses, besides the
    well-known ones."""
    devices = device_rows(model, keys)
    vms = [vm for vm in vm_rows(model, now, keys) if namespace in ("", vm.namespace)]
    answers = [answer for answer in waiting.answers if not namespace or f" {namespace}/" in f"{answer.title} "]
    tables: dict[TableName, tuple[TopRow, ...]] = {
        "vms": tuple(_of_vm(vm, now) for vm in vms),
        "nodes": tuple(_of_nodes(devices)),
        "waiting": tuple(_of_answer(answer) for answer in answers),
    }
    used = sum(device.held for device in devices)
    readiness = Counter(vm.readiness for vm in vms)
    title = (
        f"{of_those_to_run(readiness)} VMs {RUNNING}{and_stopped(readiness)}   "
        f"{counted(len(devices), 'device')}, {used / max(len(devices), 1):.0%} in use   {len(answers)} waiting"
        + (f" (and {waiting.left_out} not explained)" if waiting.left_out else "")
    )
    return TopContents(title, tables)


def _of_vm(vm: VmRow, now: datetime) -> TopRow:
    cells = (
        ATTENTION if vm.readiness is Readiness.NOT_READY else "",
        *(column.text(vm, now) for column in columns_of("vms", wide=False)),
    )
    pod = f"pod {vm.pod} on {vm.node or 'no node'}" if vm.pod else ""
    details = [f"{vm.kind} {vm.identity}: {vm.phase}", *filter(None, (vm.message, pod))]
    for device in vm.devices:
        words = device.to_json().items()
        details.append("  ".join(f"{name} {value}" for name, value in words if isinstance(value, str) and value))
    return _row(vm.identity, cells, details)


def _of_nodes(devices: Iterable[DeviceRow]) -> Iterator[TopRow]:
    by_node: dict[str, list[DeviceRow]] = {}
    for device in devices:
        by_node.setdefault(device.node or SHARED_PLACE, []).append(device)
    for node, there in by_node.items():
        tainted = sum(bool(device.taints) for device in there)
        models = Counter(device.model for device in there if device.model)
        cells = (
            ATTENTION if any(not device.sound for device in there) else "",
            node,
            str(len(there)),
            str(sum(device.free for device in there)),
            _bar(sum(device.held for device in there), len(there)),
            str(tainted) if tainted else "",
            ", ".join(f"{number} {model}" for model, number in models.most_common(4)),
        )
        yield _row(node, cells, [_device_line(device) for device in there])


def _bar(used: int, of: int) -> str:
    """``####------ 40%``: readable without colour and in every terminal."""
    full = round(10 * used / of) if of else 0
    return f"{'#' * full}{'-' * (10 - full)} {used / of:4.0%}" if of else ""


def _device_line(device: DeviceRow) -> str:
    holders = ", ".join(holder.description for holder in device.holders)
    taints = ", ".join(map(taint_text, device.taints))
    parts = (
        f"{device.id.device} of {device.id.driver}",
        device.model,
        device.address,
        ",".join(device.states),
        f"held by {holders}" if holders else "",
        f"taints {taints}" if taints else "",
        device.problem,
    )
    return "  ".join(filter(None, parts))


def _of_answer(answer: ExplainedAnswer) -> TopRow:
    why = answer.headline.removeprefix(answer.title).strip()
    details = [*lines(answer), *(("", "Ways out:") if answer.ways else ()), *(f"  {way.text}" for way in answer.ways)]
    return _row(answer.title, (ATTENTION, answer.title, why), details)


def _row(key: str, cells: Sequence[str], details: Sequence[str]) -> TopRow:
    """Users' texts are shown as they are, without control characters, and shortened."""
    shown = [visible(line) for line in details[:_LISTED]]
    if len(details) > _LISTED:
        shown.append(f"and {counted(len(details) - _LISTED, 'more')}")
    return TopRow(visible(key), tuple(_short(visible(cell)) for cell in cells), tuple(shown))


def _short(text: str) -> str:
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"


def text_lines(contents: TopContents) -> Iterator[str]:
    """The contents for a pipe: the title, then each table that has rows."""
    yield contents.title
    for name, titles in TABLES.items():
        if contents.tables[name]:
            yield from ("", *aligned(titles, [row.cells for row in contents.tables[name]], "  "))
