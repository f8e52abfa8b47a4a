"""Changes of a JSON value that can also be made in the text in which it is written."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

MemberPath = tuple[str | int, ...]
"""Members and indices, from the object's root."""


class CannotChange(ValueError):
    """A change that the value or its text doesn't allow. The message says why, as the end of a sentence."""


@dataclass(frozen=True)
class SetMember:
    """The scalar at ``path`` becomes ``value``, JSON as text; one that is missing is added, unless ``add`` is False."""

    path: MemberPath
    value: str
    add: bool = True


@dataclass(frozen=True)
class RenameMember:
    """The member at ``path`` is called ``name``."""

    path: MemberPath
    name: str


@dataclass(frozen=True)
class RemoveMember:
    """The member at ``path`` is gone."""

    path: MemberPath


@dataclass(frozen=True)
class NestMembers:
    """The members ``names`` of the object at ``path`` move into a new member ``under``, in place of the first."""

    path: MemberPath
    names: tuple[str, ...]
    under: str


@dataclass(frozen=True)
class UnnestMember:
    """The members of the object at ``path`` take its place."""

    path: MemberPath


@dataclass(frozen=True)
class WrapMember:
    """The scalar at ``path`` becomes an object with itself as the only member, ``under``."""

    path: MemberPath
    under: str


@dataclass(frozen=True)
class AppendItem:
    """The list at ``path``, which is added if it is missing, gets a further item. ``value``: JSON as text."""

    path: MemberPath
    value: str


ValueChange = SetMember | RenameMember | RemoveMember | NestMembers | UnnestMember | WrapMember | AppendItem


def changed(value: object, changes: Iterable[ValueChange]) -> Any:
    """A changed copy. The changes are made in their order; a path is that before all changes, so changes of inner
    members come before those that move them. Raises :class:`CannotChange`."""
    copy = json.loads(json.dumps(value))
    for change in changes:
        _make(copy, change)
    return copy


def _make(root: Any, change: ValueChange) -> None:
    if isinstance(change, NestMembers):
        owner = _at(root, change.path)
        if not isinstance(owner, dict) or change.under in owner:
            raise CannotChange(f"{change.under} is there already")
        moved = {name: owner[name] for name in change.names}
        _replace_members(owner, {**{k: v for k, v in owner.items() if k not in moved}, change.under: moved})
        return
    owner, last = _at(root, change.path[:-1]), change.path[-1]
    if not isinstance(owner, dict) or not isinstance(last, str):
        raise CannotChange("there is no object to change")
    if isinstance(change, SetMember) and (change.add or last in owner):
        owner[last] = json.loads(change.value)
        return
    if isinstance(change, AppendItem):
        items = owner.get(last)
        if items is not None and not isinstance(items, list):
            raise CannotChange(f"{last} is no list")
        owner[last] = [*(items or []), json.loads(change.value)]
        return
    if last not in owner:
        raise CannotChange(f"there is no {last}")
    given = owner[last]
    if isinstance(change, RenameMember):
        if change.name in owner:
            raise CannotChange(f"{change.name} is there already")
        _replace_members(owner, {change.name if key == last else key: value for key, value in owner.items()})
    elif isinstance(change, RemoveMember):
        del owner[last]
    elif isinstance(change, WrapMember):
        if isinstance(given, dict | list):
            raise CannotChange(f"{last} is no scalar")
        owner[last] = {change.under: given}
    else:
        inner = {} if given is None else given
        if not isinstance(inner, dict) or inner.keys() & owner.keys():
            raise CannotChange(f"{last} has members that stand beside it, too")
        _replace_members(owner, {**{k: v for k, v in owner.items() if k != last}, **inner})


def _replace_members(owner: dict[str, Any], members: dict[str, Any]) -> None:
    owner.clear()
    owner.update(members)


def _at(value: Any, path: MemberPath) -> Any:
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            raise CannotChange(f"there is no {step}") from None
    return value
