"""The objects of a cluster by kind and key, and derived values. Immutable; a copy costs what differs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Generic, Protocol, Self, TypeVar, cast

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.meta import ObjectT, TypedObject, UnknownObject
from virt_dra.api.persistent_map import PersistentMap
from virt_dra.api.reading.namespaces import in_namespace
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim

T = TypeVar("T")
V = TypeVar("V", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ModelChange:
    """An object as it was and as it is; None where it isn't there."""

    before: TypedObject | None
    after: TypedObject | None


class ClusterModel:
    """Objects of a cluster, each once: of two with one name the later counts. ``namespace``: of those that name none.
    ``unread``: kinds of which a missing object says nothing; ``partial``: kinds of which one namespace was read."""

    def __init__(
        self,
        objects: Iterable[TypedObject] = (),
        namespace: str = "default",
        unread: Collection[type[TypedObject]] = (),
        partial: Collection[type[TypedObject]] = (),
    ) -> None:
        self.unread, self.partial = frozenset(unread), frozenset(partial)
        by_kind: defaultdict[type[TypedObject], dict[str, TypedObject]] = defaultdict(dict)
        for obj in objects:
            obj = in_namespace(obj, namespace)
            of_kind = by_kind[type(obj)]
            # Files may have objects that the API server is to name: none replaces another.
            of_kind[_key(obj) if obj.name else f"{obj.key}#{len(of_kind)}"] = obj
        self._by_kind = {kind: PersistentMap(objects) for kind, objects in by_kind.items()}
        self._ordered: dict[type[TypedObject], tuple[TypedObject, ...]] = {}
        self._derived: dict[DerivedValue[Any], Any] = {}

    # --- objects ----------------------------------------------------------------------------------------------------

    def of(self, kind: type[ObjectT]) -> tuple[ObjectT, ...]:
        """All objects of a kind, in order of namespace and name."""
        ordered = self._ordered.get(kind)
        if ordered is None:
            objects = self.by_key(kind).values()
            ordered = self._ordered[kind] = tuple(sorted(objects, key=_namespace_and_name))
        return cast("tuple[ObjectT, ...]", ordered)

    def by_key(self, kind: type[ObjectT]) -> Mapping[str, ObjectT]:
        """All objects of a kind by ``namespace/name``, or by name if the kind has no namespaces; in no order."""
        return cast("Mapping[str, ObjectT]", self._by_kind.get(kind, _NONE))

    @property
    def objects(self) -> list[TypedObject]:
        """All objects, kind by kind."""
        return [obj for kind in self._by_kind for obj in self.of(kind)]

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self.by_key(Node)

    @property
    def pods(self) -> Mapping[str, Pod]:
        return self.by_key(Pod)

    @property
    def claims(self) -> Mapping[str, ResourceClaim]:
        return self.by_key(ResourceClaim)

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        return self.by_key(DeviceClass)

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """The unfinished pods that are bound to a node."""
        return pods_by_node(self, node)

    def knows(self, kind: type[TypedObject]) -> bool:
        """Whether an object of the kind that isn't here doesn't exist."""
        return kind not in self.unread

    def knows_all(self, kind: type[TypedObject]) -> bool:
        """Whether an object of the kind that isn't here exists in no namespace."""
        return kind not in self.unread and kind not in self.partial

    # --- copies -----------------------------------------------------------------------------------------------------

    def changed(self, put: Iterable[TypedObject] = (), removed: Iterable[TypedObject] = ()) -> Self:
        """A copy without the objects ``removed``, and with ``put`` in place of those of the same kind and name. All
        have names. What was derived of other kinds is shared with this model; values that can follow a change do."""
        changes: defaultdict[type[TypedObject], dict[str, TypedObject | None]] = defaultdict(dict)
        for obj in removed:
            changes[type(obj)][_key(obj)] = None
        for obj in put:
            changes[type(obj)][_key(obj)] = obj
        return self._with(changes) if changes else self

    def without_use(self) -> Self:
        """A copy without pods and claims, as if nothing ran there. What was derived of neither is shared."""
        kinds = Pod, ResourceClaim
        copy = self._without_derived(kinds)
        copy.unread |= set(kinds)
        for kind in kinds:
            copy._by_kind.pop(kind, None)
        return copy

    def _without_derived(self, kinds: Collection[type[TypedObject]]) -> Self:
        """A copy without what was derived of these kinds."""
        copy = type(self).__new__(type(self))
        copy.unread, copy.partial = self.unread, self.partial
        copy._by_kind = dict(self._by_kind)
        copy._ordered = {kind: ordered for kind, ordered in self._ordered.items() if kind not in kinds}
        copy._derived = {value: made for value, made in self._derived.items() if value.kinds.isdisjoint(kinds)}
        return copy

    def _with(self, changes: Mapping[type[TypedObject], Mapping[str, TypedObject | None]]) -> Self:
        copy = self._without_derived(changes)
        for kind, by_key in changes.items():
            copy._by_kind[kind] = self._by_kind.get(kind, _NONE).changed(
                {key: obj for key, obj in by_key.items() if obj is not None},
                [key for key, obj in by_key.items() if obj is None],
            )
        for value, derived in self._derived.items():
            if value not in copy._derived and value.follow is not None:
                differences = (
                    ModelChange(self._by_kind.get(kind, _NONE).get(key), obj)
                    for kind, by_key in changes.items()
                    if kind in value.kinds
                    for key, obj in by_key.items()
                )
                followed = value.follow(derived, differences)
                if followed is not None:
                    copy._derived[value] = followed
        return copy

    def derive(self, value: DerivedValue[T]) -> T:
        """The value for this model, computed when it is asked for first."""
        if value not in self._derived:
            self._derived[value] = value.make(self)
        return cast("T", self._derived[value])


