"""The ports: what a controller may ask of a cluster. ``memory`` and ``kube`` implement them; one contract suite holds
both.

Objects are the immutable types of :mod:`virt_dra.api`; kinds without a type of ours are named by
:func:`virt_dra.api.reading.unknown_kinds.unknown_kind`. An empty namespace means ``default`` for one object of a
namespaced kind, and all namespaces for lists and watches; for cluster-scoped kinds a namespace is ignored. Errors are
the API server's: ``status`` is its HTTP code, ``reason`` its machine-readable word.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, runtime_checkable

from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import ObjectT


class ApiError(Exception):
    """A request that the cluster refused. ``str(error)`` is the API server's message."""

    status: int = 500
    reason: str = ""
    retry_after: float | None = None
    """Seconds to wait before trying again, if the cluster said so."""


class NotFound(ApiError):
    status = 404
    reason = "NotFound"


class AlreadyExists(ApiError):
    status = 409
    reason = "AlreadyExists"


class Conflict(ApiError):
    """The object changed since it was read (resourceVersion or uid precondition)."""

    status = 409
    reason = "Conflict"


class Gone(ApiError):
    """The resourceVersion to watch from is too old; list again."""

    status = 410
    reason = "Expired"


class BadRequest(ApiError):
    status = 400
    reason = "BadRequest"


class TooLarge(ApiError):
    status = 413
    reason = "RequestEntityTooLarge"


class Forbidden(ApiError):
    status = 403
    reason = "Forbidden"


class Unauthorized(ApiError):
    """The credentials are unknown or no longer valid."""

    status = 401
    reason = "Unauthorized"


class TooManyRequests(ApiError):
    status = 429
    reason = "TooManyRequests"


class Unavailable(ApiError):
    """No usable answer: the server can't be reached, is starting or overloaded. A write may have taken effect."""

    status = 503
    reason = "ServiceUnavailable"


class Unreadable(ApiError):
    """The cluster holds an object that doesn't have the shape we know, of a newer API perhaps. The text says where."""

    reason = "Unreadable"


@dataclass(frozen=True)
class StatusCause:
    """One fault of an object: where, which kind of fault, and the text without the path."""

    field: str
    reason: str
    message: str


class Invalid(ApiError):
    """The object breaks rules of its kind. ``causes`` has every fault at once."""

    status = 422
    reason = "Invalid"

    def __init__(self, message: str, causes: tuple[StatusCause, ...]) -> None:
        super().__init__(message)
        self.causes = causes


@dataclass(frozen=True)
class Listed(Generic[ObjectT]):
    """One consistent list and the resourceVersion to watch from."""

    items: tuple[ObjectT, ...]
    resource_version: str
    size: int = 0
    """Bytes of JSON that it was read from; 0 where it wasn't."""


WatchEventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


@dataclass(frozen=True)
class WatchEvent(Generic[ObjectT]):
    type: WatchEventType
    object: ObjectT
    size: int = 0
    """As of :class:`Listed`."""


class Reader(Protocol):
    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        """Raises :class:`NotFound`."""

    async def list(
        self, kind: type[ObjectT], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listed[ObjectT]:
        """All objects of a kind, of one namespace if given, filtered by label and field selectors as kubectl's."""


@runtime_checkable
class PagedReader(Protocol):
    """An optional port: a list in parts, so that the caller need not hold all of it at once."""

    def pages(
        self, kind: type[ObjectT], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Listed[ObjectT]]:
        """As :meth:`Reader.list`, of one state; each part names the version of that state. Raises :class:`Gone` when
        the state is gone before the last part: start again."""


class Writer(Protocol):
    async def create(self, obj: ObjectT) -> ObjectT:
        """Store a new object, without its status where that is a subresource. Raises :class:`AlreadyExists`,
        :class:`Invalid`, :class:`TooLarge`; :class:`NotFound` or :class:`Forbidden` if its namespace is missing or
        being deleted."""

    async def update(self, obj: ObjectT) -> ObjectT:
        """Replace all but status. With a resourceVersion in ``obj`` a concurrent change raises :class:`Conflict`;
        custom resources, DeviceTaintRules and pool requests must have one, else :class:`Invalid` (C-13.2)."""

    async def update_status(self, obj: ObjectT) -> ObjectT:
        """Replace only status. For kinds without the subresource this is :class:`NotFound`."""

    async def patch(
        self, kind: type[ObjectT], name: str, namespace: str = "", *, merge: dict[str, Any] | None = None,
        operations: Sequence[dict[str, Any]] | None = None, subresource: Literal["", "status"] = "",
    ) -> ObjectT:  # fmt: skip
        """Apply a merge patch (RFC 7396) or JSON patch operations (RFC 6902); exactly one of both, else
        :class:`BadRequest`.

        A resourceVersion or uid in a merge patch is a precondition (:class:`Conflict`). Operations that can't be
        applied, a ``test`` that fails among them, are :class:`Invalid`.
        """

    async def bind(self, pod: Pod, node: str) -> None:
        """Assign a pod to a node, once and for all; its condition ``PodScheduled`` becomes True. Of ``pod`` only
        namespace, name and UID count. Raises :class:`NotFound`, and :class:`Conflict` for another UID and for a pod
        that has a node, has scheduling gates or is being deleted."""

    async def delete(
        self, kind: type[ObjectT], name: str, namespace: str = "", *,
        uid: str = "", resource_version: str = "", grace_seconds: int | None = None,
    ) -> None:  # fmt: skip
        """Delete, or mark for deletion while finalizers remain. Preconditions that don't hold raise :class:`Conflict`.
        A pod on a node is only marked, and stays until it is deleted with ``grace_seconds`` 0, as by its kubelet;
        without ``grace_seconds`` it has the grace period of its spec. Other kinds have none."""


class Watcher(Protocol):
    def watch(
        self, kind: type[ObjectT], namespace: str = "", *, resource_version: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent[ObjectT]]:
        """Every change after ``resource_version``, in order. Raises :class:`Gone` when that is too old: list again.
        ``""`` and ``"0"`` begin with an ADDED for every object that is there. With selectors, an object that begins to
        match is ADDED and one that no longer matches DELETED."""


class Cluster(Reader, Writer, Watcher, Protocol):
    """All three ports."""
