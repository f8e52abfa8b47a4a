"""What virt-dra-certificates writes (two Secrets, the configurations' trust) is answered wrongly: it is written all the
same."""

from __future__ import annotations

import asyncio
import base64
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from devtools.cluster.control_plane import ControlPlane
from devtools.faults.answers import FAULTS, Fault, answering, each_once
from devtools.faults.writes import behind
from virt_dra.api.meta import UnknownObject
from virt_dra.cluster.kube.cluster import connect
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.installation.webhook_authority import CONFIGURATIONS, StoredAuthority
from webhooks.tls.authority import Bundle
from webhooks.tls.secret import files_of

pytestmark = pytest.mark.control_plane

LIMITS = ClientLimits(qps=0, timeout=5, patience=10)


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_certificate_is_made_and_trusted(control_plane: ControlPlane, namespace: str, fault: Fault) -> None:
    account = control_plane.kubeconfig_of_service_account(namespace, "webhook")
    binding = f"certificates-{namespace}"
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    with ExitStack() as stack:
        control_plane.request("POST", bindings, {
            "metadata": {"name": binding},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "webhook", "namespace": namespace}],
        })  # fmt: skip
        stack.callback(control_plane.request, "DELETE", f"{bindings}/{binding}")
        await _settles(control_plane, account, namespace, fault, stack)


async def _settles(plane: ControlPlane, account: Path, namespace: str, fault: Fault, stack: ExitStack) -> None:
    kind = CONFIGURATIONS[0]
    async with answering(plane) as state, connect(str(behind(account, state.url)), limits=LIMITS) as cluster:
        state.late = 6.0
        client = {"url": "https://localhost:1/", "caBundle": ""}
        hook = {
            "name": "a.example.com",
            "clientConfig": client,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        raw = {"apiVersion": kind.API_VERSION, "kind": kind.KIND, "metadata": {"name": namespace}, "webhooks": [hook]}
        await cluster.create(UnknownObject.from_wire(raw))
        path = f"/apis/admissionregistration.k8s.io/v1/{kind.KIND.lower()}s/{namespace}"
        stack.callback(plane.request, "DELETE", path)
        state.choose = each_once((fault,), 1, 2)
        authority = StoredAuthority(
            cluster, "authority", "tls", namespace, ("localhost",), namespace, lambda: datetime.now(UTC)
        )
        task = asyncio.create_task(authority.keep(0.2))
        try:
            async with asyncio.timeout(120):
                while not await _trusted(plane, path, namespace):
                    assert not task.done()
                    await asyncio.sleep(0.1)
        finally:
            task.cancel()
            await asyncio.wait({task})
        assert any(request.fault == fault for request in state.asked)
        assert len(state.asked) <= 20


async def _trusted(plane: ControlPlane, path: str, namespace: str) -> bool:
    """Whether both Secrets are of one authority, and the configuration trusts it."""
    listed = await asyncio.to_thread(plane.request, "GET", f"/api/v1/namespaces/{namespace}/secrets")
    stored = {item["metadata"]["name"]: files_of(item) for item in listed["items"]}
    if not {"authority", "tls"} <= stored.keys():
        return False
    bundle = Bundle.from_files(stored["authority"] | stored["tls"])
    configuration = await asyncio.to_thread(plane.request, "GET", path)
    trusted = base64.b64decode(configuration["webhooks"][0]["clientConfig"].get("caBundle", ""))
    return trusted == stored["tls"]["ca.crt"] == bundle.ca_bundle
