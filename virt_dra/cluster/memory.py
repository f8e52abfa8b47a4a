"""A cluster in memory that keeps an API server's promises: the embedded default, and the ground controllers are tested on.

What it promises and where it differs from a real API server is told in docs/decisions/0007-embedded-cluster.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any, Literal, NamedTuple, Self, TypeVar, cast

from virt_dra.api.core_v1 import Namespace
from virt_dra.api.meta import ObjectMeta, OwnerReference, TypedObject, format_time
from virt_dra.api.wire import WireError
from virt_dra.cluster import garbage, names, patches, refusals, strategies
from virt_dra.cluster.admission import Admission, admin_access_on_create, admin_access_on_status
from virt_dra.cluster.journal import Change, Journal
from virt_dra.cluster.kinds import NAMESPACE, Resource, resource_of
from virt_dra.cluster.port import ApiError, BadRequest, Cause, Listed, WatchEvent
from virt_dra.cluster.rules import KindRules
from virt_dra.cluster.selectors import Selector, parse_selector

O = TypeVar("O", bound=TypedObject)  # noqa: E741 - the object type, as in port

DEFAULT_NAMESPACE = "default"
PROTECTED_NAMESPACES = ("default", "kube-system", "kube-public")
HISTORY = 10_000
"""Changes of one kind that can be watched from, at least."""


class _Key(NamedTuple):
    namespace: str
    name: str


class _At(NamedTuple):
    """Where an object is: its resource and its key."""

    resource: Resource
    key: _Key


class _Table:
    """The objects of one resource, and their history."""

    def __init__(self, history: int, floor: int) -> None:
        self.objects: dict[_Key, TypedObject] = {}
        self.journal = Journal(history, floor)
        self._order: list[_Key] | None = None

    def put(self, key: _Key, obj: TypedObject) -> None:
        if key not in self.objects:
            self._order = None
        self.objects[key] = obj

    def remove(self, key: _Key) -> None:
        del self.objects[key]
        self._order = None

    def in_order(self) -> list[TypedObject]:
        """By namespace and name, as an API server lists."""
        if self._order is None:
            self._order = sorted(self.objects)
        return [self.objects[key] for key in self._order]


class MemoryCluster:
    """Implements :class:`virt_dra.cluster.port.Cluster`.

    ``clock`` gives the time, ``names`` a suffix for ``generateName`` (see :mod:`virt_dra.cluster.names`), ``uids`` a new uid. With
    sources that repeat themselves a run is reproducible. For production see :func:`virt_dra.cluster.embedded.embedded_cluster`.

    Every write is atomic and takes effect before the call returns, the garbage collector's work included. Not for several threads.
    """

    def __init__(
        self, clock: Callable[[], datetime], names: Callable[[], str], uids: Callable[[], str], *,
        admission: Admission | None = None, namespaces_must_exist: bool = False, history: int = HISTORY,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._suffixes = names
        self._uids = uids
        self._admission: Admission = KindRules() if admission is None else admission
        self._namespaces_must_exist = namespaces_must_exist
        self._history = history
        self._version = 0
        self._floor = 0
        self._tables: dict[Resource, _Table] = {}
        self._places: dict[str, _At] = {}
        """uid -> where the object is."""
        self._dependents: defaultdict[str, set[_At]] = defaultdict(set)
        """uid of an owner -> what names it as its owner."""
        self._foreign_owners: set[str] = set()
        """Owners outside of a loaded extract of a cluster: taken to be alive."""
        self._population: Counter[str] = Counter()
        """Namespace -> number of objects in it."""
        self._unsettled: deque[_At] = deque()

    @classmethod
    def deterministic(
        cls, now: datetime = datetime(2026, 1, 1, tzinfo=UTC), *,
        admission: Admission | None = None, namespaces_must_exist: bool = False, history: int = HISTORY,
    ) -> Self:  # fmt: skip
        """For tests: the clock stands still, suffixes and uids are counted."""
        numbers = count(1)
        return cls(
            lambda: now, names.counted_suffixes(), lambda: f"00000000-0000-4000-8000-{next(numbers):012x}",
            admission=admission, namespaces_must_exist=namespaces_must_exist, history=history,
        )  # fmt: skip

    # --- Reader ---------------------------------------------------------------------------------------------------

    async def get(self, kind: type[O], name: str, namespace: str = "") -> O:
        """Raises :class:`NotFound`."""
        return cast("O", self._found(resource_of(kind), name, namespace))

    async def list(self, kind: type[O], namespace: str = "", *, labels: str = "", fields: str = "") -> Listed[O]:
        """By namespace and name. Raises :class:`BadRequest` for a selector that can't be read or is not supported."""
        resource = resource_of(kind)
        selected = self._selected(resource, parse_selector(resource, namespace, labels, fields))
        return Listed(tuple(cast("list[O]", selected)), str(self._version))

    # --- Writer ---------------------------------------------------------------------------------------------------

    async def create(self, obj: O) -> O:
        """Store a new object. Status is dropped where it is a subresource; uid, times, version and generation are the server's.

        Raises :class:`AlreadyExists`, :class:`Invalid`, :class:`TooLarge`, :class:`NotFound` or :class:`Forbidden` (namespace).
        """
        resource = resource_of(obj)
        _check_size(obj)
        namespace = (obj.metadata.namespace or DEFAULT_NAMESPACE) if resource.namespaced else ""
        self._check_namespace(resource, namespace, obj.metadata.name or obj.metadata.generate_name)
        prepared = strategies.for_create(resource, cast("O", self._admission.defaulted(obj, self._now())))
        generate = not obj.metadata.name and bool(obj.metadata.generate_name)
        for _ in range(names.ATTEMPTS if generate else 1):
            name = names.generated(obj.metadata.generate_name, self._suffixes()) if generate else obj.metadata.name
            if not generate or _Key(namespace, name) not in self._table(resource).objects:
                break
        new = prepared.with_(metadata=self._new_metadata(resource, prepared.metadata, namespace, name))
        causes = (*admin_access_on_create(new, self._namespace(namespace)), *self._admission.on_create(new))
        if causes:
            raise refusals.invalid(resource.group_kind, name, causes)
        if obj.metadata.resource_version:
            raise ApiError("resourceVersion should not be set on objects to be created")
        if _Key(namespace, name) in self._table(resource).objects:
            raise refusals.no_unique_name(resource, name) if generate else refusals.already_exists(resource, name)
        stored = self._put(_At(resource, _Key(namespace, name)), new)
        self._settle()
        return stored

    async def update(self, obj: O) -> O:
        """Replace all but status. Removing the last finalizer of an object marked for deletion deletes it.

        Raises :class:`NotFound`, :class:`Conflict`, :class:`Invalid`, :class:`TooLarge`.
        """
        return self._update(obj)

    async def update_status(self, obj: O) -> O:
        """Replace only status. Raises as :meth:`update`, and :class:`NotFound` for kinds without the subresource."""
        if not resource_of(obj).has_status:
            raise refusals.no_such_subresource()
        return self._update_status(obj)

    async def patch(
        self, kind: type[O], name: str, namespace: str = "", *, merge: dict[str, Any] | None = None,
        operations: Sequence[dict[str, Any]] | None = None, subresource: Literal["", "status"] = "",
    ) -> O:  # fmt: skip
        """Apply a merge patch or JSON patch operations to the object as it is now, then as :meth:`update` or :meth:`update_status`.

        Raises :class:`BadRequest` unless exactly one of both is given, :class:`Invalid` for operations that can't be applied.
        """
        resource = resource_of(kind)
        if (merge is None) == (operations is None):
            raise BadRequest("a patch needs either merge or operations")
        if subresource == "status" and not resource.has_status:
            raise refusals.no_such_subresource()
        stored = self._found(resource, name, namespace)
        document = stored.to_wire()
        if operations is None:
            result = patches.merged(document, merge)
        else:
            try:
                result = patches.patched(document, operations)
            except patches.PatchError as error:
                raise refusals.bad_patch(str(error)) from None
        _check_identity(document, result)
        try:
            obj = cast("O", type(stored).from_wire(result))
        except WireError as error:
            raise refusals.patched_shape(resource, name, error) from None
        if obj.metadata.name != name:
            raise refusals.renamed(resource, obj.metadata.name)
        if obj.metadata.namespace != stored.metadata.namespace:
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
        return self._update_status(obj) if subresource == "status" else self._update(obj)

    async def delete(self, kind: type[O], name: str, namespace: str = "", *, uid: str = "", resource_version: str = "") -> None:
        """Delete, or mark for deletion while finalizers remain; then whatever it alone owned.

        A namespace goes with everything in it. Raises :class:`NotFound`, :class:`Conflict` (preconditions), :class:`Forbidden`.
        """
        resource = resource_of(kind)
        meta = self._found(resource, name, namespace).metadata
        if uid and uid != meta.uid:
            raise refusals.deletion_precondition(resource, name, "UID", uid, meta.uid, "deleted and then recreated")
        if resource_version and resource_version != meta.resource_version:
            raise refusals.deletion_precondition(
                resource, name, "ResourceVersion", resource_version, meta.resource_version, "modified"
            )  # fmt: skip
        if resource == NAMESPACE and name in PROTECTED_NAMESPACES:
            raise refusals.forbidden(resource, name, "this namespace may not be deleted")
        self._delete(_At(resource, _Key(meta.namespace, name)))
        self._settle()

    # --- Watcher --------------------------------------------------------------------------------------------------

    async def watch(
        self, kind: type[O], namespace: str = "", *, resource_version: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent[O]]:
        """Every change after ``resource_version``, in order, without end. ``""`` and ``"0"`` start with an ADDED for what is there.

        Raises, when first asked for an event, :class:`BadRequest` and :class:`Gone`; :class:`Gone` also when the reader is so slow
        that the history it still has to read is dropped.
        """
        resource = resource_of(kind)
        selector = parse_selector(resource, namespace, labels, fields)
        journal = self._table(resource).journal
        if resource_version in ("", "0"):
            position = journal.end
            for obj in self._selected(resource, selector):
                yield WatchEvent("ADDED", cast("O", obj))
        else:
            position = journal.position_after(_parse_version(resource_version))
        while True:
            change = await journal.next(position)
            position += 1
            event = change.seen_by(selector)
            if event is not None:
                yield cast("WatchEvent[O]", event)

    # --- whole contents -------------------------------------------------------------------------------------------

    def load(self, objects: Iterable[TypedObject]) -> None:
        """Take objects as they are, status and server-set metadata included, and fill in what is missing. All or none.

        Defaults are applied, validation is not: what a cluster gave away was valid; new objects are judged by :meth:`create`.
        Owners that are not among the objects are taken to be alive elsewhere. Watches must list again (:class:`Gone`).
        Raises :class:`AlreadyExists` for a name that is taken, by an earlier object of ``objects`` too, :class:`Invalid` for an object
        without a name, and :class:`TooLarge`.
        """
        now = self._now()
        loaded: dict[_At, TypedObject] = {}
        for obj in objects:
            resource = resource_of(obj)
            meta = obj.metadata
            namespace = (meta.namespace or DEFAULT_NAMESPACE) if resource.namespaced else ""
            name = meta.name or (names.generated(meta.generate_name, self._suffixes()) if meta.generate_name else "")
            if not name:
                raise refusals.nameless(resource)
            _check_size(obj)
            at = _At(resource, _Key(namespace, name))
            if at in loaded or at.key in self._table(resource).objects:
                raise refusals.already_exists(resource, name)
            loaded[at] = self._admission.defaulted(obj, now).with_(metadata=self._filled_metadata(resource, meta, namespace, name, now))
        given = [int(obj.metadata.resource_version) for obj in loaded.values() if obj.metadata.resource_version]
        self._version = max(self._version, *given, 0) + 1
        for at, obj in loaded.items():
            if not obj.metadata.resource_version:
                obj = obj.with_(metadata=obj.metadata.with_(resource_version=str(self._version)))
            self._enter(at, None, obj)
        for owner in [uid for uid, dependents in self._dependents.items() if dependents and uid not in self._places]:
            self._foreign_owners.add(owner)
        self._floor = self._version
        for table in self._tables.values():
            table.journal.restart(self._version)

    def snapshot(self) -> tuple[TypedObject, ...]:
        """All objects, ordered by apiVersion, kind, namespace and name; what :meth:`load` takes."""
        tables = sorted(self._tables.items(), key=lambda item: (item[0].api_version, item[0].kind))
        return tuple(obj for _, table in tables for obj in table.in_order())

    @property
    def resource_version(self) -> str:
        """The version of the newest change."""
        return str(self._version)

    # --- writing --------------------------------------------------------------------------------------------------

    def _update(self, obj: O) -> O:
        resource = resource_of(obj)
        _check_size(obj)
        stored = self._current(resource, obj)
        new = strategies.for_update(resource, cast("O", self._admission.defaulted(obj, self._now())), stored, self._now())
        causes = self._admission.on_update(new, stored)
        return self._replace(resource, stored, new, causes)

    def _update_status(self, obj: O) -> O:
        resource = resource_of(obj)
        _check_size(obj)
        stored = self._current(resource, obj)
        new = strategies.for_status_update(cast("O", self._admission.defaulted(obj, self._now())), stored)
        namespace = self._namespace(stored.metadata.namespace)
        causes = (*admin_access_on_status(new, stored, namespace), *self._admission.on_status_update(new, stored))
        return self._replace(resource, stored, new, causes)

    def _current(self, resource: Resource, obj: O) -> O:
        """The stored object that ``obj`` replaces, if ``obj`` is based on it."""
        meta = obj.metadata
        stored = self._found(resource, meta.name, meta.namespace)
        if meta.uid and meta.uid != stored.metadata.uid:
            raise refusals.uid_differs(resource, meta.name, meta.uid, stored.metadata.uid)
        if not meta.resource_version and not resource.unconditional_update:
            raise refusals.version_required(resource, meta.name)
        if meta.resource_version and meta.resource_version != stored.metadata.resource_version:
            raise refusals.conflict(resource, meta.name)
        return cast("O", stored)

    def _replace(self, resource: Resource, stored: O, new: O, causes: Sequence[Cause]) -> O:
        if causes:
            raise refusals.invalid(resource.group_kind, stored.metadata.name, causes)
        at = _At(resource, _Key(stored.metadata.namespace, stored.metadata.name))
        if strategies.unchanged(resource, new, stored):
            return stored
        if new.metadata.deletion_timestamp is not None and not new.metadata.finalizers and not self._has_content(at):
            self._remove(at)
        else:
            new = self._put(at, new)
        self._settle()
        return new

    def _put(self, at: _At, obj: O) -> O:
        """Store under a new resourceVersion and tell the watchers."""
        self._version += 1
        versioned = obj.with_(metadata=obj.metadata.with_(resource_version=str(self._version)))
        before = self._table(at.resource).objects.get(at.key)
        self._enter(at, before, versioned)
        self._table(at.resource).journal.append(Change(self._version, before, versioned))
        if versioned.metadata.owner_references:
            self._unsettled.append(at)
        return versioned

    def _enter(self, at: _At, before: TypedObject | None, obj: TypedObject) -> None:
        """Table and indexes, nothing else."""
        self._table(at.resource).put(at.key, obj)
        self._places[obj.metadata.uid] = at
        if before is None:
            self._population[at.key.namespace] += 1
        else:
            self._disown(at, before)
        for owner in obj.metadata.owner_references:
            self._dependents[owner.uid].add(at)

    def _disown(self, at: _At, obj: TypedObject) -> None:
        for owner in obj.metadata.owner_references:
            self._dependents[owner.uid].discard(at)
            if not self._dependents[owner.uid]:
                del self._dependents[owner.uid]

    def _delete(self, at: _At) -> None:
        """Remove, or mark while finalizers (of a namespace: its content) remain."""
        obj = self._table(at.resource).objects[at.key]
        if not obj.metadata.finalizers and not self._has_content(at):
            self._remove(at)
            return
        if obj.metadata.deletion_timestamp is None:
            meta = obj.metadata.with_(deletion_timestamp=self._now(), deletion_grace_period_seconds=0)
            self._put(at, obj.with_(metadata=strategies.next_generation(meta) if meta.generation else meta))
        if at.resource == NAMESPACE:
            inside = [_At(r, key) for r, table in self._tables.items() for key in table.objects if key.namespace == at.key.name]
            for content in sorted(inside, key=lambda a: (a.resource.api_version, a.resource.kind, a.key)):
                self._delete(content)

    def _remove(self, at: _At) -> None:
        table = self._table(at.resource)
        obj = table.objects[at.key]
        self._version += 1
        table.remove(at.key)
        table.journal.append(Change(self._version, obj, None))
        self._disown(at, obj)
        uid = obj.metadata.uid
        self._places.pop(uid, None)
        self._unsettled.extend(sorted(self._dependents.get(uid, ()), key=lambda a: (a.resource.api_version, a.resource.kind, a.key)))
        self._population[at.key.namespace] -= 1
        if at.key.namespace:
            self._unsettled.append(_At(NAMESPACE, _Key("", at.key.namespace)))

    def _settle(self) -> None:
        """Do what other controllers of a control plane would: collect garbage, finish the deletion of emptied namespaces."""
        while self._unsettled:
            at = self._unsettled.popleft()
            obj = self._table(at.resource).objects.get(at.key)
            if obj is None:
                continue
            if at.resource == NAMESPACE and obj.metadata.deletion_timestamp is not None:
                self._delete_if_done(at, obj)
                continue
            dependent = obj
            match garbage.fate(obj.metadata, lambda owner: self._is_there(owner, dependent)):  # noqa: B023 - used at once
                case garbage.Collect():
                    if obj.metadata.deletion_timestamp is None:
                        self._delete(at)
                case garbage.Prune(owners):
                    self._put(at, obj.with_(metadata=obj.metadata.with_(owner_references=owners)))

    def _delete_if_done(self, at: _At, namespace: TypedObject) -> None:
        if not namespace.metadata.finalizers and not self._has_content(at):
            self._remove(at)

    def _is_there(self, owner: OwnerReference, dependent: TypedObject) -> bool:
        at = self._places.get(owner.uid)
        if at is None:
            return owner.uid in self._foreign_owners
        return not at.key.namespace or at.key.namespace == dependent.metadata.namespace or not dependent.metadata.namespace

    # --- reading --------------------------------------------------------------------------------------------------

    def _table(self, resource: Resource) -> _Table:
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = _Table(self._history, self._floor)
        return table

    def _found(self, resource: Resource, name: str, namespace: str) -> TypedObject:
        key = _Key((namespace or DEFAULT_NAMESPACE) if resource.namespaced else "", name)
        obj = self._table(resource).objects.get(key)
        if obj is None:
            raise refusals.not_found(resource, name)
        return obj

    def _selected(self, resource: Resource, selector: Selector) -> Sequence[TypedObject]:
        objects = self._table(resource).in_order()
        return objects if selector.everything else [obj for obj in objects if selector.matches(obj)]

    def _namespace(self, name: str) -> Namespace | None:
        found = self._table(NAMESPACE).objects.get(_Key("", name)) if name else None
        return found if isinstance(found, Namespace) else None

    def _has_content(self, at: _At) -> bool:
        return at.resource == NAMESPACE and self._population[at.key.name] > 0

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        if not namespace:
            return
        found = self._namespace(namespace)
        if found is None:
            if self._namespaces_must_exist and namespace != DEFAULT_NAMESPACE:
                raise refusals.not_found(NAMESPACE, namespace)
        elif found.metadata.deletion_timestamp is not None:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise refusals.forbidden(resource, name, why)

    # --- metadata -------------------------------------------------------------------------------------------------

    def _now(self) -> str:
        return format_time(self._clock())

    def _new_metadata(self, resource: Resource, meta: ObjectMeta, namespace: str, name: str) -> ObjectMeta:
        for field in ("deletion_timestamp", "deletion_grace_period_seconds", "generation", "resource_version", "namespace"):
            meta = strategies.without(meta, field)
        scope = {"namespace": namespace} if namespace else {}
        counted = {"generation": 1} if resource.generation == "content" else {}
        return meta.with_(name=name, uid=self._uids(), creation_timestamp=self._now(), **scope, **counted)

    def _filled_metadata(self, resource: Resource, meta: ObjectMeta, namespace: str, name: str, now: str) -> ObjectMeta:
        missing: dict[str, object] = {}
        if not meta.uid:
            missing["uid"] = self._uids()
        if not meta.creation_timestamp:
            missing["creation_timestamp"] = now
        if meta.generation is None and resource.generation == "content":
            missing["generation"] = 1
        if namespace and meta.namespace != namespace:
            missing["namespace"] = namespace
        if meta.name != name:
            missing["name"] = name
        if meta.resource_version and not _is_version(meta.resource_version):
            missing["resource_version"] = ""
        filled = meta.with_(**missing) if missing else meta
        return filled if namespace else strategies.without(filled, "namespace")


def _check_size(obj: TypedObject) -> None:
    size = len(obj.model_dump_json(by_alias=True, exclude_unset=True).encode())
    if size > refusals.SIZE_LIMIT:
        raise refusals.too_large(size)


def _check_identity(before: dict[str, Any], after: Any) -> None:
    if not isinstance(after, dict):
        raise BadRequest("a patch must leave an object")
    for field, word in (("apiVersion", "API version"), ("kind", "kind")):
        if after.get(field) != before[field]:
            raise BadRequest(f"the {word} in the data ({after.get(field)}) does not match the expected {word} ({before[field]})")


def _is_version(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 20


def _parse_version(text: str) -> int:
    if not _is_version(text):
        raise refusals.bad_version(text)
    return int(text)
