"""The columns of each kind of row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from virt_dra.api.tolerations import taint_text
from virt_dra.cli.documents.rows import row_document
from virt_dra.cli.templates.applying import JsonPath
from virt_dra.cli.templates.custom_columns import CustomColumns, cell_text
from virt_dra.controllers.devices.options import moment_of
from virt_dra.inventory.fields import InventoryRow
from virt_dra.inventory.kinds import RowKind
from virt_dra.inventory.pool_rows import PoolRow
from virt_dra.model.usage import DeviceHolder

_LISTED: Final = 3
"""Names in a cell; of more, the number."""
_KUBECTL_LEAST: Final = 3
"""The least width of kubectl's columns, without the gap."""


@dataclass(frozen=True)
class RowColumn:
    """``cell``: the text for a row, "" for nothing. ``wide``: shown with ``-o wide`` only. ``time``: the cell is a
    timestamp, shown as an age. ``empty``: shown for nothing; ``least``: characters of width."""

    title: str
    cell: Callable[[Any], str]
    wide: bool = False
    time: bool = False
    empty: str = "-"
    least: int = 0

    def text(self, row: InventoryRow, now: datetime) -> str:
        """The cell for people."""
        cell = self.cell(row)
        return age(cell, now) if self.time else cell


def age(timestamp: str, now: datetime) -> str:
    """How long ago, as kubectl writes it: 42s, 7m, 3h, 5d, 2y. Without a readable timestamp "", and 0s for one in the
    future."""
    moment = moment_of(timestamp)
    if moment is None:
        return ""
    seconds = max(0, int((now - moment).total_seconds()))
    for unit, most, length in (("s", 120, 1), ("m", 120, 60), ("h", 48, 3600), ("d", 730, 86_400)):
        if seconds < most * length:
            return f"{seconds // length}{unit}"
    return f"{seconds // (365 * 86_400)}y"


def _few(names: Sequence[str], noun: str) -> str:
    return ",".join(names) if len(names) <= _LISTED else f"{len(names)} {noun}"


def _joined(parts: Iterable[str]) -> str:
    return ",".join(dict.fromkeys(filter(None, parts)))


def _held_by(holders: Sequence[DeviceHolder]) -> str:
    """The VMs or other users; of a claim with several, each of them."""
    names: list[str] = []
    for holder in holders:
        users = (f"VM {holder.namespace}/{user.vm}" if user.vm else str(user) for user in holder.users)
        names += users if len(holder.users) > 1 else [str(holder)]
    return _few(list(dict.fromkeys(names)), "users")


def _slices(row: PoolRow) -> str:
    announced = "/".join(map(str, row.announced)) or "?"
    return f"{len(row.slices)}/{announced}" + (f" (+{row.stale} stale)" if row.stale else "")


_VMS: Final = (
    RowColumn("NAMESPACE", lambda row: row.namespace),
    RowColumn("NAME", lambda row: row.name),
    RowColumn("PHASE", lambda row: row.phase),
    RowColumn("NODE", lambda row: row.node),
    RowColumn("READY", lambda row: row.ready),
    RowColumn("DEVICES", lambda row: ",".join(map(str, row.devices))),
    RowColumn("REASON", lambda row: row.reason),
    RowColumn("AGE", lambda row: row.created, time=True),
    RowColumn("KIND", lambda row: row.kind, wide=True),
    RowColumn("POD", lambda row: row.pod, wide=True),
    RowColumn("CLAIMS", lambda row: _joined(device.claim for device in row.devices), wide=True),
    RowColumn("MESSAGE", lambda row: row.message, wide=True),
)
_DEVICES: Final = (
    RowColumn("DRIVER", lambda row: row.id.driver),
    RowColumn("POOL", lambda row: row.id.pool),
    RowColumn("DEVICE", lambda row: row.id.device),
    RowColumn("NODE", lambda row: row.node),
    RowColumn("MODEL", lambda row: row.model),
    RowColumn("ADDRESS", lambda row: row.address),
    RowColumn("STATE", lambda row: ",".join(row.states)),
    RowColumn("HELD-BY", lambda row: _held_by(row.holders)),
    RowColumn("CLAIM", lambda row: _few(list(dict.fromkeys(holder.claim.name for holder in row.holders)), "claims")),
    RowColumn("SINCE", lambda row: row.holders[0].since if row.holders else "", time=True),
    RowColumn("TAINTS", lambda row: _joined(taint_text(taint) for taint in row.taints), wide=True),
    RowColumn("HEALTH", lambda row: "" if row.health is None else row.health or "Unhealthy", wide=True),
    RowColumn("PROBLEM", lambda row: row.problem, wide=True),
)
_CLAIMS: Final = (
    RowColumn("NAMESPACE", lambda row: row.namespace),
    RowColumn("NAME", lambda row: row.claim.name),
    RowColumn("STATE", lambda row: row.state),
    RowColumn("DEVICES", lambda row: ",".join(f"{device.pool}/{device.device}" for device in row.devices)),
    RowColumn("NODE", lambda row: row.node),
    RowColumn("FOR", lambda row: _few([user.description for user in row.users], "users")),
    RowColumn("SINCE", lambda row: row.since, time=True),
    RowColumn("DRIVERS", lambda row: _joined(device.driver for device in row.devices), wide=True),
    RowColumn("CLASSES", lambda row: ",".join(row.classes), wide=True),
    RowColumn("PODS", lambda row: _joined(user.name for user in row.users), wide=True),
)
_POOLS: Final = (
    RowColumn("DRIVER", lambda row: row.id.driver),
    RowColumn("POOL", lambda row: row.id.pool),
    RowColumn("GENERATION", lambda row: str(row.generation)),
    RowColumn("SLICES", _slices),
    RowColumn("STATE", lambda row: row.state),
    RowColumn("NODES", lambda row: _few(row.nodes, "nodes")),
    RowColumn("DEVICES", lambda row: str(row.devices)),
    RowColumn("FREE", lambda row: str(row.free)),
    RowColumn("PROBLEM", lambda row: row.problem, wide=True),
)
_DRIVERS: Final = (
    RowColumn("DRIVER", lambda row: row.name),
    RowColumn("NODES", lambda row: _few(row.nodes, "nodes")),
    RowColumn("POOLS", lambda row: str(row.pools)),
    RowColumn("DEVICES", lambda row: str(row.devices)),
    RowColumn("FREE", lambda row: str(row.free)),
    RowColumn("ALLOCATED", lambda row: str(row.allocated)),
    RowColumn("CLASSES", lambda row: ",".join(row.classes)),
    RowColumn("UNDECIDED", lambda row: ",".join(row.undecided), wide=True),
)
_COLUMNS: Final[Mapping[RowKind, tuple[RowColumn, ...]]] = {
    "vms": _VMS,
    "devices": _DEVICES,
    "claims": _CLAIMS,
    "pools": _POOLS,
    "drivers": _DRIVERS,
}


def columns_of(kind: RowKind, *, wide: bool) -> tuple[RowColumn, ...]:
    return tuple(column for column in _COLUMNS[kind] if wide or not column.wide)


def template_columns(template: CustomColumns) -> tuple[RowColumn, ...]:
    """kubectl's custom columns, of the rows' documents. A cell raises NotApplicable."""

    def cell(path: JsonPath, row: InventoryRow) -> str:
        return cell_text(path.values(row_document(row)))

    return tuple(
        RowColumn(title, partial(cell, path), empty="", least=_KUBECTL_LEAST)
        for title, path in zip(template.titles, template.paths, strict=True)
    )
