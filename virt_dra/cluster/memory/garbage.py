"""Which objects outlive their owners (the garbage collector's decision, background propagation).

An owner must have the kind, name and uid of the reference.
An owner in another namespace does not exist for a namespaced dependent; a cluster-scoped
dependent of a namespaced owner is never collected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from virt_dra.api.meta import ObjectMeta, OwnerReference


@dataclass(frozen=True)
class Keep:
    """An owner exists, or there never was one."""


@dataclass(frozen=True)
class Collect:
    """All owners are gone."""


@dataclass(frozen=True)
class Prune:
    """Some owners are gone: ``owners`` remain."""

    owners: tuple[OwnerReference, ...]


def fate(dependent: ObjectMeta, is_there: Callable[[OwnerReference, ObjectMeta], bool]) -> Keep | Collect | Prune:
    """The fate of an object, given which of its owners exist."""
    owners = dependent.owner_references
    remaining = tuple(owner for owner in owners if is_there(owner, dependent))
    if len(remaining) == len(owners):
        return Keep()
    return Prune(remaining) if remaining else Collect()
