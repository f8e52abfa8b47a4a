"""``virt-dra install`` and ``uninstall`` of both overlays on a real API server: apply, apply again, upgrade, and
nothing left behind."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from devtools.cluster.control_plane import ControlPlane, RequestError, require
from devtools.deployed.minimal_crds import KUBEVIRT_CRDS, crd
from devtools.deployed.overlay import images
from tests.json_schema import faults, schema_named
from virt_dra.api.reading.yaml_writing import write_documents
from virt_dra.cli.main import cli
from virt_dra.cluster.kube.cluster import KubeCluster
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE, Overlay, planned

pytestmark = pytest.mark.control_plane

Json = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OVERLAYS: tuple[Overlay, ...] = (BESIDE_KUBEVIRT, STANDALONE)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Of our own: what is installed concerns a whole cluster."""
    require("kube-controller-manager")
    with ControlPlane() as running:
        running.start_controllers("namespace-controller", "garbage-collector-controller")
        yield running


def clean(plane: ControlPlane) -> None:
    """Neither virt-dra nor KubeVirt."""
    result = run(plane, "uninstall", "--yes", "--delete-vms", "--timeout", "60")
    assert result.exit_code == 0, result.stderr
    for definition in KUBEVIRT_CRDS:
        path = f"{CRDS}/{definition['metadata']['name']}"
        if exists(plane, path):
            plane.request("DELETE", path)
        until(partial(_gone, plane, path))


@pytest.fixture(scope="class", params=OVERLAYS)
def overlay(request: pytest.FixtureRequest, plane: ControlPlane) -> Iterator[Overlay]:
    """On a cluster on which it may be installed."""
    wanted: Overlay = request.param
    if wanted == BESIDE_KUBEVIRT:
        install_kubevirt(plane)
    yield wanted
    clean(plane)


@pytest.fixture(scope="class")
def before(plane: ControlPlane, overlay: Overlay) -> tuple[str, set[str]]:
    """A namespace, and all objects that there were before anything was installed."""
    return plane.create_namespace(), everything(plane)


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[ControlPlane]:
    """Without virt-dra and KubeVirt, before and after."""
    yield plane
    clean(plane)


def _gone(plane: ControlPlane, path: str) -> bool:
    return not exists(plane, path)


def exists(plane: ControlPlane, path: str) -> bool:
    try:
        plane.request("GET", path)
    except RequestError as error:
        if error.status != 404:
            raise
        return False
    return True


def items(plane: ControlPlane, path: str) -> list[Json]:
    """While a definition is being taken up, the server asks to try again; while it goes, discovery may name it a moment
    longer."""
    found: list[Json] = []

    def listed() -> bool:
        try:
            found[:] = plane.request("GET", path)["items"]
        except RequestError as error:
            if error.status not in (404, 429):
                raise
            return error.status == 404
        return True

    until(listed)
    return found


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def install_kubevirt(plane: ControlPlane) -> None:
    for definition in KUBEVIRT_CRDS:
        plane.request("POST", CRDS, definition)
    wanted = {definition["spec"]["names"]["plural"] for definition in KUBEVIRT_CRDS}
    until(lambda: wanted <= {resource["name"] for resource in resources(plane, "/apis/kubevirt.io/v1")})


def resources(plane: ControlPlane, base: str) -> list[Json]:
    try:
        resources: list[Json] = plane.request("GET", base)["resources"]
    except RequestError as error:  # "404 page not found", until the group is served
        if error.status != 404:
            raise
        return []
    return resources


def run(plane: ControlPlane, *arguments: str) -> Result:
    command, *options = arguments
    named = images(STANDALONE if STANDALONE in options else BESIDE_KUBEVIRT) if command == "install" else ()
    return CliRunner().invoke(cli, [command, "--kubeconfig", str(plane.kubeconfig), *named, *options])


def results(output: str) -> dict[str, list[str]]:
    """What was done -> to which objects."""
    found: dict[str, list[str]] = {}
    assert faults(json.loads(output), schema_named("install")) == []
    for obj in json.loads(output)["objects"]:
        found.setdefault(obj["result"], []).append(f"{obj['kind']} {obj['name']}")
    return found


