"""The request that an authorizer decides about, and the refusal of one that no authorizer allows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from virt_dra.api.go_text import quoted
from virt_dra.cluster.kinds import NAMESPACE, ApiResource
from virt_dra.cluster.port import Forbidden
from virt_dra.cluster.requester import Requester


@dataclass(frozen=True)
class AccessRequest:
    """``name`` is empty for a collection, ``namespace`` for the whole cluster; ``fields``: a field selector."""

    requester: Requester
    verb: str
    resource: ApiResource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    fields: str = ""

    @classmethod
    def from_path(
        cls,
        requester: Requester,
        verb: str,
        resource: ApiResource,
        namespace: str,
        name: str,
        subresource: str = "",
        fields: str = "",
    ) -> AccessRequest:
        """The request as an API server reads it from a path, in which a namespace is its own namespace."""
        within = name if resource == NAMESPACE else namespace if resource.namespaced else ""
        return cls(requester, verb, resource, within, name, subresource, fields)

    def about(self, verb: str, namespace: str, name: str, subresource: str) -> AccessRequest:
        """Another question about the same request."""
        return replace(self, verb=verb, namespace=namespace, name=name, subresource=subresource, fields="")

    @property
    def path(self) -> str:
        """``resourceclaims/status``."""
        return f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural


@dataclass(frozen=True)
class Decision:
    """Whether a request is allowed; if it isn't, ``reason`` may say why."""

    allowed: bool
    reason: str = ""


def forbidden(request: AccessRequest, reason: str) -> Forbidden:
    """The API server's words, in which no text of a user looks like HTML."""
    user, group = quoted(request.requester.name), quoted(request.resource.group)
    where = f"in the namespace {quoted(request.namespace)}" if request.namespace else "at the cluster scope"
    said = f"User {user} cannot {request.verb} resource {quoted(request.path)} in API group {group} {where}"
    safe = said.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    subject = f"{request.resource} {quoted(request.name)}" if request.name else str(request.resource)
    return Forbidden(f"{subject} is forbidden: {safe}: {reason}" if reason else f"{subject} is forbidden: {safe}")
