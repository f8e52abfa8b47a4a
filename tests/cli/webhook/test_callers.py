"""Who the webhook on a real API server answers: with an authority for clients that API server only, without one
everybody a little."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.ports import free_port
from devtools.deployed.webhook import configurations, configured, kubevirt_kinds, post, until, webhook
from devtools.webhooks.serving import SPEC, launcher_pod, review, vm, vmi
from tests.cli.webhook.test_cluster import Room

pytestmark = pytest.mark.control_plane

VMI_OF = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "controller": True}


@contextmanager
def room(plane: ControlPlane, *options: str) -> Iterator[Room]:
    with kubevirt_kinds(plane):
        namespace, port = plane.create_namespace("callers-"), free_port()
        name = f"virt-dra-{namespace}"
        try:
            with (
                configured(plane, *configurations(name, namespace, port)),
                webhook(plane, namespace, *options, configuration=name, port=port) as running,
            ):
                made = Room(plane, namespace, running, port)
                plane.request("POST", made.path("kubevirts"), made.kubevirt("v1.9.0"))
                made.create_what_pods_name()
                running.wait_until_ready()
                made.takes_effect()
                yield made
        finally:
            made.delete_what_pods_name()
            plane.delete_namespace(namespace)


@pytest.fixture(scope="module")
def verifying(control_plane: ControlPlane) -> Iterator[Room]:
    with room(control_plane) as made:
        yield made


@pytest.fixture(scope="module")
def limiting(control_plane: ControlPlane) -> Iterator[Room]:
    with room(control_plane, "--unverified-callers", "limit") as made:
        yield made


def _straight(here: Room, path: str, obj: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """What somebody is answered who isn't an API server, and says that it is about the room's namespace."""
    trust = ssl.create_default_context(cadata=base64.b64decode(here.ca_bundle()).decode())
    connection = http.client.HTTPSConnection("localhost", here.port, context=trust, timeout=60)
    try:
        asked = review(obj, namespace=here.namespace)
        connection.request("POST", path, json.dumps(asked), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def _naming(template: str) -> dict[str, Any]:
    return {**SPEC, "resourceClaims": [{"name": "c", "resourceClaimTemplateName": template}]}


def _launcher(name: str, uid: str) -> dict[str, Any]:
    return launcher_pod(ownerReferences=[{**VMI_OF, "name": name, "uid": uid}])


def test_with_an_authority_for_clients_the_api_server_is_answered_and_nobody_else(verifying: Room) -> None:
    asked = f"{verifying.path('virtualmachines')}?dryRun=All"
    assert "[template-missing]" in str(post(verifying.plane, asked, vm(_naming("none"))).warnings)
    for path, obj in (("/validate-vm", vm()), ("/validate-vmi", vmi()), ("/mutate-launcher-pod", launcher_pod())):
        code, refusal = _straight(verifying, path, obj)
        assert (code, refusal["reason"]) == (401, "Unauthorized")
        assert "response" not in refusal
    metrics = verifying.running.metrics()
    assert float(metrics['virt_dra_webhook_callers_total{verified="true"}']) > 0
    assert float(metrics['virt_dra_webhook_callers_total{verified="false"}']) == 3


def test_without_one_nobody_learns_which_templates_there_are(limiting: Room) -> None:
    for path, make in (("/validate-vm", vm), ("/validate-vmi", vmi)):
        there, missing = (_straight(limiting, path, make(_naming(template))) for template in ("t", "none"))
        assert there == missing
        assert there[1]["response"]["allowed"]
    there, missing = (
        _straight(
            limiting,
            "/mutate-launcher-pod",
            launcher_pod() | {"spec": launcher_pod()["spec"] | {"resourceClaims": claims}},
        )
        for claims in ([{"name": "c", "resourceClaimTemplateName": template}] for template in ("t", "none"))
    )
    assert there == missing
    assert limiting.running.said(
        "callers are not verified, so answers depend on the review's content only; see docs/guides/callers.md"
    )


def test_without_one_vms_are_still_judged_by_what_they_carry(limiting: Room) -> None:
    answer = post(
        limiting.plane, limiting.path("virtualmachineinstances"), vmi({**SPEC, "resourceClaims": []}, name="bad")
    )
    assert answer.code == 422


def test_without_one_launcher_pods_of_vmis_get_what_they_need(limiting: Room) -> None:
    stored = post(limiting.plane, limiting.path("virtualmachineinstances"), vmi(name="good"))
    assert stored.code == 201
    uid = stored.body["metadata"]["uid"]
    # As virt-controller does: again until the webhook knows the VMI.
    made = until(
        lambda: (got := post(limiting.plane, limiting.path("pods"), _launcher("good", uid))).code == 201 and got
    )
    assert "virt-dra.io/integration" in made.body["metadata"]["annotations"]
    forged = post(limiting.plane, limiting.path("pods"), _launcher("good", "somebody-else"))
    assert forged.code in (403, 422)
    assert "is not known to this webhook yet" in forged.body["message"]
