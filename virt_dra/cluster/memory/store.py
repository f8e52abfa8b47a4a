"""The objects of the embedded cluster; their versions, histories, owners and uids. No rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.cluster import refusals
from virt_dra.cluster.kinds import ApiResource, resource_of
from virt_dra.cluster.memory.history import Change, ChangeHistory
from virt_dra.cluster.memory.selectors import ObjectSelector


class StoreKey(NamedTuple):
    """Namespace and name within a resource; the namespace of cluster-scoped objects is empty."""

    namespace: str
    name: str


class Place(NamedTuple):
    """Where an object is."""

    resource: ApiResource
    key: StoreKey

    @property
    def order(self) -> tuple[str, str, StoreKey]:
        """A fixed order of places, so that runs are reproducible."""
        return self.resource.api_version, self.resource.kind, self.key


class ResourceTable:
    """The objects of one resource, and their history."""

    def __init__(self, history: int, floor: int) -> None:
        self.objects: dict[StoreKey, TypedObject] = {}
        self.history = ChangeHistory(history, floor)
        self._order: list[StoreKey] | None = None

    def put(self, key: StoreKey, obj: TypedObject) -> None:
        if key not in self.objects:
            self._order = None
        self.objects[key] = obj

    def remove(self, key: StoreKey) -> None:
        del self.objects[key]
        self._order = None

    def in_order(self) -> list[TypedObject]:
        """The objects by namespace and name, as an API server lists them."""
        if self._order is None:
            self._order = sorted(self.objects)
        return [self.objects[key] for key in self._order]


class ObjectStore:
    """``history`` is the least number of changes of one resource that can be watched from."""

    def __init__(self, history: int) -> None:
        self.version = 0
        """Of the newest change."""
        self._history = history
        self._floor = 0
        self._tables: dict[ApiResource, ResourceTable] = {}
        self._places: dict[str, Place] = {}
        self._dependents: defaultdict[str, set[Place]] = defaultdict(set)
        self._population: Counter[str] = Counter()

    def table(self, resource: ApiResource) -> ResourceTable:
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = ResourceTable(self._history, self._floor)
        return table

    def at(self, place: Place) -> TypedObject | None:
        return self.table(place.resource).objects.get(place.key)

    def find(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT | None:
        """The object of a kind by name."""
        return cast("ObjectT | None", self.at(Place(resource_of(kind), StoreKey(namespace, name))))

    def every(self, kind: type[ObjectT], namespace: str = "") -> Iterable[ObjectT]:
        """All objects of a kind, of one namespace if it is given, by namespace and name."""
        objects = cast("list[ObjectT]", self.table(resource_of(kind)).in_order())
        return [obj for obj in objects if obj.metadata.namespace == namespace] if namespace else objects

    def place_of(self, uid: str) -> Place | None:
        return self._places.get(uid)

    def dependents_of(self, uid: str) -> list[Place]:
        """What names this uid as an owner."""
        return sorted(self._dependents.get(uid, ()), key=lambda place: place.order)

    def absent_owners(self) -> set[str]:
        """The uids that are named as owners but are nowhere here."""
        return {uid for uid in self._dependents if uid not in self._places}

    def content_of(self, namespace: str) -> list[Place]:
        """All places in a namespace."""
        if not self._population[namespace]:
            return []
        places = (Place(resource, key) for resource, table in self._tables.items() for key in table.objects)
        return sorted((place for place in places if place.key.namespace == namespace), key=lambda place: place.order)

    def is_empty(self, namespace: str) -> bool:
        return self._population[namespace] == 0

    def selected(self, resource: ApiResource, selector: ObjectSelector) -> list[TypedObject]:
        objects = self.table(resource).in_order()
        return objects if selector.everything else [obj for obj in objects if selector.matches(obj)]

    def everything(self) -> tuple[TypedObject, ...]:
        """Ordered by apiVersion, kind, namespace and name."""
        tables = sorted(self._tables.items(), key=lambda item: (item[0].api_version, item[0].kind))
        return tuple(obj for _, table in tables for obj in table.in_order())

    def put(self, place: Place, obj: TypedObject) -> TypedObject:
        """Store under a new resourceVersion and append the change to the history. Returns the object as stored."""
        self.version += 1
        versioned = obj.with_(metadata=obj.metadata.with_(resource_version=str(self.version)))
        before = self.at(place)
        self._enter(place, before, versioned)
        self.table(place.resource).history.append(Change(self.version, before, versioned))
        return versioned

    def remove(self, place: Place) -> None:
        """Raises KeyError if nothing is there."""
        table = self.table(place.resource)
        obj = table.objects[place.key]
        self.version += 1
        table.remove(place.key)
        table.history.append(Change(self.version, obj, None))
        self._disown(place, obj)
        if self._places.get(obj.metadata.uid) == place:
            del self._places[obj.metadata.uid]
        self._population[place.key.namespace] -= 1

    def load(self, objects: Mapping[Place, TypedObject]) -> None:
        """Store all with their own resourceVersions; those without get one that is newer than all. Raises
        :class:`AlreadyExists` for the first place that is taken, and has then stored nothing."""
        for place in objects:
            if self.at(place) is not None:
                raise refusals.already_exists(place.resource, place.key.name)
        self.version = max(self.version, *_versions(objects.values())) + 1
        newest = str(self.version)
        for place, obj in objects.items():
            versioned = (
                obj
                if obj.metadata.resource_version
                else obj.with_(metadata=obj.metadata.with_(resource_version=newest))
            )
            self._enter(place, None, versioned)
        self._floor = self.version
        for table in self._tables.values():
            table.history.restart(self.version)

    def _enter(self, place: Place, before: TypedObject | None, obj: TypedObject) -> None:
        self.table(place.resource).put(place.key, obj)
        self._places[obj.metadata.uid] = place
        if before is None:
            self._population[place.key.namespace] += 1
        else:
            self._disown(place, before)
        for owner in obj.metadata.owner_references:
            self._dependents[owner.uid].add(place)

    def _disown(self, place: Place, obj: TypedObject) -> None:
        for uid in {owner.uid for owner in obj.metadata.owner_references}:
            self._dependents[uid].discard(place)
            if not self._dependents[uid]:
                del self._dependents[uid]


def _versions(objects: Iterable[TypedObject]) -> list[int]:
    return [0, *(int(obj.metadata.resource_version) for obj in objects if obj.metadata.resource_version)]
