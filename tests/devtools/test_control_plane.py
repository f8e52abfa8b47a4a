"""The control plane of the tests itself: that it starts, is restarted, asks webhooks, knows users, and ends whatever
happens."""

from __future__ import annotations

import base64
import http.server
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from kubernetes.aio import client, config

from devtools.cluster.control_plane import (
    ADVICE,
    ALL_DRA_GATES,
    API_SERVER,
    CONTROLLERS,
    ETCD,
    SCHEDULER,
    SCRIPT,
    ControlPlane,
    RequestError,
    binary,
    require,
)
from devtools.cluster.credentials import Credentials
from devtools.cluster.programs import CLASSIC, KUBECTL, require_classic
from devtools.play.command import parsed_gates

pytestmark = pytest.mark.control_plane

ORPHAN = """
import sys, time
from pathlib import Path
from devtools.cluster.supervisor import Supervisor
folder = Path(sys.argv[1])
supervisor = Supervisor(folder)
print(supervisor.start(["sleep", "600"], folder / "log"), flush=True)
time.sleep(600)
"""


@pytest.mark.control_plane
def test_objects_are_served_by_the_version_that_was_asked_for(control_plane: ControlPlane, namespace: str) -> None:
    assert control_plane.request("GET", "/version")["gitVersion"] == "v1.37.1"
    assert (
        control_plane.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default")["metadata"]["name"]
        == "default"
    )


@pytest.mark.control_plane
def test_a_namespace_goes_with_all_that_is_in_it(control_plane: ControlPlane) -> None:
    namespace = control_plane.create_namespace()
    held = {"metadata": {"name": "held", "finalizers": ["tests.example.com/never"]}}
    control_plane.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", held)
    control_plane.delete_namespace(namespace)
    for path in (f"/api/v1/namespaces/{namespace}", f"/api/v1/namespaces/{namespace}/configmaps/held"):
        with pytest.raises(RequestError, match="not found") as refused:
            control_plane.request("GET", path)
        assert refused.value.status == 404


@pytest.mark.control_plane
def test_a_restarted_api_server_has_the_same_port_and_objects(control_plane: ControlPlane, namespace: str) -> None:
    server = control_plane.server
    control_plane.restart_api_server()
    assert control_plane.server == server
    assert control_plane.request("GET", f"/api/v1/namespaces/{namespace}")["status"]["phase"] == "Active"


@pytest.mark.control_plane
async def test_a_user_may_do_what_rbac_says(control_plane: ControlPlane, namespace: str) -> None:
    account = f"system:serviceaccount:{namespace}:reader"
    asked = {account: control_plane.kubeconfig_of_service_account(namespace, "reader")}
    asked["jane"] = control_plane.kubeconfig_of_user("jane", ["developers"])
    for user, kubeconfig in asked.items():
        with pytest.raises(client.ApiException) as refused:
            await config_maps(kubeconfig, namespace)
        assert refused.value.status == 403
        message = (
            f'configmaps is forbidden: User "{user}" cannot list resource "configmaps" '
            f'in API group "" in the namespace "{namespace}"'
        )
        assert json.loads(refused.value.body or "")["message"] == message
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    role = {
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
    }
    binding = {
        "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [
            {"kind": "ServiceAccount", "name": "reader", "namespace": namespace},
            {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "developers"},
        ],
    }
    control_plane.request("POST", f"{rbac}/roles", role)
    control_plane.request("POST", f"{rbac}/rolebindings", binding)
    eventually(lambda: control_plane.allows(account, (), "list", "configmaps", namespace=namespace))
    for kubeconfig in (*asked.values(), control_plane.kubeconfig):
        assert await config_maps(kubeconfig, namespace) == 0


async def config_maps(kubeconfig: Path, namespace: str) -> int:
    """How many a user sees."""
    configuration = client.Configuration()
    await config.load_kube_config(str(kubeconfig), client_configuration=configuration)  # type: ignore[no-untyped-call]  # the library's
    async with client.ApiClient(configuration) as api:
        return len((await client.CoreV1Api(api).list_namespaced_config_map(namespace)).items)


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.02)


