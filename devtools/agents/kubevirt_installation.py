"""KubeVirt's kinds, webhooks and KubeVirt object on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from devtools.agents.kubevirt_admission import KubeVirtAdmission
from devtools.agents.kubevirt_crds import definitions
from devtools.agents.kubevirt_webhooks import MUTATING, VALIDATING, served
from devtools.agents.worlds import UNLIMITED
from devtools.cluster.control_plane import ControlPlane, RequestError
from devtools.cluster.credentials import ADMINS
from virt_dra.api.kubevirt_v1 import KubeVirt, PermittedHostDevices
from virt_dra.api.kubevirt_versions import Gates
from virt_dra.api.wire import Json
from virt_dra.cluster.kube.cluster import connect
from virt_dra.cluster.port import Cluster

NAMESPACE: Final = "kubevirt"


def kubevirt_object(gates: Gates, permitted_host_devices: PermittedHostDevices | None = None) -> KubeVirt:
    """The KubeVirt object that says which version runs and which gates are on."""
    configuration: Json = {"developerConfiguration": {"featureGates": sorted(gates.on)}}
    if permitted_host_devices is not None:
        configuration["permittedHostDevices"] = permitted_host_devices.to_wire()
    return KubeVirt.from_wire({
        "metadata": {"name": "kubevirt", "namespace": NAMESPACE},
        "spec": {"configuration": configuration},
        "status": {"phase": "Deployed", "observedKubeVirtVersion": f"v{gates.version}"},
    })  # fmt: skip


@asynccontextmanager
async def kubevirt_installed(
    control_plane: ControlPlane,
    gates: Gates,
    permitted_host_devices: PermittedHostDevices | None = None,
    *,
    stays: bool = False,
) -> AsyncIterator[Cluster]:
    """KubeVirt's kinds, webhooks and KubeVirt object on a real API server, while the body runs; the cluster as
    KubeVirt's controller sees it, which is what a :class:`FakeKubeVirt` takes. One at a time. VMs and VMIs that are
    left go with their kinds. ``stays``: leave all of it there, as where the API server itself ends."""
    admission = KubeVirtAdmission(gates, NAMESPACE)
    kubeconfig = control_plane.kubeconfig_of_user(admission.account(), (ADMINS,))
    async with served(admission) as webhooks:
        try:
            await asyncio.to_thread(
                _install, control_plane, gates, webhooks, kubevirt_object(gates, permitted_host_devices)
            )
            async with connect(str(kubeconfig), limits=UNLIMITED) as cluster:
                yield cluster
        finally:
            if not stays:
                await asyncio.to_thread(_remove, control_plane)


_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_WEBHOOKS: Final = (f"{_ADMISSION}/mutatingwebhookconfigurations", f"{_ADMISSION}/validatingwebhookconfigurations")
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KUBEVIRTS: Final = f"/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/kubevirts"
_MERGE: Final = "application/merge-patch+json"


def _install(control_plane: ControlPlane, gates: Gates, webhooks: tuple[Json, Json], kubevirt: KubeVirt) -> None:
    _remove(control_plane)  # what a test that was killed may have left
    _tolerating(409, control_plane, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for definition in definitions(gates.version):
        control_plane.request("POST", _CRDS, definition)
    for definition in definitions(gates.version):
        control_plane.wait_until_established(definition["metadata"]["name"])
    control_plane.restart_controllers()  # so that VMIs go with their VMs soon
    wire = kubevirt.to_wire()
    control_plane.request("POST", _KUBEVIRTS, wire)
    control_plane.merge(f"{_KUBEVIRTS}/kubevirt/status", {"status": wire["status"]})
    for path, configuration in zip(_WEBHOOKS, webhooks, strict=True):
        control_plane.request("POST", path, configuration)


def _remove(control_plane: ControlPlane) -> None:
    """Webhooks first, since their server has stopped; then the kinds, and with them their objects, whatever their
    finalizers."""
    for path, name in zip(_WEBHOOKS, (MUTATING, VALIDATING), strict=True):
        _tolerating(404, control_plane, "DELETE", f"{path}/{name}")
    plurals = ("virtualmachines", "virtualmachineinstances", "kubevirts")
    for plural in plurals:  # before their kinds, which would look for them only now and then
        for item in (_tolerating(404, control_plane, "GET", f"/apis/kubevirt.io/v1/{plural}") or {}).get("items", ()):
            metadata = item["metadata"]
            item_path = f"/apis/kubevirt.io/v1/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"
            _tolerating(404, control_plane, "PATCH", item_path, {"metadata": {"finalizers": None}}, _MERGE)
            _tolerating(404, control_plane, "DELETE", item_path)
    for plural in plurals:
        _tolerating(404, control_plane, "DELETE", f"{_CRDS}/{plural}.kubevirt.io")
    for plural in plurals:
        control_plane.wait_until_gone(f"{_CRDS}/{plural}.kubevirt.io")


def _tolerating(status: int, control_plane: ControlPlane, *request: object) -> Json | None:
    try:
        return control_plane.request(*request)  # type: ignore[arg-type]  # its own parameters, passed on
    except RequestError as error:
        if error.status != status:
            raise
        return None
