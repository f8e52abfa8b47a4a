"""Reads from a cluster what :mod:`virt_dra.installation.refusals` needs to decide whether virt-dra can be installed
there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from virt_dra.api.integration.paths import PART_OF, PART_OF_LABEL
from virt_dra.api.wire import Json
from virt_dra.cluster.port import NotFound
from virt_dra.installation.plan import ObjectKey

OURS: Final = f"{PART_OF_LABEL}={PART_OF}"
CRD: Final = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
KUBEVIRTS: Final = "kubevirts.kubevirt.io"
VMIS: Final = "virtualmachineinstances.kubevirt.io"
VMS: Final = ("virtualmachines.kubevirt.io", VMIS)


class Objects(Protocol):
    """The requests to a cluster that installing needs: a part of :class:`virt_dra.cluster.kube.cluster.KubeCluster`."""

    async def apply(self, raw: Mapping[str, Any], *, field_manager: str, force: bool = False) -> Json: ...
    async def get_raw(self, api_version: str, kind: str, name: str, namespace: str = "") -> Json: ...
    async def list_raw(
        self, api_version: str, kind: str, namespace: str = "", *, labels: str = ""
    ) -> tuple[Json, ...]: ...
    async def patch_raw(
        self, api_version: str, kind: str, name: str, namespace: str = "", *, merge: Mapping[str, Any]
    ) -> Json: ...
    async def delete_raw(self, api_version: str, kind: str, name: str, namespace: str = "") -> None: ...
    async def api_versions(self) -> tuple[str, ...]: ...
    async def server_version(self) -> Json: ...


@dataclass(frozen=True)
class Survey:
    """The state of a cluster before an installation. ``there``: existing objects among those to be applied.
    ``crds``: KubeVirt's CRDs, by name. ``deployments``: those with our label, in any namespace."""

    api_versions: frozenset[str]
    crds: Mapping[str, Json]
    deployments: tuple[Json, ...]
    there: Mapping[ObjectKey, Json]
    version: str = ""
    """Of the API server, such as v1.37.1."""


async def get_or_none(cluster: Objects, api_version: str, kind: str, name: str, namespace: str = "") -> Json | None:
    """The object; None if it, or its kind, doesn't exist."""
    try:
        return await cluster.get_raw(api_version, kind, name, namespace)
    except NotFound:
        return None


async def list_or_none(cluster: Objects, api_version: str, kind: str) -> tuple[Json, ...]:
    """The objects of a kind; none if the kind isn't served."""
    try:
        return await cluster.list_raw(api_version, kind)
    except NotFound:
        return ()


async def survey(cluster: Objects, wanted: Iterable[Json]) -> Survey:
    """The state of the cluster. ``wanted``: the objects to be applied. Raises the port's exceptions."""
    names = (KUBEVIRTS, *VMS)
    versions = await cluster.api_versions()
    deployments = await cluster.list_raw("apps/v1", "Deployment", labels=OURS)
    crds = [await get_or_none(cluster, *CRD, name) for name in names]
    wanted = tuple(wanted)
    objects = await asyncio.gather(*(there(cluster, obj) for obj in wanted))
    return Survey(
        frozenset(versions),
        {name: crd for name, crd in zip(names, crds, strict=True) if crd is not None},
        deployments,
        {ObjectKey.from_object(obj): own for obj, own in zip(wanted, objects, strict=True) if own is not None},
        str((await cluster.server_version()).get("gitVersion", "")),
    )


async def there(cluster: Objects, obj: Json) -> Json | None:
    """The cluster's object of this name; None if there is none."""
    metadata = obj["metadata"]
    return await get_or_none(cluster, obj["apiVersion"], obj["kind"], metadata["name"], metadata.get("namespace", ""))
