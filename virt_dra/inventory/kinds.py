"""The kinds of rows by the names that users give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args

from virt_dra.api.go_text import quoted
from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.nearest import nearest
from virt_dra.inventory.claim_rows import ClaimRow, claim_rows
from virt_dra.inventory.device_rows import DeviceRow, device_rows
from virt_dra.inventory.fields import BadFilter, InventoryRow, RowFields
from virt_dra.inventory.pool_rows import DriverRow, PoolRow, driver_rows, pool_rows
from virt_dra.inventory.vm_rows import VmRow, vm_rows
from virt_dra.model.cluster import ClusterModel

RowKind = Literal["vms", "devices", "claims", "pools", "drivers"]
ROW_KINDS: Final[tuple[RowKind, ...]] = get_args(RowKind)
_ALIASES: Final[Mapping[str, RowKind]] = {
    **{kind: kind for kind in ROW_KINDS},
    **{kind.removesuffix("s"): kind for kind in ROW_KINDS},
    "vmi": "vms", "vmis": "vms", "virtualmachine": "vms", "virtualmachines": "vms", "virtualmachineinstance": "vms",
    "virtualmachineinstances": "vms", "resourceclaim": "claims", "resourceclaims": "claims",
}  # fmt: skip
FIELDS: Final[Mapping[RowKind, RowFields]] = {
    "vms": VmRow.FIELDS,
    "devices": DeviceRow.FIELDS,
    "claims": ClaimRow.FIELDS,
    "pools": PoolRow.FIELDS,
    "drivers": DriverRow.FIELDS,
}


def row_kind(name: str) -> RowKind:
    """The kind that a user means, maybe with its group (``resourceclaims.resource.k8s.io``). Raises BadFilter."""
    kind = _ALIASES.get(name.lower().partition(".")[0])
    if kind is None:
        close = nearest(name, ROW_KINDS) or nearest(name, _ALIASES)
        meant = f" (did you mean {close}?)" if close else ""
        raise BadFilter(f"there is no kind {quoted(name)}{meant}; kinds: {', '.join(ROW_KINDS)}")
    return kind


@dataclass(frozen=True)
class RowOptions:
    """The options of rows. ``keys``: attributes that are addresses, besides the well-known ones."""

    now: datetime
    keys: tuple[DriverKeys, ...] = ()


def rows_of(kind: RowKind, model: ClusterModel, options: RowOptions) -> Sequence[InventoryRow]:
    """All rows of a kind, in their usual order."""
    match kind:
        case "vms":
            return vm_rows(model, options.now, options.keys)
        case "devices":
            return device_rows(model, options.keys)
        case "claims":
            return claim_rows(model)
        case "pools":
            return pool_rows(model, device_rows(model, options.keys))
        case "drivers":
            return driver_rows(model, device_rows(model, options.keys))