def printed(*arguments: str) -> list[Json]:
    return list(yaml.safe_load_all(CliRunner().invoke(cli, ["install", "--dry-run", *arguments]).stdout))


def path_of(plane: ControlPlane, obj: Json) -> str:
    version = obj["apiVersion"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = next(
        resource["name"]
        for resource in plane.request("GET", base)["resources"]
        if resource["kind"] == obj["kind"] and "/" not in resource["name"]
    )
    namespace = obj["metadata"].get("namespace", "")
    return (
        f"{base}/namespaces/{namespace}/{plural}/{obj['metadata']['name']}"
        if namespace
        else f"{base}/{plural}/{obj['metadata']['name']}"
    )


def difference(wanted: object, there: object, path: str = "") -> list[str]:
    """Where ``there`` lacks what is wanted; it may have more."""
    if isinstance(wanted, dict) and isinstance(there, dict):
        return [text for key, value in wanted.items() for text in difference(value, there.get(key), f"{path}.{key}")]
    if isinstance(wanted, list) and isinstance(there, list) and len(wanted) == len(there):
        return [
            text for index, value in enumerate(wanted) for text in difference(value, there[index], f"{path}[{index}]")
        ]
    return [] if wanted == there else [f"{path}: {wanted!r} became {there!r}"]


def everything(plane: ControlPlane) -> set[str]:
    """All objects of the cluster, of every kind that it serves, but for what a cluster itself makes and forgets."""
    found: set[str] = set()
    bases = ["/api/v1"] + [
        f"/apis/{group['preferredVersion']['groupVersion']}" for group in plane.request("GET", "/apis")["groups"]
    ]
    for base in bases:
        for resource in resources(plane, base):
            if "list" in resource["verbs"] and resource["name"] not in (
                "apiservices",
                "componentstatuses",
                "events",
                "leases",
            ):
                for item in items(plane, f"{base}/{resource['name']}"):
                    found.add(f"{resource['name']} {item['metadata'].get('namespace', '')}/{item['metadata']['name']}")
    return found


def test_a_namespace_that_is_somebody_elses_is_used_and_stays(cluster: ControlPlane) -> None:
    namespace = cluster.create_namespace("shared-", {"owner": "me"})
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}}
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", config)
    before = everything(cluster)
    first = run(cluster, "install", "--overlay", "standalone", "--own-namespace", namespace, "--no-wait", "-o", "json")
    assert results(first.stdout)["kept"] == [f"Namespace {namespace}"]
    assert run(cluster, "uninstall", "--yes", "--delete-vms", "--timeout", "60").exit_code == 0
    assert everything(cluster) == before
    assert cluster.request("GET", f"/api/v1/namespaces/{namespace}")["metadata"]["labels"]["owner"] == "me"


def test_refused_is_refused_before_anything_is_written(cluster: ControlPlane) -> None:
    before = everything(cluster)
    beside = run(cluster, "install")
    assert (beside.exit_code, beside.stdout) == (2, "")
    assert beside.stderr.startswith("error: KubeVirt is not on this cluster")
    install_kubevirt(cluster)
    with_kubevirt = everything(cluster)
    assert run(cluster, "install", "--overlay", "standalone").exit_code == 2
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "virt-dra-view"}}
    cluster.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    foreign = run(cluster, "install", "-o", "json")
    assert json.loads(foreign.stdout)["problems"] == [
        "ClusterRole virt-dra-view exists and isn't virt-dra's (it lacks the label "
        "app.kubernetes.io/part-of=virt-dra): rename or remove it"
    ]
    cluster.request("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterroles/virt-dra-view")
    assert everything(cluster) == with_kubevirt
    assert before < with_kubevirt


def test_who_has_no_right_to_install_is_told_so(cluster: ControlPlane) -> None:
    kubeconfig = cluster.kubeconfig_of_user("nobody")
    result = CliRunner().invoke(cli, ["install", *images(BESIDE_KUBEVIRT), "--kubeconfig", str(kubeconfig)])
    assert result.exit_code == 2
    assert 'User "nobody" cannot list resource "deployments"' in result.stderr
    assert "Traceback" not in result.output


