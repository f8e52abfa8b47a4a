"""The fields of rows, by which they are filtered and sorted."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, TypeVar

from virt_dra.api.go_text import quoted
from virt_dra.api.nearest import nearest

RowFields = Mapping[str, Callable[[Any], Sequence[str | int]]]
"""Field -> the values of it in a row: several for what it has several of, none for what it doesn't have."""


class InventoryRow(Protocol):
    """One line of an inventory."""

    FIELDS: ClassVar[RowFields]

    @property
    def resource(self) -> str:
        """What it is, as kubectl writes it before a name: ``resourceclaim.resource.k8s.io``."""

    @property
    def namespace(self) -> str:
        """ "" for what has none."""

    @property
    def name(self) -> str:
        """Its name in its namespace or pool."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which it can be asked for."""

    @property
    def identity(self) -> str:
        """The name that no other row of its kind has."""

    @property
    def labels(self) -> Sequence[Mapping[str, str]]:
        """The labels of each object that it is made of."""

    def to_json(self) -> Mapping[str, Any]: ...


R = TypeVar("R", bound=InventoryRow)
METADATA: Final[RowFields] = {
    "metadata.name": lambda row: (row.name,),
    "metadata.namespace": lambda row: (row.namespace,),
}
"""The fields that every kind has, by the names of Kubernetes' field selectors."""


class BadFilter(ValueError):
    """A condition or an order that can't be applied; the text says what can."""


@dataclass(frozen=True)
class FieldCondition:
    """``field=value`` or ``field!=value``; of several values one must be equal, or none."""

    field: str
    value: str
    equal: bool

    def holds(self, row: InventoryRow) -> bool:
        values = {**row.FIELDS, **METADATA}[self.field](row)
        return (self.value in map(str, values)) is self.equal


_CONDITION: Final = re.compile(r"(?P<field>[^=!]+?)\s*(?P<operator>!=|==|=)(?P<value>.*)", re.DOTALL)


def read_conditions(text: str, names: Collection[str]) -> tuple[FieldCondition, ...]:
    """``node=a,state!=free``. Raises BadFilter for other texts and for fields that rows don't have."""
    conditions: list[FieldCondition] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        read = _CONDITION.fullmatch(part)
        if read is None:
            raise BadFilter(f"{quoted(part)}: write FIELD=VALUE or FIELD!=VALUE, with a field of {', '.join(names)}")
        field = read["field"] if read["field"] in METADATA else checked(read["field"], names)
        conditions.append(FieldCondition(field, read["value"].strip(), read["operator"] != "!="))
    return tuple(conditions)


def checked(field: str, names: Collection[str]) -> str:
    """The field. Raises BadFilter if rows don't have it."""
    if field not in names:
        meant = f" (did you mean {close}?)" if (close := nearest(field, names)) else ""
        raise BadFilter(f"there is no field {quoted(field)}{meant}; fields: {', '.join(names)}")
    return field


def in_order(rows: Iterable[R], by: str, names: Collection[str]) -> list[R]:
    """Sorted by a field; ``-`` in front reverses. Numbers in texts count as numbers; rows without the field come last.

    Raises BadFilter for a field that rows don't have.
    """
    field = checked(by.removeprefix("-"), names)
    return by_values(((row, row.FIELDS[field](row)) for row in rows), descending=by.startswith("-"))


def by_values(rows: Iterable[tuple[R, Sequence[str | int]]], *, descending: bool) -> list[R]:
    """The rows sorted by the values that are given with them; those without one come last."""
    pairs = list(rows)
    have = [(row, values) for row, values in pairs if values and values[0] != ""]
    lack = [row for row, values in pairs if not values or values[0] == ""]
    return [*(row for row, _ in sorted(have, key=lambda pair: _key(pair[1]), reverse=descending)), *lack]


_NUMBER: Final = re.compile(r"([0-9]{1,15})")


def natural(text: str) -> list[tuple[int, str]]:
    """A key that sorts ``node-2`` before ``node-10``."""
    return [(int(part), part) if _NUMBER.fullmatch(part) else (-1, part) for part in _NUMBER.split(text)]


def _key(values: Sequence[str | int]) -> list[list[tuple[int, str]]]:
    return [[(value, "")] if isinstance(value, int) else natural(value) for value in values]


@dataclass(frozen=True)
class RowFilter:
    """The rows that are wanted. ``names``: none means all; ``namespace``: "" means all; ``labels``: of one object of
    the row."""

    names: Sequence[str] = ()
    namespace: str = ""
    conditions: Sequence[FieldCondition] = ()
    labels: Callable[[Mapping[str, str]], bool] | None = None

    def wants(self, row: InventoryRow) -> bool:
        if self.namespace and row.namespace and row.namespace != self.namespace:
            return False
        if self.names and not any(name in row.names for name in self.names):
            return False
        if self.labels is not None and not any(map(self.labels, row.labels)):
            return False
        return all(condition.holds(row) for condition in self.conditions)

    def missing(self, rows: Iterable[InventoryRow]) -> list[str]:
        """The names that no row has."""
        there = {name for row in rows for name in row.names}
        return [name for name in self.names if name not in there]
