"""What is on a cluster before an installation, and whether one may go there. Gathering is thin; :func:`refusals` is pure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from virt_dra.api.integration.paths import PART_OF, PART_OF_LABEL
from virt_dra.api.wire import Json
from virt_dra.cluster.port import NotFound
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE, Choices, ObjectKey, is_ours

if TYPE_CHECKING:
    from virt_dra.cluster.kube.raw import Propagation

OURS: Final = f"{PART_OF_LABEL}={PART_OF}"
CRD: Final = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
KUBEVIRTS: Final = "kubevirts.kubevirt.io"
VMS: Final = ("virtualmachines.kubevirt.io", "virtualmachineinstances.kubevirt.io")


class Objects(Protocol):
    """What installing asks of a cluster: a part of :class:`virt_dra.cluster.kube.cluster.KubeCluster`."""

    async def apply(self, raw: Mapping[str, Any], *, field_manager: str, force: bool = False, dry_run: bool = False) -> Json: ...
    async def get_raw(self, api_version: str, kind: str, name: str, namespace: str = "") -> Json: ...
    async def list_raw(
        self, api_version: str, kind: str, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> tuple[Json, ...]: ...
    async def patch_raw(
        self, api_version: str, kind: str, name: str, namespace: str = "", *, merge: Mapping[str, Any] | None = None,
        operations: Sequence[Mapping[str, Any]] | None = None, strategic: Mapping[str, Any] | None = None,
        subresource: str = "", dry_run: bool = False,
    ) -> Json: ...  # fmt: skip
    async def delete_raw(
        self, api_version: str, kind: str, name: str, namespace: str = "", *,
        uid: str = "", propagation: Propagation = "Background", dry_run: bool = False,
    ) -> None: ...  # fmt: skip
    async def api_versions(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Survey:
    """``there``: of the objects to be applied, those that are there already. ``definitions``: KubeVirt's CRDs, by name.
    ``deployments``: with our label, in any namespace."""

    api_versions: frozenset[str]
    definitions: Mapping[str, Json]
    deployments: tuple[Json, ...]
    there: Mapping[ObjectKey, Json]


async def found(cluster: Objects, api_version: str, kind: str, name: str, namespace: str = "") -> Json | None:
    """None where there is no such object, or no such kind."""
    try:
        return await cluster.get_raw(api_version, kind, name, namespace)
    except NotFound:
        return None


async def survey(cluster: Objects, wanted: Iterable[Json]) -> Survey:
    """Ask for everything that :func:`refusals` judges. Raises the port's exceptions."""
    names = (KUBEVIRTS, *VMS)
    versions = await cluster.api_versions()
    deployments = await cluster.list_raw("apps/v1", "Deployment", labels=OURS)
    definitions = [await found(cluster, *CRD, name) for name in names]
    wanted = tuple(wanted)
    objects = await asyncio.gather(*(_there(cluster, obj) for obj in wanted))
    return Survey(
        frozenset(versions),
        {name: crd for name, crd in zip(names, definitions, strict=True) if crd is not None},
        deployments,
        {ObjectKey.of(obj): there for obj, there in zip(wanted, objects, strict=True) if there is not None},
    )


async def _there(cluster: Objects, obj: Json) -> Json | None:
    metadata = obj["metadata"]
    return await found(cluster, obj["apiVersion"], obj["kind"], metadata["name"], metadata.get("namespace", ""))


def refusals(seen: Survey, choices: Choices) -> tuple[str, ...]:
    """Why the installation must not go there; each says what to do instead. Empty where it may."""
    return (*_wrong_cluster(seen, choices), *_wrong_place(seen, choices))


def _wrong_cluster(seen: Survey, choices: Choices) -> Iterable[str]:
    if "resource.k8s.io/v1" not in seen.api_versions:
        yield "the cluster doesn't serve resource.k8s.io/v1: virt-dra needs Kubernetes 1.34 or newer"
    if choices.cert_manager and "cert-manager.io/v1" not in seen.api_versions:
        yield "the cluster doesn't serve cert-manager.io/v1: install cert-manager, or leave out --cert-manager"
    foreign = sorted(name for name, crd in seen.definitions.items() if not is_ours(crd))
    own = sorted(name for name, crd in seen.definitions.items() if is_ours(crd))
    if choices.overlay == STANDALONE and foreign:
        yield (
            f"KubeVirt is on this cluster ({', '.join(foreign)}), and the overlay standalone would replace its definitions: "
            f"use --overlay {BESIDE_KUBEVIRT}"
        )
    if choices.overlay == BESIDE_KUBEVIRT and KUBEVIRTS not in seen.definitions:
        standalone = "virt-dra's own VirtualMachines are (remove them with: virt-dra uninstall --delete-vms)" if own else ""
        yield (
            f"KubeVirt is not on this cluster (there is no {KUBEVIRTS}){', but ' if standalone else ''}{standalone}: "
            f"install KubeVirt first, or use --overlay {STANDALONE}"
        )
    elif choices.overlay == BESIDE_KUBEVIRT and own:
        yield f"{', '.join(own)} are virt-dra's own (overlay standalone), not KubeVirt's: remove them with: virt-dra uninstall --delete-vms"


def _wrong_place(seen: Survey, choices: Choices) -> Iterable[str]:
    elsewhere = sorted({deployment["metadata"]["namespace"] for deployment in seen.deployments} - {choices.namespace})
    if elsewhere:
        yield (
            f"virt-dra is installed in the namespace {', '.join(elsewhere)}, and there can be one in a cluster: "
            f"use --namespace {elsewhere[0]}, or remove it there first with: virt-dra uninstall"
        )
    for key, obj in seen.there.items():
        if key.kind != "Namespace" and not is_ours(obj) and not (elsewhere and not key.namespace):
            yield f"{key} is there and isn't virt-dra's (it lacks the label {OURS}): rename or remove it"


def keeps_namespace(seen: Survey, choices: Choices) -> bool:
    """Whether the namespace is somebody else's: then it is used as it is, and stays when virt-dra is removed."""
    there = seen.there.get(ObjectKey("Namespace", "", choices.namespace))
    return there is not None and not is_ours(there)