class TestLife:
    """Of each overlay on one cluster, in this order: installed, upgraded, removed."""

    def test_what_is_printed_is_applied_byte_by_byte_and_applied_again_changes_nothing(
        self, plane: ControlPlane, overlay: Overlay, before: object, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sent: list[Json] = []
        apply = KubeCluster.apply

        async def recording(self: KubeCluster, raw: Json, **options: Any) -> Json:
            sent.append(raw)
            return await apply(self, raw, **options)

        monkeypatch.setattr(KubeCluster, "apply", recording)
        arguments = ("--overlay", overlay, "--image", "registry.example.com/virt-dra:2")
        first = run(plane, "install", *arguments, "--no-wait", "-o", "json")
        assert first.exit_code == 0, first.stderr
        assert write_documents(sent) == CliRunner().invoke(cli, ["install", "--dry-run", *arguments]).stdout
        objects = printed(*arguments)
        assert results(first.stdout) == {"created": [f"{obj['kind']} {obj['metadata']['name']}" for obj in objects]}
        for obj in objects:
            assert difference(obj, plane.request("GET", path_of(plane, obj))) == [], path_of(plane, obj)
        again = run(plane, "install", *arguments, "--no-wait", "-o", "json")
        assert results(again.stdout).keys() == {"unchanged"}

    def test_an_upgrade_changes_removes_and_keeps_what_others_wrote(
        self, plane: ControlPlane, overlay: Overlay, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def older(choices: Any, read: Any) -> tuple[Json, ...]:
            """A version that had another argument, one port more, and two objects that are gone."""
            made = [json.loads(json.dumps(obj)) for obj in planned(choices, read)]
            for obj in made:
                if obj["kind"] == "Deployment":
                    container = obj["spec"]["template"]["spec"]["containers"][0]
                    container["image"] = "virt-dra:0.0.9"
                    container["args"].append("--old")
                    container["ports"] = [*container.get("ports", ()), {"name": "old", "containerPort": 9999}]
            labels = {"app.kubernetes.io/part-of": "virt-dra"}
            extra = [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "old", "namespace": choices.namespace, "labels": labels},
                },
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRole",
                    "metadata": {"name": "old", "labels": labels},
                },
            ]
            return (*made, *extra)

        monkeypatch.setattr("virt_dra.cli.install.command.planned", older)
        assert run(plane, "install", "--overlay", overlay, "--no-wait").exit_code == 0
        monkeypatch.setattr("virt_dra.cli.install.command.planned", planned)
        configuration = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/virt-dra"
        bundle = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"
        patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
        plane.request("PATCH", configuration, patch, "application/json-patch+json")
        plane.merge("/api/v1/namespaces/virt-dra/secrets/virt-dra-webhook-tls", {"data": {"tls.key": "a2V5"}})

        upgraded = run(plane, "install", "--overlay", overlay, "--no-wait", "-o", "json")
        done = results(upgraded.stdout)
        assert done["changed"] == [
            "Deployment virt-dra-certificates",
            "Deployment virt-dra-operator",
            "Deployment virt-dra-webhook",
        ]
        assert done["removed"] == ["ConfigMap old", "ClusterRole old"]
        assert "created" not in done
        for obj in printed("--overlay", overlay):
            there = plane.request("GET", path_of(plane, obj))
            assert difference(obj, there) == []
            if obj["kind"] == "Deployment":
                ports = obj["spec"]["template"]["spec"]["containers"][0].get("ports", ())
                kept = there["spec"]["template"]["spec"]["containers"][0].get("ports", [])
                assert kept == [{**port, "protocol": "TCP"} for port in ports]
        assert plane.request("GET", "/api/v1/namespaces/virt-dra/secrets/virt-dra-webhook-tls")["data"] == {
            "tls.key": "a2V5"
        }
        assert plane.request("GET", configuration)["webhooks"][0]["clientConfig"]["caBundle"] == bundle

    def test_removal_leaves_nothing_behind(
        self, plane: ControlPlane, overlay: Overlay, before: tuple[str, set[str]]
    ) -> None:
        namespace, there = before
        vmi = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "metadata": {"name": "a"},
            "spec": {"domain": {}},
        }
        vmi["metadata"] = {"name": "a", "annotations": {"virt-dra.io/device-status": "{}", "mine": "stays"}}
        vmis = f"/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances"
        # Nobody serves the webhook here; that must not keep anyone from anything once it is gone.
        for kind in ("validating", "mutating"):
            with contextlib.suppress(RequestError):
                plane.request("DELETE", f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/virt-dra")
        uid = plane.request("POST", vmis, vmi)["metadata"]["uid"]
        owner = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "name": "a",
            "uid": uid,
            "controller": True,
        }
        devices = {
            "apiVersion": "virt-dra.io/v1alpha1",
            "kind": "VirtualMachineInstanceDevices",
            "metadata": {"name": "a", "ownerReferences": [owner]},
        }
        if overlay == BESIDE_KUBEVIRT:
            path = f"/apis/virt-dra.io/v1alpha1/namespaces/{namespace}/virtualmachineinstancedevices"
            until(lambda: exists(plane, path))  # a CRD that was just changed may not be served for a moment
            plane.request("POST", path, devices)
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "virt-dra-operator"}}
        plane.request("POST", "/apis/coordination.k8s.io/v1/namespaces/virt-dra/leases", lease)

        removed = run(plane, "uninstall", "--yes", "--timeout", "60")
        assert removed.exit_code == 0, removed.stderr
        left = plane.request("GET", f"{vmis}/a")["metadata"]["annotations"]
        assert left == {"mine": "stays"}
        kept = {
            f"customresourcedefinitions /{name}"
            for name in ("virtualmachines.kubevirt.io", "virtualmachineinstances.kubevirt.io")
        }
        expected = {f"virtualmachineinstances {namespace}/a"} | (kept if overlay == STANDALONE else set())
        assert everything(plane) ^ there == expected

        if overlay == STANDALONE:
            everything_gone = run(plane, "uninstall", "--yes", "--delete-vms", "--timeout", "60")
            assert everything_gone.exit_code == 0, everything_gone.stderr
            assert everything(plane) == there
        nothing = run(plane, "uninstall", "--yes")
        assert (nothing.exit_code, nothing.stdout) == (0, "virt-dra isn't installed on this cluster\n")


