"""metav1: object metadata, references between objects, conditions, label selectors, time.

Times stay text on the wire types (lossless); :func:`parse_time` and :func:`format_time` convert.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, ClassVar, Self, TypeVar

from virt_dra.api.wire import EMPTY_MAP, Bool, Int, Json, List, Map, Object, Str, Wire


class OwnerReference(Wire):
    api_version: Str = ""
    kind: Str = ""
    name: Str = ""
    uid: Str = ""
    controller: Bool | None = None
    block_owner_deletion: Bool | None = None


class ManagedFieldsEntry(Wire):
    """An entry of field ownership. Kept as given: nothing here computes ownership."""

    manager: Str = ""
    operation: Str = ""
    api_version: Str = ""
    time: Str | None = None
    fields_type: Str = ""
    fields_v1: Json | None = None
    subresource: Str = ""


class ObjectMeta(Wire):
    name: Str = ""
    generate_name: Str = ""
    namespace: Str = ""
    self_link: Str = ""
    uid: Str = ""
    resource_version: Str = ""
    generation: Int | None = None
    creation_timestamp: Str | None = None
    deletion_timestamp: Str | None = None
    deletion_grace_period_seconds: Int | None = None
    labels: Map[Str] = EMPTY_MAP
    annotations: Map[Str] = EMPTY_MAP
    owner_references: List[OwnerReference] = ()
    finalizers: List[Str] = ()
    managed_fields: List[ManagedFieldsEntry] = ()

    @property
    def controller_owner(self) -> OwnerReference | None:
        """The owner that manages this object, if any (C-3.2)."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Condition(Wire):
    type: Str = ""
    status: Str = ""
    observed_generation: Int | None = None
    last_transition_time: Str | None = None
    reason: Str = ""
    message: Str = ""


class TypedObject(Object):
    """An object with metadata; the base of every kind we know. A class that doesn't say otherwise is called as its
    kind, and its resource as apimachinery guesses it."""

    metadata: ObjectMeta = ObjectMeta.empty()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "KIND" not in vars(cls):
            cls.KIND = cls.__name__
        if "PLURAL" not in vars(cls):
            cls.PLURAL = _plural(cls.KIND)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def key(self) -> str:
        """``namespace/name``, or ``name`` for cluster-scoped objects."""
        return f"{self.metadata.namespace}/{self.metadata.name}" if self.metadata.namespace else self.metadata.name

    def is_controlled_by(self, other: "TypedObject") -> bool:
        """True if that object is its controlling owner, by UID."""
        owner = self.metadata.controller_owner
        return owner is not None and bool(owner.uid) and owner.uid == other.metadata.uid

    def with_finalizer(self, finalizer: str) -> Self:
        """The object with one more finalizer."""
        return self.with_(metadata=self.metadata.with_(finalizers=(*self.metadata.finalizers, finalizer)))

    def without_finalizer(self, finalizer: str) -> Self:
        left = tuple(name for name in self.metadata.finalizers if name != finalizer)
        return self.with_(metadata=self.metadata.with_(finalizers=left))


def _plural(kind: str) -> str:
    word = kind.lower()
    if word == "endpoints" or word.endswith("parameters"):  # as Kubernetes calls them
        return word
    if word.endswith("s"):
        return f"{word}es"
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


ObjectT = TypeVar("ObjectT", bound=TypedObject)
ObjectT_co = TypeVar("ObjectT_co", bound=TypedObject, covariant=True)


def of_kind(objects: Iterable[TypedObject], kind: type[ObjectT]) -> list[ObjectT]:
    """The objects of one kind, in their order."""
    return [obj for obj in objects if isinstance(obj, kind)]


class UnknownObject(TypedObject):
    """An object of a kind we have no type for. It is kept whole."""

    KIND: ClassVar[str] = ""
    PLURAL: ClassVar[str] = ""


def controller_reference(owner: TypedObject, *, blocks_deletion: bool | None = None) -> OwnerReference:
    """The reference that an object has to the owner which manages it. ``blocks_deletion``: None for no value."""
    reference = OwnerReference(
        api_version=owner.API_VERSION, kind=owner.KIND, name=owner.name, uid=owner.metadata.uid, controller=True
    )
    return reference if blocks_deletion is None else reference.with_(block_owner_deletion=blocks_deletion)


def parse_time(text: str) -> datetime:
    """RFC 3339 -> aware datetime in UTC. Raises ValueError, also for a time outside of the years 1 to 9999 in UTC."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is out of range") from None


def format_time(moment: datetime) -> str:
    """Aware datetime -> RFC 3339 in UTC with whole seconds, as metav1.Time writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
