"""Rows as objects of Kubernetes look: with ``kind`` and ``metadata``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from virt_dra.api.wire import Json
from virt_dra.cli.documents.heads import output_document
from virt_dra.inventory.changes import RowChange
from virt_dra.inventory.claim_rows import ClaimRow
from virt_dra.inventory.device_rows import DeviceRow
from virt_dra.inventory.fields import InventoryRow
from virt_dra.inventory.pool_rows import DriverRow, PoolRow
from virt_dra.inventory.vm_rows import VmRow

if TYPE_CHECKING:
    from virt_dra.cli.documents.output_types import RowChangeJson

ROW_LIST: Final = "InventoryList"
ROW_KINDS: Final[Mapping[type, str]] = {
    VmRow: "InventoryVM",
    DeviceRow: "InventoryDevice",
    ClaimRow: "InventoryClaim",
    PoolRow: "InventoryPool",
    DriverRow: "InventoryDriver",
}

ROW_METADATA: Final = ("name", "namespace")


def row_member(name: str) -> str:
    """What a member of a row is called in its document, where ``kind`` is the document's own."""
    return "object" if name == "kind" else name


def row_document(row: InventoryRow) -> Json:
    """The row with its name and namespace as metadata. ``object``: of a VM, the kind of the object that is known of
    it. What isn't there is left out, as in Kubernetes' objects: a template can't compare null."""
    metadata = {"name": row.name} | ({"namespace": row.namespace} if row.namespace else {})
    members = {
        row_member(key): value for key, value in _without_nulls(row.to_json()).items() if key not in ROW_METADATA
    }
    return output_document(ROW_KINDS[type(row)], {"metadata": metadata, **members})


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def change_document(change: RowChange) -> Json:
    """The change as a watch of Kubernetes writes it."""
    members: RowChangeJson = {"type": change.type, "object": row_document(change.row)}
    return output_document("RowChange", members)


def qualified_name(row: InventoryRow) -> str:
    """The name with what it is, as kubectl writes it; of what is no object of Kubernetes with all that it is in."""
    return f"{row.resource}/{row.name if row.namespace else row.identity}"