def _status_of_deployments(plane: ControlPlane, ready: Sequence[str], stop: threading.Event) -> None:
    """Stands in for the deployment controller and the kubelets."""
    base = "/apis/apps/v1/namespaces/virt-dra/deployments"
    while not stop.wait(0.05):
        for name in ready:
            with contextlib.suppress(RequestError):
                generation = plane.request("GET", f"{base}/{name}")["metadata"]["generation"]
                status = {
                    "observedGeneration": generation,
                    "replicas": 2,
                    "updatedReplicas": 2,
                    "readyReplicas": 2,
                    "availableReplicas": 2,
                }
                plane.merge(f"{base}/{name}/status", {"status": status})


@pytest.fixture(scope="class")
def installed(plane: ControlPlane) -> Iterator[ControlPlane]:
    """With the overlay standalone."""
    assert run(plane, "install", "--overlay", "standalone", "--no-wait").exit_code == 0
    yield plane
    clean(plane)


CERT_MANAGER = (crd("Issuer", "issuers", "cert-manager.io"), crd("Certificate", "certificates", "cert-manager.io"))


class TestInstalled:
    def test_the_certificate_goes_over_to_cert_manager_and_back(self, installed: ControlPlane) -> None:
        secrets = "/api/v1/namespaces/virt-dra/secrets"
        for definition in CERT_MANAGER:
            installed.request("POST", CRDS, definition)
        wanted = {definition["spec"]["names"]["plural"] for definition in CERT_MANAGER}
        until(lambda: wanted <= {resource["name"] for resource in resources(installed, "/apis/cert-manager.io/v1")})
        install = ("install", "--overlay", "standalone", "--no-wait", "-o", "json")
        over = results(run(installed, *install, "--cert-manager").stdout)
        kinds = (
            "Deployment",
            "NetworkPolicy",
            "RoleBinding",
            "ClusterRoleBinding",
            "Role",
            "ClusterRole",
            "ServiceAccount",
        )
        policy = ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy")
        only_ours = {
            *(f"{kind} virt-dra-certificates" for kind in (*kinds, *policy)),
            "Secret virt-dra-webhook-authority",
        }
        assert set(over["removed"]) == only_ours | {"Secret virt-dra-webhook-tls"}
        assert over["changed"] == [f"{kind}WebhookConfiguration virt-dra" for kind in ("Validating", "Mutating")]
        # As cert-manager makes it.
        ours, made_of = (
            {"app.kubernetes.io/part-of": "virt-dra"},
            {"cert-manager.io/certificate-name": "virt-dra-webhook"},
        )
        metadata = {"name": "virt-dra-webhook-tls", "labels": ours, "annotations": made_of}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls"}
        installed.request("POST", secrets, {**secret, "data": {"tls.crt": "Y3J0", "tls.key": "a2V5"}})
        assert results(run(installed, *install, "--cert-manager").stdout).keys() == {"unchanged"}
        back = results(run(installed, *install).stdout)
        assert set(back["created"]) == only_ours
        assert back["removed"] == [
            *(
                "Certificate virt-dra-ca",
                "Certificate virt-dra-webhook",
                "Issuer virt-dra-ca",
                "Issuer virt-dra-selfsigned",
            )
        ]
        assert installed.request("GET", f"{secrets}/virt-dra-webhook-tls")["data"] == {
            "tls.crt": "Y3J0",
            "tls.key": "a2V5",
        }
        for definition in CERT_MANAGER:
            installed.request("DELETE", f"{CRDS}/{definition['metadata']['name']}")
        for definition in CERT_MANAGER:
            installed.wait_until_gone(f"{CRDS}/{definition['metadata']['name']}")

    def test_a_dry_run_of_a_removal_and_a_no_remove_nothing(self, installed: ControlPlane) -> None:
        before = everything(installed)
        plan = run(installed, "uninstall", "--dry-run", "--delete-vms")
        assert plan.exit_code == 0
        assert "to be removed: CustomResourceDefinition virtualmachines.kubevirt.io\n" in plan.stdout
        refused = CliRunner().invoke(cli, ["uninstall", "--kubeconfig", str(installed.kubeconfig)], input="n\n")
        assert refused.exit_code == 1
        assert (
            "kept, with all its objects: CustomResourceDefinition virtualmachines.kubevirt.io (see --delete-vms)\n"
            in refused.stdout
        )
        assert everything(installed) == before

    @pytest.mark.parametrize(
        ("ready", "code", "stdout", "stderr"),
        [
            # In this order: what has rolled out stays so.
            (
                ("virt-dra-certificates", "virt-dra-operator"),
                1,
                "",
                "error: Deployment virt-dra/virt-dra-webhook: 0 of 2 replicas available\n"
                "error: Pod virt-dra/virt-dra-webhook-1, container webhook: ImagePullBackOff: no such image\n"
                "error: applied, but not running yet; run virt-dra doctor for details\n",
            ),
            (
                ("virt-dra-certificates", "virt-dra-operator", "virt-dra-webhook"),
                0,
                "virt-dra (standalone) is installed in the namespace virt-dra and runs\n",
                "",
            ),
        ],
    )
    def test_it_waits_until_the_deployments_run(
        self, installed: ControlPlane, ready: tuple[str, ...], code: int, stdout: str, stderr: str
    ) -> None:
        container = {"name": "webhook", "image": "virt-dra:0.1.0"}
        secure = {
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "runAsNonRoot": True,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            }
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "virt-dra-webhook-1", "labels": {"app.kubernetes.io/part-of": "virt-dra"}},
            "spec": {"containers": [{**container, **secure}]},
        }
        pods = "/api/v1/namespaces/virt-dra/pods"
        installed.request("POST", pods, pod)
        waiting = {
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
            "ready": False,
            "restartCount": 0,
        }
        statuses = [{**container, **waiting, "imageID": ""}]
        installed.merge(f"{pods}/virt-dra-webhook-1/status", {"status": {"containerStatuses": statuses}})
        stop = threading.Event()
        stand_in = threading.Thread(target=_status_of_deployments, args=(installed, ready, stop))
        stand_in.start()
        try:
            result = run(installed, "install", "--overlay", "standalone", "--timeout", "30" if code == 0 else "2")
        finally:
            stop.set()
            stand_in.join()
            installed.request("DELETE", f"{pods}/virt-dra-webhook-1?gracePeriodSeconds=0")
        assert (result.exit_code, result.stderr) == (code, stderr), result.output
        assert result.stdout.endswith(stdout)