_NONE: PersistentMap[str, Any] = PersistentMap()


def _namespace_and_name(obj: TypedObject) -> tuple[str, str]:
    metadata = obj.metadata
    return metadata.namespace, metadata.name


def _key(obj: TypedObject) -> str:
    """The key among the objects of its class, of which several kinds that we have no type for share one."""
    return f"{obj.api_version} {obj.kind} {obj.key}" if type(obj) is UnknownObject else obj.key


class DerivedValue(Generic[T]):
    """A pure function of a model, whose value the model keeps. ``kinds``: all kinds of objects that it reads.
    ``follow``: the value after changes of these kinds alone, from the one before; None if it must be made anew."""

    def __init__(
        self,
        make: Callable[[ClusterModel], T],
        kinds: Collection[type[TypedObject]],
        follow: Callable[[T, Iterable[ModelChange]], T | None] | None = None,
    ) -> None:
        self.make, self.kinds, self.follow = make, frozenset(kinds), follow
        update_wrapper(self, make)

    def __call__(self, model: ClusterModel) -> T:
        return model.derive(self)


class _Decorator(Protocol):
    def __call__(self, make: Callable[[ClusterModel], T], /) -> DerivedValue[T]: ...


def derived(*kinds: type[TypedObject], follow: Callable[[Any, Iterable[ModelChange]], Any] | None = None) -> _Decorator:
    """Makes a function of a model a :class:`DerivedValue` that reads these kinds."""

    def decorate(make: Callable[[ClusterModel], T], /) -> DerivedValue[T]:
        return DerivedValue(make, kinds, follow)

    return decorate


class ModelIndex(Generic[ObjectT, V]):
    """The objects of a kind by values that a function finds in each. A change costs what its values have."""

    def __init__(self, kind: type[ObjectT], values: Callable[[ObjectT], Iterable[V]]) -> None:
        self._kind, self._values = kind, values
        self.by_value = DerivedValue(self._made, (kind,), self._followed)

    def __call__(self, model: ClusterModel, value: V) -> tuple[ObjectT, ...]:
        """The objects with the value, in order of namespace and name."""
        return self.by_value(model).get(value, ())

    def all(self, model: ClusterModel) -> Mapping[V, tuple[ObjectT, ...]]:
        """The objects of every value that some object has."""
        return self.by_value(model)

    def _made(self, model: ClusterModel) -> PersistentMap[V, tuple[ObjectT, ...]]:
        by_value: defaultdict[V, list[ObjectT]] = defaultdict(list)
        for obj in model.of(self._kind):
            for value in self._values(obj):
                by_value[value].append(obj)
        return PersistentMap({value: tuple(objects) for value, objects in by_value.items()})

    def _followed(
        self, by_value: PersistentMap[V, tuple[ObjectT, ...]], changes: Iterable[ModelChange]
    ) -> PersistentMap[V, tuple[ObjectT, ...]]:
        touched: dict[V, dict[str, ObjectT]] = {}
        for change in changes:
            for obj in (change.before, change.after):
                if not isinstance(obj, self._kind):
                    continue
                for value in self._values(obj):
                    objects = touched.setdefault(value, {obj.key: obj for obj in by_value.get(value, ())})
                    if obj is change.after:
                        objects[obj.key] = obj
                    else:
                        objects.pop(obj.key, None)
        return by_value.changed(
            {
                value: tuple(sorted(objects.values(), key=lambda obj: (obj.namespace, obj.name)))
                for value, objects in touched.items()
                if objects
            },
            [value for value, objects in touched.items() if not objects],
        )


pods_by_node = ModelIndex(Pod, lambda pod: (pod.spec.node_name or "",) if pod.takes_room else ())
"""Unfinished pods by the node that they are bound to."""
