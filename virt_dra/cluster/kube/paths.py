"""URL paths of an API server, from resources, namespaces and names. Pure."""

from __future__ import annotations

from urllib.parse import quote

from virt_dra.cluster import refusals
from virt_dra.cluster.kinds import ApiResource

DEFAULT_NAMESPACE = "default"


def group_version(api_version: str) -> str:
    """``v1`` -> ``/api/v1``; ``resource.k8s.io/v1`` -> ``/apis/resource.k8s.io/v1``."""
    root = "apis" if "/" in api_version else "api"
    return f"/{root}/{quote(api_version, safe='/.')}"


def collection(resource: ApiResource, namespace: str) -> str:
    """All objects of a kind, of one namespace if it is given and the kind has namespaces."""
    return _joined(resource.api_version, resource.plural, namespace if resource.namespaced else "")


def item(resource: ApiResource, namespace: str, name: str, subresource: str = "") -> str:
    """One object; of a namespaced kind in ``default`` if no namespace is given. Raises
    :class:`~virt_dra.cluster.port.NotFound` for names that no object can have and that would lead elsewhere."""
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise refusals.not_found(resource, name)
    path = f"{collection(resource, namespace or DEFAULT_NAMESPACE)}/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


def _joined(api_version: str, plural: str, namespace: str) -> str:
    if namespace in (".", "..") or "/" in namespace or "%" in namespace:
        namespace = "-"  # a namespace that can't exist either, but leads nowhere else
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{group_version(api_version)}{within}/{quote(plural, safe='')}"
