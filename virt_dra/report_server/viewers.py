"""Who asks, and what they must be allowed: reviews of tokens and of rights, as values. Pure.

TokenReview and SubjectAccessReview are the API server's own: users that it authenticates are viewers, and may see the
page if they may list everything that it shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from virt_dra.api.meta import TypedObject
from virt_dra.api.wire import Json
from virt_dra.cluster.kinds import ApiResource, resource_of

MOST_TOKEN: Final = 16 * 1024
"""Characters of a token that is reviewed. The largest in use, of OpenID providers with many groups, have some
thousands."""


@dataclass(frozen=True)
class Viewer:
    """A user as the API server knows it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] | None = None


class Reviews(Protocol):
    """The questions to the API server. Both raise :class:`virt_dra.cluster.port.ApiError` where it doesn't answer."""

    async def authenticated(self, token: str) -> Viewer | None:
        """The user of a token; None for an invalid one."""

    async def may_list(self, viewer: Viewer, resource: ApiResource) -> bool:
        """Whether the viewer may list the resource in all namespaces."""


def resources_of(kinds: Iterable[type[TypedObject]]) -> tuple[ApiResource, ...]:
    """What a viewer must be allowed to list, for a page that shows objects of these kinds."""
    return tuple(sorted(set(map(resource_of, kinds)), key=lambda resource: (resource.group, resource.plural)))


def is_token(text: str) -> bool:
    """Whether the text can be a token at all: another one isn't worth a review."""
    return 0 < len(text) <= MOST_TOKEN and text.isascii() and text.isprintable() and " " not in text


def token_review(token: str) -> Json:
    """The TokenReview that asks about a token, for the API server's own audiences."""
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}


def viewer_of(answer: Mapping[str, Any]) -> Viewer | None:
    """The viewer that an answered TokenReview names; None if the token is invalid."""
    status = _mapping(answer.get("status"))
    user = _mapping(status.get("user"))
    name = user.get("username")
    if status.get("authenticated") is not True or status.get("error") or not isinstance(name, str) or not name:
        return None
    extra = {str(key): _texts(values) for key, values in _mapping(user.get("extra")).items()}
    return Viewer(name, str(user.get("uid") or ""), _texts(user.get("groups")), extra)


def access_review(viewer: Viewer, resource: ApiResource) -> Json:
    """The SubjectAccessReview that asks whether the viewer may list the resource in all namespaces."""
    spec: Json = {
        "user": viewer.name,
        "resourceAttributes": {"verb": "list", "group": resource.group, "resource": resource.plural},
    }
    if viewer.uid:
        spec["uid"] = viewer.uid
    if viewer.groups:
        spec["groups"] = list(viewer.groups)
    if viewer.extra:
        spec["extra"] = {key: list(values) for key, values in viewer.extra.items()}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def is_allowed(answer: Mapping[str, Any]) -> bool:
    """What an answered SubjectAccessReview says. An authorizer's error doesn't count: another one may have allowed
    it."""
    status = _mapping(answer.get("status"))
    return status.get("allowed") is True and status.get("denied") is not True


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
