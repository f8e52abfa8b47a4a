"""The webhook on a real API server, as its users see it: what is refused, warned of and changed, and what an outage of
it does."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from devtools.cluster.control_plane import ControlPlane, RequestError
from devtools.cluster.ports import free_port
from devtools.deployed.webhook import (
    Webhook,
    balanced,
    certificates,
    configurations,
    configured,
    kubevirt_kinds,
    post,
    until,
    webhook,
)
from devtools.webhooks.serving import SPEC, launcher_pod, vm, vmi
from virt_dra.api.integration.paths import metadata_annotation
from virt_dra.model.kinds import READ


@pytest.fixture(scope="module")
def room(control_plane: ControlPlane) -> Iterator[Room]:
    """A namespace that one webhook, which knows KubeVirt 1.9, is asked about."""
    with kubevirt_kinds(control_plane):
        namespace = control_plane.create_namespace("webhook-")
        port = free_port()
        name = f"virt-dra-{namespace}"
        try:
            with (
                configured(control_plane, *configurations(name, namespace, port)),
                webhook(control_plane, namespace, configuration=name, port=port) as running,
            ):
                made = Room(control_plane, namespace, running, port)
                control_plane.request("POST", made.path("kubevirts"), made.kubevirt("v1.9.0"))
                made.create_what_pods_name()
                running.wait_until_ready()
                made.takes_effect()
                yield made
        finally:
            made.delete_what_pods_name()
            control_plane.delete_namespace(namespace)


class Room:
    def __init__(self, plane: ControlPlane, namespace: str, running: Webhook, port: int = 0) -> None:
        self.plane, self.namespace, self.running, self.port = plane, namespace, running, port

    def create_what_pods_name(self) -> None:
        """A class of a driver that isn't known to write metadata files, a template and claims."""
        selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
        self.plane.request("POST", _CLASSES, {"metadata": {"name": self.namespace}, "spec": {"selectors": [selector]}})
        asked = [{"name": name, "exactly": {"deviceClassName": self.namespace}} for name in ("r", LONG_REQUEST)]
        spec = {"devices": {"requests": asked}}
        self.plane.request(
            "POST", self.path("resourceclaimtemplates"), {"metadata": {"name": "t"}, "spec": {"spec": spec}}
        )
        for name in ("mine", LONG_NAME):
            self.plane.request("POST", self.path("resourceclaims"), {"metadata": {"name": name}, "spec": spec})

    def delete_what_pods_name(self) -> None:
        """Of it what is in no namespace."""
        self.plane.request("DELETE", f"{_CLASSES}/{self.namespace}")

    def ca_bundle(self) -> str:
        path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/virt-dra-{self.namespace}"
        bundle: str = self.plane.request("GET", path)["webhooks"][0]["clientConfig"]["caBundle"]
        return bundle

    def path(self, plural: str) -> str:
        group = (
            "/api/v1"
            if plural == "pods"
            else "/apis/resource.k8s.io/v1"
            if plural.startswith("resource")
            else "/apis/kubevirt.io/v1"
        )
        return f"{group}/namespaces/{self.namespace}/{plural}"

    @staticmethod
    def kubevirt(version: str) -> dict[str, Any]:
        metadata, gates = {"name": "kubevirt"}, {"featureGates": ["GPUsWithDRA", "HostDevices"]}
        spec = {"configuration": {"developerConfiguration": gates}}
        return {
            "apiVersion": "kubevirt.io/v1",
            "kind": "KubeVirt",
            "metadata": metadata,
            "spec": spec,
            "status": {"observedKubeVirtVersion": version},
        }

    def takes_effect(self) -> None:
        """The API server learns of new webhook configurations a moment later."""
        bad = vmi({**SPEC, "resourceClaims": []}, name="probe")
        until(lambda: post(self.plane, f"{self.path('virtualmachineinstances')}?dryRun=All", bad).code == 422)

    def version(self, version: str) -> None:
        """KubeVirt is another one from now on, and the webhook knows it."""
        change = {"status": {"observedKubeVirtVersion": version}}
        self.plane.merge(f"{self.path('kubevirts')}/kubevirt", change)
        number = version.removeprefix("v")
        until(lambda: any(f"KubeVirt {number} " in text or f"KubeVirt ({number})" in text for text in self._probed()))

    def _probed(self) -> list[str]:
        """Warnings that name the version, whichever it is."""
        pods = [
            launcher_pod((("c", "nothing"),), annotations={"virt-dra.io/integration-path": wish})
            for wish in ("auto", "native")
        ]
        return [text for pod in pods for text in post(self.plane, f"{self.path('pods')}?dryRun=All", pod).warnings]

    def pod(self, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod as it is stored."""
        answer = post(self.plane, self.path("pods"), pod)
        assert answer.code == 201, answer.body
        return answer.body


LONG_REQUEST, LONG_NAME = "r" * 63, ".".join(["n" * 63] * 3)
_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


@pytest.mark.control_plane
def test_a_bad_vmi_is_refused_with_kubevirts_message_and_causes(room: Room) -> None:
    devices = {"gpus": [{"name": "g", "claimName": "c"}, {"name": "h", "claimName": "d", "requestName": "r"}]}
    answer = post(room.plane, room.path("virtualmachineinstances"), vmi({**SPEC, "domain": {"devices": devices}}))
    covered = (
        "vmi.spec.resourceClaims must specify all claims used in vmi.spec.domain.devices.gpus "
        "and vmi.spec.domain.devices.hostDevices"
    )
    assert answer.code == 422
    assert (answer.body["reason"], answer.body["status"]) == ("Invalid", "Failure")
    denied = 'admission webhook "vmi.virt-dra.io" denied the request: '
    assert answer.body["message"] == f"{denied}requestName is required for DRA GPU, {covered}"
    assert answer.body["details"]["causes"] == [
        {
            "reason": "FieldValueRequired",
            "message": "requestName is required for DRA GPU",
            "field": "spec.domain.devices.gpus[0].requestName",
        },
        {"reason": "FieldValueInvalid", "message": covered, "field": "spec.resourceClaims"},
    ]


@pytest.mark.control_plane
def test_a_good_one_is_stored_and_warned_of_what_it_names(room: Room) -> None:
    spec = {**SPEC, "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "none"}]}
    answer = post(room.plane, room.path("virtualmachineinstances"), vmi(spec, name="good"))
    assert answer.code == 201
    field = "spec.resourceClaims[0].resourceClaimTemplateName"
    missing = f'there is no ResourceClaimTemplate \\"none\\" in namespace {room.namespace}.'
    assert [warning for warning in answer.warnings if warning.startswith(f"{field}: [template-missing] {missing}")] == [
        *answer.warnings
    ]


@pytest.mark.control_plane
def test_what_it_names_is_known_as_soon_as_it_is_there(room: Room) -> None:
    template = {
        "metadata": {"name": "t2"},
        "spec": {"spec": {"devices": {"requests": [{"name": "x", "exactly": {"deviceClassName": "none"}}]}}},
    }
    room.plane.request("POST", room.path("resourceclaimtemplates"), template)
    spec = {**SPEC, "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t2"}]}
    asked = f"{room.path('virtualmachines')}?dryRun=All"
    until(lambda: "[request-missing]" in str(post(room.plane, asked, vm(spec, name="later")).warnings))


@pytest.mark.control_plane
def test_its_metrics_say_what_it_knows(room: Room) -> None:
    metrics = room.running.metrics()
    kinds = {
        name.partition('"')[2].partition('"')[0]
        for name in metrics
        if name.startswith("virt_dra_webhook_cached_objects{")
    }
    assert kinds == {kind.KIND for kind in READ["webhook"].all}
    ages = {
        name.split('"')[1]: float(value)
        for name, value in metrics.items()
        if name.startswith("virt_dra_webhook_cache_age_seconds{")
    }
    assert ages.pop("DeviceProfile") == float("inf"), "this cluster doesn't serve them"
    assert all(0 <= age < 300 for age in ages.values())
    assert metrics["virt_dra_webhook_ready"] == "1.0"


@pytest.mark.control_plane
def test_an_update_of_the_claims_is_refused_and_one_of_labels_is_not(room: Room) -> None:
    made = post(room.plane, room.path("virtualmachineinstances"), vmi(name="changing"))
    assert made.code == 201
    path, merge = f"{room.path('virtualmachineinstances')}/changing", "application/merge-patch+json"
    assert room.plane.request("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, merge)["metadata"]["labels"] == {
        "a": "b"
    }
    with pytest.raises(RequestError, match="update of VMI object is restricted") as refused:
        room.plane.request("PATCH", path, {"spec": {"resourceClaims": None}}, merge)
    assert refused.value.status == 422


# --- launcher pods ---


def _compute(pod: dict[str, Any]) -> dict[str, Any]:
    compute: dict[str, Any] = next(
        container for container in pod["spec"]["containers"] if container["name"] == "compute"
    )
    return compute


@pytest.mark.control_plane
@pytest.mark.parametrize(
    ("version", "source", "directory"),
    [
        (
            "v1.9.0",
            {"resourceClaimTemplateName": "t"},
            "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/c/r",
        ),
        ("v1.8.3", {"resourceClaimName": "mine"}, "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/mine/r"),
        ("v1.8.1", {"resourceClaimTemplateName": "t"}, "/var/run/dra-device-attributes/c_/r"),
    ],
)
def test_metadata_shim(room: Room, version: str, source: dict[str, str], directory: str) -> None:
    room.version(version)
    name = version.replace(".", "-")
    made = post(
        room.plane,
        room.path("virtualmachineinstances"),
        vmi({**SPEC, "resourceClaims": [{"name": "c", **source}]}, name=name),
    )
    pod = launcher_pod()
    pod["metadata"]["ownerReferences"][0] |= {"name": name, "uid": made.body["metadata"]["uid"]}
    pod["spec"]["resourceClaims"] = [{"name": "c", **source}]
    # The webhook hears of the VMI a moment later, which 1.8.1 needs: it may have left requests out.
    until(lambda: post(room.plane, f"{room.path('pods')}?dryRun=All", pod).code == 201)
    stored = room.pod(pod)
    item = {
        "path": "virt-dra.io-metadata.json",
        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.annotations['metadata.virt-dra.io/c.r']"},
    }
    (volume,) = (volume for volume in stored["spec"]["volumes"] if "downwardAPI" in volume)
    assert volume["downwardAPI"] == {"items": [item], "defaultMode": 420}
    mount = {"name": volume["name"], "mountPath": directory, "readOnly": True}
    assert _compute(stored)["volumeMounts"] == [{"name": "private", "mountPath": "/var/run/kubevirt-private"}, mount]
    assert '"path":"metadata-shim"' in stored["metadata"]["annotations"]["virt-dra.io/integration"]
    assert all(
        "volumeMounts" not in container for container in stored["spec"]["containers"] if container["name"] != "compute"
    )


@pytest.mark.control_plane
def test_names_as_long_as_they_may_be(room: Room) -> None:
    room.version("v1.9.0")
    claim, request, name = "c" * 63, LONG_REQUEST, LONG_NAME
    pod = launcher_pod(((claim, request), (claim, "r")))
    pod["spec"]["resourceClaims"] = [{"name": claim, "resourceClaimName": name}]
    stored = room.pod(pod)
    volumes = [volume for volume in stored["spec"]["volumes"] if "downwardAPI" in volume]
    keys = [volume["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"] for volume in volumes]
    assert keys == [f"metadata.annotations['{metadata_annotation(claim, request)}']" for request in (request, "r")]
    assert [mount["mountPath"] for mount in _compute(stored)["volumeMounts"][1:]] == [
        f"/var/run/kubernetes.io/dra-device-attributes/resourceclaims/{name}/{request}" for request in (request, "r")
    ]


@pytest.mark.control_plane
def test_native(room: Room) -> None:
    room.version("v1.9.0")
    wanted = {"virt-dra.io/integration-path": "native"}
    stored = room.pod(launcher_pod(annotations={**wanted, "virt-dra.io/integration": "forged"}))
    record = '{"devices":[],"format":1,"pairs":[{"claim":"c","path":"native","reason":"AskedFor","request":"r"}]}'
    assert stored["metadata"]["annotations"] == {**wanted, "virt-dra.io/integration": record}
    assert [volume["name"] for volume in stored["spec"]["volumes"]] == ["private"]


@pytest.mark.control_plane
def test_device_plugin(room: Room) -> None:
    room.version("v1.7.2")
    device = {"name": "g", "deviceName": "vendor.com/A-1"}
    claims = '{"g": {"resourceClaimTemplateName": "t", "request": "gpu"}}'
    made = post(
        room.plane,
        room.path("virtualmachineinstances"),
        vmi({"domain": {"devices": {"gpus": [device]}}}, name="plugin"),
    )
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "name": "plugin",
        "uid": made.body["metadata"]["uid"],
        "controller": True,
    }
    pod = launcher_pod((), annotations={"virt-dra.io/device-claims": claims}, ownerReferences=[owner])
    del pod["spec"]["resourceClaims"]
    for name in ("limits", "requests"):
        pod["spec"]["containers"][0]["resources"][name] = {"vendor.com/A-1": "1", "cpu": "1"}
    until(lambda: post(room.plane, f"{room.path('pods')}?dryRun=All", pod).code == 201)
    stored = room.pod(pod)
    compute = _compute(stored)
    assert compute["resources"] == {
        "claims": [{"name": "virt-dra-0", "request": "gpu"}],
        "limits": {"cpu": "1"},
        "requests": {"cpu": "1"},
    }
    assert stored["spec"]["resourceClaims"] == [{"name": "virt-dra-0", "resourceClaimTemplateName": "t"}]
    keys = {variable["name"]: variable["valueFrom"]["fieldRef"]["fieldPath"] for variable in compute["env"]}
    assert keys == {
        "POD_NAME": "metadata.name",
        "PCI_RESOURCE_VENDOR_COM_A-1": "metadata.annotations['addresses.virt-dra.io/PCI_RESOURCE_VENDOR_COM_A-1']",
        "MDEV_PCI_RESOURCE_VENDOR_COM_A-1": (
            "metadata.annotations['addresses.virt-dra.io/MDEV_PCI_RESOURCE_VENDOR_COM_A-1']"
        ),
    }
    (waiting,) = stored["spec"]["initContainers"]
    assert (waiting["image"], waiting["volumeMounts"][0]["mountPath"]) == (
        compute["image"],
        "/var/run/virt-dra/addresses",
    )
    assert (stored["status"]["qosClass"], _compute(stored)["imagePullPolicy"]) == ("Burstable", "IfNotPresent")


@pytest.mark.control_plane
def test_asked_again_after_others_it_changes_nothing_more(room: Room) -> None:
    """Two configurations that name us, and one of them asks anew when the other has changed something."""
    room.version("v1.9.0")
    once = room.pod(launcher_pod())
    _, again = configurations(f"a-{room.namespace}", room.namespace, room.port)
    again["webhooks"][0]["clientConfig"]["caBundle"] = room.ca_bundle()
    with configured(room.plane, again):
        time.sleep(1.0)  # the API server learns of it
        twice = room.pod(launcher_pod())
    assert twice["spec"] == once["spec"]
    assert twice["metadata"]["annotations"] == once["metadata"]["annotations"]


@pytest.mark.control_plane
def test_a_pod_that_could_not_boot_is_refused_with_the_place_of_the_fault(room: Room) -> None:
    answer = post(
        room.plane,
        room.path("pods"),
        launcher_pod(annotations={"virt-dra.io/device-claims": '{"g": {"request": "R"}}'}),
    )
    assert answer.code == 422
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == [
        "metadata.annotations[virt-dra.io/device-claims].g",
        "metadata.annotations[virt-dra.io/device-claims].g.request",
    ]


@pytest.mark.control_plane
def test_a_pod_waits_for_its_template(room: Room) -> None:
    room.version("v1.9.0")
    pod = launcher_pod()
    pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": "later"}]
    answer = post(room.plane, room.path("pods"), pod)
    missing = (
        'ResourceClaimTemplate "later", which resourceClaims entry "c" of the VM '
        f"names, does not exist in namespace {room.namespace}"
    )
    assert answer.code == 422
    assert answer.body["message"].startswith(
        f'admission webhook "launcher-pods.virt-dra.io" denied the request: {missing}; create it'
    )
    assert [(cause["reason"], cause["field"]) for cause in answer.body["details"]["causes"]] == [
        ("FieldValueNotFound", "spec.containers[0].resources.claims[0]")
    ]
    asked = [{"name": "r", "exactly": {"deviceClassName": "gpu.intel.com"}}]
    template = {"metadata": {"name": "later"}, "spec": {"spec": {"devices": {"requests": asked}}}}
    room.plane.request("POST", room.path("resourceclaimtemplates"), template)
    until(lambda: post(room.plane, f"{room.path('pods')}?dryRun=All", pod).code == 201)
    assert "virt-dra.io/integration" not in room.pod(pod)["metadata"]["annotations"]


@pytest.mark.control_plane
def test_other_pods_are_not_touched(room: Room) -> None:
    plain = {"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "compute", "image": "i"}]}}
    assert "annotations" not in room.pod({**plain, "apiVersion": "v1", "kind": "Pod"})["metadata"]


# --- an outage ---


@pytest.mark.control_plane
def test_while_nobody_answers_vmis_pass_and_launcher_pods_wait(control_plane: ControlPlane) -> None:
    with kubevirt_kinds(control_plane):
        namespace = control_plane.create_namespace("webhook-")
        name = f"virt-dra-{namespace}"
        try:
            with configured(control_plane, *configurations(name, namespace, free_port())):
                room = Room(control_plane, namespace, Webhook(None))  # type: ignore[arg-type] # nobody runs
                until(lambda: post(control_plane, f"{room.path('pods')}?dryRun=All", launcher_pod()).code == 500)
                refused = post(control_plane, room.path("pods"), launcher_pod())
                assert refused.body["message"].startswith(
                    'Internal error occurred: failed calling webhook "launcher-pods.virt-dra.io": '
                )
                bad = vmi({**SPEC, "resourceClaims": []}, name="bad")
                assert post(control_plane, room.path("virtualmachineinstances"), bad).code == 201
                plain = {"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
                assert post(control_plane, room.path("pods"), plain).code == 201
        finally:
            control_plane.delete_namespace(namespace)


@pytest.mark.control_plane
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_replica_that_ends_in_the_middle_of_requests(control_plane: ControlPlane, end: signal.Signals) -> None:
    """Killed, some requests fail and are tried again, as virt-controller does; asked to go, none fails. No pod is made
    without its part, and none twice."""
    control_plane.stop_controllers()  # the garbage collector takes pods whose VMI doesn't exist
    namespace = control_plane.create_namespace("webhook-")
    name, ports = f"virt-dra-{namespace}", (free_port(), free_port())
    options = ("--kubevirt-version", "1.9", "--announce", "1")
    try:
        with (
            balanced(*ports) as port,
            configured(control_plane, *configurations(name, namespace, port)),
            webhook(control_plane, namespace, *options, configuration=name, port=ports[0]) as first,
            webhook(control_plane, namespace, *options, configuration=name, port=ports[1]) as other,
        ):
            for process in (first, other):
                process.wait_until_ready()
            room = Room(control_plane, namespace, other)
            room.create_what_pods_name()
            asked = f"{room.path('pods')}?dryRun=All"
            until(lambda: "virt-dra.io/integration" in str(post(control_plane, asked, launcher_pod()).body))
            names, failed = iter([f"pod-{number}" for number in range(150)]), []
            taking = threading.Lock()

            def create() -> None:
                while True:
                    with taking:
                        pod = next(names, None)
                        if pod == "pod-50":
                            first.process.send_signal(end)
                    if pod is None:
                        return
                    answer = post(control_plane, room.path("pods"), launcher_pod(name=pod))
                    while answer.code != 201:
                        failed.append(answer.body["message"])
                        assert len(failed) < 100, failed[-1]
                        time.sleep(0.05)
                        answer = post(control_plane, room.path("pods"), launcher_pod(name=pod))
                        assert answer.code != 409, "it was there already"

            with ThreadPoolExecutor(4) as threads:
                for task in [threads.submit(create) for _ in range(4)]:
                    task.result()
            assert first.process.wait(30) == (0 if end == signal.SIGTERM else -signal.SIGKILL)
            pods = control_plane.request("GET", room.path("pods"))["items"]
            assert {pod["metadata"]["name"] for pod in pods} == {f"pod-{number}" for number in range(150)}
            assert all("virt-dra.io/integration" in pod["metadata"]["annotations"] for pod in pods)
            assert all(message.startswith("Internal error occurred: failed calling webhook") for message in failed)
            if end == signal.SIGTERM:
                assert failed == []
    finally:
        Room(control_plane, namespace, Webhook(None)).delete_what_pods_name()  # type: ignore[arg-type] # nobody runs
        control_plane.delete_namespace(namespace)


@pytest.mark.control_plane
def test_its_certificate_may_be_a_folders(control_plane: ControlPlane, tmp_path: Path) -> None:
    with webhook(control_plane, "", "--self-signed", str(tmp_path), "--dns-name", "localhost") as running:
        running.wait_until_ready()
        assert running.metrics()["virt_dra_webhook_ready"] == "1.0"
    assert (tmp_path / "current" / "ca.crt").exists()


@pytest.mark.control_plane
def test_a_secret_that_cannot_be_used_is_told(control_plane: ControlPlane, namespace: str) -> None:
    secret = {"metadata": {"name": "mine"}, "data": dict.fromkeys(("ca.crt", "ca.key"), "bWluZQ==")}
    control_plane.request("POST", f"/api/v1/namespaces/{namespace}/secrets", secret)
    done = certificates(control_plane, namespace, "--authority-secret", "mine", "--webhook-configuration", "")
    told = (
        f"error: Secret {namespace}/mine: ca.crt holds no certificate in PEM; delete "
        "the Secret, or correct it; it is not overwritten\n"
    )
    assert (done.returncode, done.stderr) == (2, told)


@pytest.mark.slow
def test_where_there_is_no_cluster_it_says_so(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    with pytest.raises(AssertionError, match="it ended"), webhook(_Nowhere(missing), "", "--tls-dir", "x") as running:  # type: ignore[arg-type] # only its path counts
        running.wait_until_ready()


class _Nowhere:
    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = self.webhook_client_ca = kubeconfig
