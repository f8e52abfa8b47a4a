"""A cluster in memory that keeps an API server's promises; its differences: docs/decisions/0007-embedded-cluster.md."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from copy import copy
from datetime import UTC, datetime
from itertools import count
from typing import Any, Literal, Self, cast

from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.meta import ObjectMeta, ObjectT, OwnerReference, TypedObject, format_time
from virt_dra.api.reading.namespaces import is_namespaced
from virt_dra.api.schemas.applying import as_in
from virt_dra.api.wire import WireError
from virt_dra.cluster import refusals
from virt_dra.cluster.kinds import NAMESPACE, ApiResource, resource_of
from virt_dra.cluster.memory import names as generated_names
from virt_dra.cluster.memory import patches, pods, strategies
from virt_dra.cluster.memory.admission import Admission, admin_access_on_create, admin_access_on_status
from virt_dra.cluster.memory.authorization import rbac
from virt_dra.cluster.memory.authorization.access_request import AccessRequest, Decision, forbidden
from virt_dra.cluster.memory.authorization.claim_status import granular_faults
from virt_dra.cluster.memory.authorization.nodes import authorize_node
from virt_dra.cluster.memory.plugins.chain import NO_PLUGINS, AdmissionPlugins
from virt_dra.cluster.memory.plugins.node_restriction import restrict_node
from virt_dra.cluster.memory.plugins.write_request import Operation, WriteRequest
from virt_dra.cluster.memory.rules import KindRules
from virt_dra.cluster.memory.selectors import parse_selector
from virt_dra.cluster.memory.store import ObjectStore, Place, StoreKey
from virt_dra.cluster.port import ApiError, BadRequest, Listed, StatusCause, WatchEvent
from virt_dra.cluster.requester import ADMIN, Requester

DEFAULT_NAMESPACE = "default"
PROTECTED_NAMESPACES = ("default", "kube-system", "kube-public")
HISTORY = 10_000
NODE, POD = resource_of(Node), resource_of(Pod)


class MemoryCluster:
    """Implements :class:`virt_dra.cluster.port.Cluster`. Every write is atomic and takes effect before the call
    returns, the garbage collector's work included. Not for several threads.

    ``clock`` gives the time, ``names`` a suffix for ``generateName`` (:mod:`virt_dra.cluster.memory.names`), ``uids`` a
    new uid; :func:`virt_dra.cluster.memory.embedded.embedded_cluster` has the system's. ``history`` is the least number
    of changes of one kind that can be watched from. ``graceful_deletion``: pods on nodes are deleted as an API server
    does it, for simulated kubelets; otherwise at once. ``granular_status``: the gate of C-13.6. ``plugins``: the
    admission plugins, which see every write but those of status. ``node_rules``: the authorizer Node and the plugin
    NodeRestriction (C-13.8), which limit users that are kubelets; else these have what RBAC gives them.
    """

    def __init__(
        self, clock: Callable[[], datetime], names: Callable[[], str], uids: Callable[[], str], *,
        admission: Admission | None = None, namespaces_must_exist: bool = False, graceful_deletion: bool = False,
        granular_status: bool = True, plugins: AdmissionPlugins = NO_PLUGINS, node_rules: bool = False,
        history: int = HISTORY,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._suffixes = names
        self._uids = uids
        self._admission: Admission = KindRules() if admission is None else admission
        self._namespaces_must_exist = namespaces_must_exist
        self._granular_status = granular_status
        self._plugins = plugins
        self._node_rules = node_rules
        self._requester = ADMIN
        self._graceful_deletion = graceful_deletion
        self._store = ObjectStore(history)
        self._foreign_owners: set[str] = set()
        """Owners outside of a loaded extract of a cluster: taken to be alive."""
        self._unsettled: deque[Place] = deque()

    @classmethod
    def deterministic(
        cls, now: datetime = datetime(2026, 1, 1, tzinfo=UTC), *,
        admission: Admission | None = None, namespaces_must_exist: bool = False, graceful_deletion: bool = False,
        node_rules: bool = False, history: int = HISTORY,
    ) -> Self:  # fmt: skip
        """For tests: the clock stands still, suffixes and uids are counted."""
        numbers = count(1)
        return cls(
            lambda: now, generated_names.counted_suffixes(), lambda: f"00000000-0000-4000-8000-{next(numbers):012x}",
            admission=admission, namespaces_must_exist=namespaces_must_exist, graceful_deletion=graceful_deletion,
            node_rules=node_rules, history=history,
        )  # fmt: skip

    def acting_as(self, requester: Requester) -> Self:
        """The same cluster on behalf of a user: what that user may not do (C-13.6) is :class:`Forbidden`."""
        view = copy(self)
        view._requester = requester.authenticated()
        return view

    # --- Reader ---------------------------------------------------------------------------------------------------

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        """Raises :class:`NotFound`."""
        self._authorize("get", resource_of(kind), namespace, name)
        return cast("ObjectT", self._found(resource_of(kind), name, namespace))

    async def list(
        self, kind: type[ObjectT], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listed[ObjectT]:
        """By namespace and name. Raises :class:`BadRequest` for a selector that can't be read or is not supported."""
        resource = resource_of(kind)
        self._authorize("list", resource, namespace, fields=fields, everywhere=True)
        selected = self._store.selected(resource, parse_selector(resource, namespace, labels, fields))
        return Listed(tuple(cast("list[ObjectT]", selected)), self.resource_version)

    # --- Writer ---------------------------------------------------------------------------------------------------

    async def create(self, obj: ObjectT) -> ObjectT:
        """Store a new object; uid, times, version and generation are the server's. Raises :class:`AlreadyExists`,
        :class:`Invalid`, :class:`TooLarge`, :class:`NotFound` or :class:`Forbidden` (namespace)."""
        resource = resource_of(obj)
        self._authorize("create", resource, obj.metadata.namespace)
        refusals.check_size(obj)
        namespace = (obj.metadata.namespace or DEFAULT_NAMESPACE) if resource.namespaced else ""
        generated = not obj.metadata.name and bool(obj.metadata.generate_name)
        self._check_namespace(resource, namespace, obj.metadata.name)
        self._restrict("CREATE", resource, obj, None)
        defaulted = self._mutated("CREATE", resource, self._defaulted(resource, obj), None, namespace)
        prepared = self._admission.permitted(self._plugins.initial(strategies.for_create(resource, defaulted)), None)
        place = self._new_place(resource, namespace, obj.metadata)
        new = prepared.with_(metadata=self._new_metadata(place, prepared.metadata))
        causes = (*admin_access_on_create(new, self._namespace(namespace)), *self._admission.on_create(new))
        if causes:
            raise refusals.invalid(resource.group_kind, place.key.name, causes)
        if obj.metadata.resource_version:
            raise ApiError("resourceVersion should not be set on objects to be created")
        charges = self._charges("CREATE", resource, new, None, namespace)
        if (taken := self._store.at(place)) is not None:
            if taken.metadata.deletion_timestamp is not None:
                raise refusals.still_being_deleted(resource, place.key.name)
            raise (refusals.no_unique_name if generated else refusals.already_exists)(resource, place.key.name)
        self._store_charges(charges)
        stored = self._put(place, new)
        self._settle()
        return stored

    async def update(self, obj: ObjectT) -> ObjectT:
        """Replace all but status; without its last finalizer, an object marked for deletion goes. Raises
        :class:`NotFound`, :class:`Conflict`, :class:`Invalid`, :class:`TooLarge`."""
        self._authorize("update", resource_of(obj), obj.metadata.namespace, obj.metadata.name)
        return self._update(obj)

    async def update_status(self, obj: ObjectT) -> ObjectT:
        """Replace only status. Raises as :meth:`update`, and :class:`NotFound` for kinds without the subresource."""
        if not resource_of(obj).has_status:
            raise refusals.no_such_subresource()
        return self._update_status(
            obj, self._authorize("update", resource_of(obj), obj.metadata.namespace, obj.metadata.name, "status")
        )

    async def patch(
        self, kind: type[ObjectT], name: str, namespace: str = "", *, merge: dict[str, Any] | None = None,
        operations: Sequence[dict[str, Any]] | None = None, subresource: Literal["", "status"] = "",
    ) -> ObjectT:  # fmt: skip
        """Apply a patch to the object as it is now, then as :meth:`update` or :meth:`update_status`. Raises
        :class:`BadRequest` unless exactly one patch is given, :class:`Invalid` for operations that can't be applied."""
        resource = resource_of(kind)
        if (merge is None) == (operations is None):
            raise BadRequest("a patch needs either merge or operations")
        if subresource == "status" and not resource.has_status:
            raise refusals.no_such_subresource()
        request = self._authorize("patch", resource, namespace, name, subresource)
        stored = self._found(resource, name, namespace)
        document = strategies.as_served(resource, stored)
        try:
            result = patches.merged(document, merge) if operations is None else patches.patched(document, operations)
            refusals.check_identity(resource, name, result)
            obj = cast(
                "ObjectT", type(stored).from_wire({"apiVersion": resource.api_version, "kind": resource.kind, **result})
            )
        except patches.PatchError as error:
            raise refusals.bad_patch(str(error)) from None
        except WireError as error:
            raise refusals.patched_shape(resource, name, error) from None
        if obj.metadata.name != name:
            raise refusals.renamed(name, obj.metadata.name)
        if resource.namespaced and obj.metadata.namespace not in ("", stored.metadata.namespace):
            raise refusals.other_namespace()
        obj = obj.with_(metadata=as_in(obj.metadata, stored.metadata, "namespace"))
        if not obj.metadata.resource_version:  # a patch that removes it is no longer bound to a version
            obj = obj.with_(metadata=as_in(obj.metadata, stored.metadata, "resource_version"))
        if obj.metadata.uid not in ("", stored.metadata.uid):
            # In a patch the UID is a change, not a precondition: refused after a stale version, and ignored in a custom
            # resource's status.
            kept = obj.with_(metadata=as_in(obj.metadata, stored.metadata, "uid"))
            self._based_on(kept)
            if resource.native or subresource != "status":
                raise refusals.immutable(resource, name, "metadata.uid", obj.metadata.uid)
            obj = kept
        return self._update_status(obj, request) if subresource == "status" else self._update(obj)

    async def bind(self, pod: Pod, node: str) -> None:
        """See :meth:`virt_dra.cluster.port.Writer.bind`. Raises :class:`ApiError` for an invalid node name."""
        self._authorize("create", POD, pod.namespace, pod.name, "binding")
        stored = cast("Pod", self._found(POD, pod.name, pod.namespace))
        pods.check_target(node)
        if pod.metadata.uid not in ("", stored.metadata.uid):
            raise refusals.uid_differs(POD, stored.namespace, pod.name, pod.metadata.uid, stored.metadata.uid)
        target = self._store.at(Place(NODE, StoreKey("", node)))
        labels = pods.topology_labels(target if isinstance(target, Node) else None)
        self._put(Place(POD, StoreKey(stored.namespace, stored.name)), pods.bound(stored, node, labels, self._now()))
        self._settle()

    async def delete(
        self, kind: type[ObjectT], name: str, namespace: str = "", *,
        uid: str = "", resource_version: str = "", grace_seconds: int | None = None,
    ) -> None:  # fmt: skip
        """Delete, or mark for deletion while finalizers remain; then whatever it alone owned. A namespace goes with
        everything in it. Raises :class:`NotFound`, :class:`Conflict` (preconditions), :class:`Forbidden`."""
        resource = resource_of(kind)
        self._authorize("delete", resource, namespace, name)
        stored = self._found(resource, name, namespace)
        self._restrict("DELETE", resource, stored, stored)
        meta = stored.metadata
        if uid and uid != meta.uid:
            raise refusals.deletion_precondition(resource, name, "UID", uid, meta.uid, "deleted and then recreated")
        if resource_version and resource_version != meta.resource_version:
            raise refusals.deletion_precondition(
                resource, name, "ResourceVersion", resource_version, meta.resource_version, "modified"
            )
        if resource == NAMESPACE and name in PROTECTED_NAMESPACES:
            raise refusals.forbidden(resource, name, "this namespace may not be deleted")
        self._delete(Place(resource, StoreKey(meta.namespace, name)), grace_seconds)
        self._settle()

    # --- Watcher --------------------------------------------------------------------------------------------------

    async def watch(
        self, kind: type[ObjectT], namespace: str = "", *, resource_version: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent[ObjectT]]:
        """Every change after ``resource_version``, in order, without end. ``""`` and ``"0"`` start with an ADDED for
        what is there. Raises, when first asked for an event, :class:`BadRequest` and :class:`Gone`; :class:`Gone` also
        when the reader is so slow that the history it still has to read is dropped."""
        resource = resource_of(kind)
        self._authorize("watch", resource, namespace, fields=fields, everywhere=True)
        selector = parse_selector(resource, namespace, labels, fields)
        history = self._store.table(resource).history
        if resource_version in ("", "0"):
            position = history.end
            for obj in self._store.selected(resource, selector):
                yield WatchEvent("ADDED", cast("ObjectT", obj))
        else:
            position = history.position_after(refusals.parsed_version(resource_version))
        while True:
            change = await history.next(position)
            position += 1
            event = change.seen_by(selector)
            if event is not None:
                yield cast("WatchEvent[ObjectT]", event)

    # --- whole contents -------------------------------------------------------------------------------------------

    def load(self, objects: Iterable[TypedObject]) -> None:
        """Take objects as they are, status and server-set metadata included, and fill in what is missing. All or none.

        Defaults are applied; rules and size are not checked. Owners that are not among the objects are taken to be
        alive elsewhere. Watches must list again (:class:`Gone`). Raises :class:`AlreadyExists` for a name that is
        taken, by an earlier object of ``objects`` too, and :class:`Invalid` for an object without a name.
        """
        now = self._now()
        loaded: dict[Place, TypedObject] = {}
        for obj in objects:
            resource = resource_of(obj)
            namespace = (obj.metadata.namespace or DEFAULT_NAMESPACE) if resource.namespaced else ""
            place = self._new_place(resource, namespace, obj.metadata)
            if not place.key.name:
                raise refusals.nameless(resource)
            if place in loaded:
                raise refusals.already_exists(resource, place.key.name)
            loaded[place] = self._defaulted(resource, obj).with_(
                metadata=self._filled_metadata(place, obj.metadata, now)
            )
        self._store.load(loaded)
        self._foreign_owners |= self._store.absent_owners()

    def snapshot(self) -> tuple[TypedObject, ...]:
        """All objects, ordered by apiVersion, kind, namespace and name; what :meth:`load` takes."""
        return self._store.everything()

    @property
    def resource_version(self) -> str:
        """The version of the newest change."""
        return str(self._store.version)

    # --- authorization --------------------------------------------------------------------------------------------

    def _authorize(
        self, verb: str, resource: ApiResource, namespace: str, name: str = "", subresource: str = "", *,
        fields: str = "", everywhere: bool = False,
    ) -> AccessRequest:  # fmt: skip
        """The request, if it is allowed. ``everywhere``: no namespace means all. Raises :class:`Forbidden`."""
        within = namespace if namespace or everywhere else DEFAULT_NAMESPACE
        request = AccessRequest.from_path(self._requester, verb, resource, within, name, subresource, fields)
        if self._requester is not ADMIN:
            decision = self._decide(request)
            if not decision.allowed:
                raise forbidden(request, decision.reason)
        return request

    def _decide(self, request: AccessRequest) -> Decision:
        by_role = rbac.authorize(request, self._store)
        if not self._node_rules or by_role.allowed:
            return by_role
        by_node = authorize_node(request, self._store)
        if by_node.allowed:
            return by_node
        return Decision(allowed=False, reason="\n".join(filter(None, (by_node.reason, by_role.reason))))

    def _restrict(
        self,
        operation: Operation,
        resource: ApiResource,
        obj: TypedObject,
        old: TypedObject | None,
        subresource: str = "",
    ) -> None:
        """Raises :class:`Forbidden` if a kubelet may not write this."""
        if self._node_rules and self._requester is not ADMIN:
            restrict_node(self._write_request(operation, resource, obj, old, obj.metadata.namespace), subresource)

    # --- writing --------------------------------------------------------------------------------------------------

    def _update(self, obj: ObjectT) -> ObjectT:
        resource, stored = self._based_on(obj)
        self._restrict("UPDATE", resource, obj, stored)
        submitted = self._mutated("UPDATE", resource, self._defaulted(resource, obj), stored, stored.metadata.namespace)
        new = strategies.for_update(resource, submitted, stored, self._now(), self._admission.permitted)
        causes = self._admission.on_update(new, stored)
        charges = () if causes else self._charges("UPDATE", resource, new, stored, new.metadata.namespace)
        replaced = self._replace(resource, stored, new, causes)
        self._store_charges(charges)
        return replaced

    def _mutated(
        self, operation: Operation, resource: ApiResource, obj: ObjectT, old: TypedObject | None, namespace: str
    ) -> ObjectT:
        """The object as the admission plugins change it. Raises :class:`Forbidden`."""
        if not self._plugins.mutating:
            return obj
        return cast("ObjectT", self._plugins.mutated(self._write_request(operation, resource, obj, old, namespace)))

    def _write_request(
        self, operation: Operation, resource: ApiResource, obj: TypedObject, old: TypedObject | None, namespace: str
    ) -> WriteRequest:
        name = obj.metadata.name or obj.metadata.generate_name or "Unknown"
        gates, now = self._plugins.gates, self._now()
        return WriteRequest(self._requester, operation, resource, namespace, name, obj, old, self._store, gates, now)

    def _charges(
        self, operation: Operation, resource: ApiResource, new: TypedObject, old: TypedObject | None, namespace: str
    ) -> tuple[TypedObject, ...]:
        """What must be stored with the object, which the admission plugins let pass. Raises :class:`Forbidden`."""
        if not self._plugins.validating:
            return ()
        return self._plugins.checked(self._write_request(operation, resource, new, old, namespace))

    def _store_charges(self, charges: Iterable[TypedObject]) -> None:
        for obj in charges:
            self._put(Place(resource_of(obj), StoreKey(obj.metadata.namespace, obj.metadata.name)), obj)

    def _update_status(self, obj: ObjectT, request: AccessRequest) -> ObjectT:
        resource, stored = self._based_on(obj)
        self._restrict("UPDATE", resource, obj, stored, "status")
        new = strategies.for_status_update(self._defaulted(resource, obj), stored, self._admission.permitted_status)
        namespace = self._namespace(stored.metadata.namespace)
        granular = granular_faults(request, new, stored, self._decide) if self._granular_status else ()
        causes = (
            *admin_access_on_status(new, stored, namespace),
            *granular,
            *self._admission.on_status_update(new, stored),
        )
        return self._replace(resource, stored, new, causes)

    def _based_on(self, obj: ObjectT) -> tuple[ApiResource, ObjectT]:
        """The stored object that ``obj`` replaces, if ``obj`` is based on it as it is now."""
        resource, meta = resource_of(obj), obj.metadata
        refusals.check_size(obj)
        stored = self._found(resource, meta.name, meta.namespace)
        if meta.uid and meta.uid != stored.metadata.uid:
            raise refusals.uid_differs(resource, stored.metadata.namespace, meta.name, meta.uid, stored.metadata.uid)
        version = "" if meta.resource_version == "0" else meta.resource_version
        if not version and not resource.unconditional_update:
            raise refusals.version_required(resource, meta.name)
        if version and not refusals.is_version(version):
            raise refusals.unreadable_version(version)
        if version and version != stored.metadata.resource_version:
            raise refusals.conflict(resource, meta.name)
        return resource, cast("ObjectT", stored)

    def _replace(self, resource: ApiResource, stored: ObjectT, new: ObjectT, causes: Sequence[StatusCause]) -> ObjectT:
        if causes:
            raise refusals.invalid(resource.group_kind, stored.metadata.name, causes)
        if strategies.unchanged(resource, new, stored):
            return stored
        place = Place(resource, StoreKey(stored.metadata.namespace, stored.metadata.name))
        if strategies.finalized(new.metadata, stored.metadata) and not self._has_content(place):
            self._remove(place)
        else:
            new = self._put(place, new)
        self._settle()
        return new

    def _put(self, place: Place, obj: ObjectT) -> ObjectT:
        stored = cast("ObjectT", self._store.put(place, obj))
        if stored.metadata.owner_references:
            self._unsettled.append(place)
        return stored

    def _delete(self, place: Place, grace_seconds: int | None = None) -> None:
        """Remove, or mark while finalizers (of a namespace: its content; of a pod: its kubelet) remain."""
        obj = self._store.at(place)
        if obj is None:
            return
        if isinstance(obj, Pod) and self._graceful_deletion:
            outcome = pods.deletion(obj, grace_seconds, self._now())
            if outcome.marked is not None:
                self._put(place, outcome.marked)
            if outcome.removed:
                self._remove(place)
            return
        if not obj.metadata.finalizers and not self._has_content(place):
            self._remove(place)
            return
        if obj.metadata.deletion_timestamp is None:
            self._put(place, strategies.marked_for_deletion(obj, self._now()))
        if place.resource == NAMESPACE:
            for content in self._store.content_of(place.key.name):
                self._delete(content)

    def _remove(self, place: Place) -> None:
        obj = self._store.at(place)
        self._store.remove(place)
        if obj is not None:
            self._unsettled.extend(self._store.dependents_of(obj.metadata.uid))
        if place.key.namespace:
            self._unsettled.append(Place(NAMESPACE, StoreKey("", place.key.namespace)))

    def _settle(self) -> None:
        """Do what a control plane's controllers would: collect garbage, finish the deletion of emptied namespaces."""
        while self._unsettled:
            place = self._unsettled.popleft()
            obj = self._store.at(place)
            if obj is None:
                continue
            if place.resource == NAMESPACE and obj.metadata.deletion_timestamp is not None:
                self._delete(place)
                continue
            owners = obj.metadata.owner_references
            left = tuple(owner for owner in owners if self._is_there(owner, obj.metadata))
            if left and left != owners:
                self._put(place, obj.with_(metadata=obj.metadata.with_(owner_references=left)))
            elif owners and not left and obj.metadata.deletion_timestamp is None:
                self._delete(place)

    def _is_there(self, owner: OwnerReference, dependent: ObjectMeta) -> bool:
        """Whether the garbage collector finds an owner: one of this kind, name and UID, and for a namespaced dependent
        not in another namespace. A cluster-scoped dependent of a namespaced owner is never collected."""
        if not dependent.namespace and is_namespaced(owner.api_version, owner.kind):
            return True  # can't be resolved
        place = self._store.place_of(owner.uid)
        if place is None:
            return owner.uid in self._foreign_owners
        named = (owner.api_version.rpartition("/")[0], owner.kind, owner.name)
        same = (place.resource.group, place.resource.kind, place.key.name) == named
        return same and place.key.namespace in ("", dependent.namespace)

    # --- reading --------------------------------------------------------------------------------------------------

    def _found(self, resource: ApiResource, name: str, namespace: str) -> TypedObject:
        obj = self._store.at(
            Place(resource, StoreKey((namespace or DEFAULT_NAMESPACE) if resource.namespaced else "", name))
        )
        if obj is None:
            raise refusals.not_found(resource, name)
        return obj

    def _namespace(self, name: str) -> Namespace | None:
        stored = self._store.at(Place(NAMESPACE, StoreKey("", name))) if name else None
        return stored if isinstance(stored, Namespace) else None

    def _has_content(self, place: Place) -> bool:
        return place.resource == NAMESPACE and not self._store.is_empty(place.key.name)

    def _check_namespace(self, resource: ApiResource, namespace: str, name: str) -> None:
        """Raises :class:`ApiError` if nothing may be created in the namespace."""
        stored = self._namespace(namespace)
        if stored is None:
            if namespace and self._namespaces_must_exist and namespace != DEFAULT_NAMESPACE:
                raise refusals.not_found(NAMESPACE, namespace)
        elif stored.metadata.deletion_timestamp is not None:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise refusals.forbidden(resource, name, why)

    # --- filling in -----------------------------------------------------------------------------------------------

    def _now(self) -> str:
        return format_time(self._clock())

    def _defaulted(self, resource: ApiResource, obj: ObjectT) -> ObjectT:
        """The object with defaults, in the one apiVersion that is stored."""
        if (obj.api_version, obj.kind) != (resource.api_version, resource.kind):
            obj = obj.with_(api_version=resource.api_version, kind=resource.kind)
        return cast("ObjectT", self._admission.defaulted(obj, self._now()))

    def _new_place(self, resource: ApiResource, namespace: str, meta: ObjectMeta) -> Place:
        """The place of a new object: of its name, or of a generated one that is free unless all attempts collide."""
        if meta.name or not meta.generate_name:
            return Place(resource, StoreKey(namespace, meta.name))
        for _ in range(generated_names.ATTEMPTS):
            place = Place(
                resource, StoreKey(namespace, generated_names.generated(meta.generate_name, self._suffixes()))
            )
            if self._store.at(place) is None:
                break
        return place

    def _new_metadata(self, place: Place, meta: ObjectMeta) -> ObjectMeta:
        meta = meta.without(
            "self_link", "deletion_timestamp", "deletion_grace_period_seconds", "generation", "resource_version",
            "namespace",
        )  # fmt: skip
        scope = {"namespace": place.key.namespace} if place.key.namespace else {}
        counted = {"generation": 1} if place.resource.counts_generation else {}
        return meta.with_(name=place.key.name, uid=self._uids(), creation_timestamp=self._now(), **scope, **counted)

    def _filled_metadata(self, place: Place, meta: ObjectMeta, now: str) -> ObjectMeta:
        """The metadata with its gaps filled; a resourceVersion that can't be compared with ours is replaced."""
        missing: dict[str, object] = {}
        if not meta.uid:
            missing["uid"] = self._uids()
        if not meta.creation_timestamp:
            missing["creation_timestamp"] = now
        if meta.generation is None and place.resource.counts_generation:
            missing["generation"] = 1
        if meta.name != place.key.name:
            missing["name"] = place.key.name
        if place.key.namespace and meta.namespace != place.key.namespace:
            missing["namespace"] = place.key.namespace
        if meta.resource_version and not refusals.is_version(meta.resource_version):
            missing["resource_version"] = ""
        filled = meta.with_(**missing) if missing else meta
        return filled if place.key.namespace else filled.without("namespace")
