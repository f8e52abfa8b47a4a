"""What differs between two states of an inventory, for those who watch it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from virt_dra.inventory.fields import InventoryRow


@dataclass(frozen=True)
class RowChange:
    """A row that is new, different or gone (then as it was)."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    row: InventoryRow


class WatchedRows:
    """The rows as they were shown last."""

    def __init__(self) -> None:
        self._shown: Mapping[str, tuple[InventoryRow, Mapping[str, Any]]] = {}

    def changes(self, rows: Iterable[InventoryRow]) -> Iterator[RowChange]:
        """The changes since the last call, in the order of the rows, then those that are gone."""
        before = self._shown
        self._shown = {row.identity: (row, row.to_json()) for row in rows}
        for identity, (row, content) in self._shown.items():
            if identity not in before:
                yield RowChange("ADDED", row)
            elif before[identity][1] != content:
                yield RowChange("MODIFIED", row)
        for identity, (row, _) in before.items():
            if identity not in self._shown:
                yield RowChange("DELETED", row)
