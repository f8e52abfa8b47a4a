"""Reads the kinds that a command needs of a live cluster, once, with no other rights than the user's: kinds that can't
be read are left out, and named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.meta import TypedObject
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.cluster.port import Forbidden, NotFound, Reader
from virt_dra.model.kinds import LABELS, OFTEN_NOT_SERVED, UNMISSED, ReadKinds


@dataclass(frozen=True)
class ReadScope:
    """What can be read: each kind with the namespace in which ("" for all). ``notes``: what was left out, for
    people."""

    namespaces: dict[type[TypedObject], str]
    notes: tuple[str, ...] = ()
    unread: frozenset[type[TypedObject]] = frozenset()
    """Kinds that may have objects which couldn't be read. A kind that isn't served has none."""
    not_served: frozenset[type[TypedObject]] = frozenset()

    @property
    def has_keeper(self) -> bool:
        """False for a cluster with virt-dra's definitions, but not those of its keeper: it certainly has none."""
        return KeepPolicy not in self.not_served or DeviceProfile in self.not_served

    @property
    def partial(self) -> frozenset[type[TypedObject]]:
        """Kinds of which one namespace was read."""
        return frozenset(kind for kind, namespace in self.namespaces.items() if namespace)

    def serves(self, kinds: ReadKinds) -> bool:
        """True if there is something to answer from."""
        return not kinds.one_of or any(kind in self.namespaces for kind in kinds.one_of)


async def read_cluster(cluster: Reader, kinds: ReadKinds, namespace: str = "") -> tuple[list[TypedObject], ReadScope]:
    """All objects of the kinds in all namespaces; where that isn't allowed, those of ``namespace``.

    Raises ApiError for a required kind that can't be read, and for what isn't about a single kind: no connection, bad
    credentials.
    """
    objects: list[TypedObject] = []
    namespaces: dict[type[TypedObject], str] = {}
    not_served: list[type[TypedObject]] = []
    forbidden: list[type[TypedObject]] = []
    for kind in kinds.all:
        for place in ("", namespace) if kind.NAMESPACED and namespace else ("",):
            try:
                objects += (await cluster.list(kind, place, labels=LABELS.get(kind, ""))).items
            except NotFound:
                if kind in kinds.required and kind not in OFTEN_NOT_SERVED:
                    raise
                not_served.append(kind)
            except Forbidden:
                if place or not kind.NAMESPACED or not namespace:
                    if kind in kinds.required:
                        raise
                    forbidden.append(kind)
                continue
            else:
                namespaces[kind] = place
            break
    notes = _notes(not_served, forbidden, [kind for kind, place in namespaces.items() if place], namespace)
    return objects, ReadScope(namespaces, tuple(notes), frozenset(forbidden), frozenset(not_served))


def _notes(
    not_served: Sequence[type[TypedObject]], forbidden: Sequence[type[TypedObject]],
    narrowed: Sequence[type[TypedObject]], namespace: str,
) -> Iterator[str]:  # fmt: skip
    missed = [kind for kind in not_served if kind not in UNMISSED]
    if missed:
        names = ", ".join(f"{kind.KIND} ({kind.API_VERSION})" for kind in missed)
        yield f"left out, as this cluster doesn't serve them: {names}"
    if forbidden:
        yield f"left out, as you may not list them: {', '.join(kind.KIND for kind in forbidden)}"
    if narrowed:
        names = ", ".join(kind.KIND for kind in narrowed)
        yield f"only of namespace {namespace}, as you may not list those of others: {names}"