@pytest.mark.control_plane
def test_the_api_server_asks_webhooks_on_loopback(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """As those of the tests' own process are: by URL, trusted by their authority."""
    credentials = Credentials(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(credentials.certificate, credentials.key)
    with http.server.HTTPServer(("127.0.0.1", 0), Refusal) as webhook:
        webhook.socket = context.wrap_socket(webhook.socket, server_side=True)
        thread = threading.Thread(target=webhook.serve_forever)
        thread.start()
        name = f"{namespace}.example.com"
        configuration = {
            "metadata": {"name": name},
            "webhooks": [{
                "name": name,
                "clientConfig": {
                    "url": f"https://127.0.0.1:{webhook.server_port}/",
                    "caBundle": base64.b64encode(credentials.authority.read_bytes()).decode(),
                },
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": ["configmaps"]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        }  # fmt: skip
        configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        control_plane.request("POST", configurations, configuration)
        try:
            eventually(
                lambda: (
                    verdict(control_plane, namespace)
                    == f'403: admission webhook "{name}" denied the request: not today'
                )
            )
        finally:
            control_plane.request("DELETE", f"{configurations}/{name}")
            webhook.shutdown()
            thread.join()


class Refusal(http.server.BaseHTTPRequestHandler):
    """A webhook that denies everything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        review["response"] = {
            "uid": review.pop("request")["uid"],
            "allowed": False,
            "status": {"code": 403, "message": "not today"},
        }
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Tests need no access log."""


def verdict(control_plane: ControlPlane, namespace: str) -> str:
    try:
        control_plane.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"generateName": "x"}})
    except RequestError as error:
        return str(error)
    return "allowed"


@pytest.mark.control_plane
def test_a_pod_with_a_claim_is_scheduled(control_plane: ControlPlane, namespace: str) -> None:
    """By kube-scheduler, for a claim that the claim controller has made; a claim goes with its pod."""
    control_plane.start_scheduler()
    control_plane.start_controllers()
    core, dra = "/api/v1", "/apis/resource.k8s.io/v1"
    node = control_plane.create_node(f"node-{namespace}")
    driver = f"{namespace}.example.com"
    selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
    offer = {
        "driver": driver,
        "nodeName": node,
        "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu0"}],
    }
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": driver}}]}}
    control_plane.request("POST", f"{dra}/resourceslices", {"metadata": {"name": driver}, "spec": offer})
    control_plane.request(
        "POST", f"{dra}/deviceclasses", {"metadata": {"name": driver}, "spec": {"selectors": [selector]}}
    )
    control_plane.request(
        "POST",
        f"{dra}/namespaces/{namespace}/resourceclaimtemplates",
        {"metadata": {"name": "t"}, "spec": {"spec": spec}},
    )
    pod = {
        "metadata": {"name": "user"},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        },
    }
    pods = f"{core}/namespaces/{namespace}/pods"
    control_plane.request("POST", pods, pod)
    try:
        eventually(lambda: control_plane.request("GET", f"{pods}/user")["spec"].get("nodeName") == node)
        claims = control_plane.request("GET", f"{dra}/namespaces/{namespace}/resourceclaims")["items"]
        assert [claim["status"]["allocation"]["devices"]["results"] for claim in claims] == [
            [{"request": "gpu", "driver": driver, "pool": "pool", "device": "gpu0"}]
        ]
        control_plane.request("DELETE", f"{pods}/user", {"gracePeriodSeconds": 0})
        eventually(lambda: not control_plane.request("GET", f"{dra}/namespaces/{namespace}/resourceclaims")["items"])
    finally:
        for path in (f"{dra}/resourceslices/{driver}", f"{dra}/deviceclasses/{driver}", f"{core}/nodes/{node}"):
            control_plane.request("DELETE", path)


@pytest.mark.control_plane
def test_a_paused_api_server_answers_when_it_goes_on(control_plane: ControlPlane) -> None:
    with control_plane.paused():
        asked = threading.Thread(target=control_plane.request, args=("GET", "/version"))
        asked.start()
        asked.join(0.2)
        assert asked.is_alive()
    asked.join(20)
    assert not asked.is_alive()


@pytest.mark.control_plane
def test_a_scheduler_that_ended_by_itself_is_started_again(control_plane: ControlPlane) -> None:
    control_plane.start_scheduler()
    assert control_plane.restart_ended() == []
    os.kill(control_plane.pid(SCHEDULER), signal.SIGKILL)
    end = time.monotonic() + 60
    while (restarted := control_plane.restart_ended()) == []:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert restarted == [SCHEDULER]
    assert control_plane.restart_ended() == []


def test_missing_programs_are_told_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception) as skipped:
        require()
    assert str(skipped.value) == f"etcd, kube-apiserver missing: {ADVICE}"
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception) as failed:
        require(SCHEDULER)
    assert str(failed.value) == f"etcd, kube-apiserver, kube-scheduler missing: {ADVICE}"


def test_programs_in_kubebuilder_assets_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    program = tmp_path / ETCD
    program.touch()
    assert binary(ETCD) is None
    program.chmod(0o755)
    assert binary(ETCD) == program
    assert binary(SCHEDULER) is None


@pytest.mark.parametrize("release", CLASSIC)
def test_a_missing_classic_control_plane_skips_also_in_ci_which_builds_none(
    release: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    monkeypatch.setenv("CI", "true")
    (tmp_path / "assets").mkdir()
    for name in (ETCD, API_SERVER):
        (tmp_path / "assets" / name).touch(0o755)
    assert binary(API_SERVER, release) is None  # that is another release's
    assert binary(ETCD, release) == tmp_path / "assets" / ETCD
    with pytest.raises(pytest.skip.Exception) as skipped:
        require_classic(release)
    assert str(skipped.value) == f"no control plane {release}: run tools/control-plane.sh {release} (it needs Go)"


def test_the_script_builds_known_releases_only() -> None:
    refused = subprocess.run([SCRIPT, "1.29.0"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr) == (2, "usage: tools/control-plane.sh [--print] [1.30.14 | 1.31.14]\n")


@pytest.mark.control_plane
def test_a_port_that_is_in_use_is_refused(control_plane: ControlPlane) -> None:
    with pytest.raises(OSError, match="Address already in use"):
        ControlPlane(port=control_plane.port).start()


def test_gates_of_a_control_plane_to_play_with() -> None:
    assert parsed_gates("") == {}
    assert parsed_gates("all") == ALL_DRA_GATES
    assert parsed_gates("A=true,B=false") == {"A": True, "B": False}
    with pytest.raises(click.BadParameter) as refused:
        parsed_gates("A=true,B")
    assert refused.value.message == "'B' is not Name=true or Name=false; for all gates of DRA say: all"


def test_what_a_process_started_ends_with_it_even_when_it_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    caller = subprocess.Popen([sys.executable, "-c", ORPHAN, str(folder)], stdout=subprocess.PIPE, text=True)
    with caller:
        assert caller.stdout is not None
        pid = int(caller.stdout.readline())
        os.kill(pid, 0)
        caller.send_signal(signal.SIGKILL)
    end = time.monotonic() + 10
    while (Path(f"/proc/{pid}").exists() or folder.exists()) and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()
    assert not folder.exists()


def test_the_script_that_gets_the_programs_and_the_tests_mean_the_same_ones() -> None:
    require(SCHEDULER, CONTROLLERS, KUBECTL)
    printed = subprocess.run([str(SCRIPT), "--print"], capture_output=True, text=True, check=True)
    assert printed.stderr == ""
    assert printed.stdout.splitlines() == [
        str(binary(name)) for name in (ETCD, API_SERVER, SCHEDULER, CONTROLLERS, KUBECTL)
    ]
