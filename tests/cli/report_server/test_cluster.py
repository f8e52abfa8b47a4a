"""The live report on a real API server, with the rights of manifests/report: who sees it, what changes, what an outage
does."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devtools.cluster.control_plane import ControlPlane
from devtools.deployed.report_server import RunningReport, bind, report_server, token_of
from devtools.deployed.webhook import kubevirt_kinds, until
from tests.manifests.acting import acting_as
from virt_dra.api.core_v1 import Pod
from virt_dra.cluster.kinds import resource_of
from virt_dra.installation.kustomize import build
from virt_dra.installation.plan import packaged
from virt_dra.model.kinds import READ
from virt_dra.report_server.viewers import Viewer, access_review, resources_of, token_review

Json = dict[str, Any]
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_PATHS = {
    "ServiceAccount": "/api/v1/namespaces/virt-dra/serviceaccounts",
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
}
VIEWER = "virt-dra-report-viewer"


@dataclass
class Room:
    plane: ControlPlane
    namespace: str
    running: RunningReport
    token: str
    binding: str

    def vm(self, name: str) -> None:
        spec = {"runStrategy": "Halted", "template": {"spec": {"domain": {"devices": {}}}}}
        body = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": name}, "spec": spec}
        self.plane.request("POST", f"/apis/kubevirt.io/v1/namespaces/{self.namespace}/virtualmachines", body)

    def child(self) -> int:
        """The process that renders."""
        children = Path(f"/proc/{self.running.process.pid}/task").glob("*/children")
        pids = [int(pid) for path in children for pid in path.read_text().split()]
        return next(pid for pid in pids if b"virt_dra.sandbox" in Path(f"/proc/{pid}/cmdline").read_bytes())


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A control plane of its own: what is read is the whole cluster."""
    with ControlPlane() as plane, kubevirt_kinds(plane):
        plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": "virt-dra"}})
        for obj in build(packaged(), "report"):
            if obj["kind"] in _PATHS:
                plane.request("POST", _PATHS[obj["kind"]], obj)
        namespace = plane.create_namespace()
        plane.create_node("node-1")
        token = token_of(plane, namespace, "viewer")
        binding = bind(plane, VIEWER, namespace, "viewer")
        kubeconfig = plane.kubeconfig_of_service_account("virt-dra", "virt-dra-report")
        with report_server(kubeconfig, tmp_path_factory.mktemp("report")) as running:
            running.wait_until_ready()
            yield Room(plane, namespace, running, token, binding)
            assert not [line for line in running.log if token in json.dumps(line)], "a token is in the log"


@dataclass(frozen=True)
class Departure:
    """What two viewers see who lose their right and their account at the same time. ``ending``: the last event of the
    first one's open stream, after so many ``seconds``; ``afterwards``: the status of the next request."""

    ending: str
    seconds: float
    afterwards: int


@dataclass(frozen=True)
class Departing:
    """``cookie``: the session of the viewer whose account is deleted."""

    departure: Future[Departure]
    cookie: str


@pytest.fixture(scope="module")
def departing(room: Room) -> Iterator[Departing]:
    """The server asks about each viewer once a minute: both wait for the same minute, in which the other tests run."""
    leaving = token_of(room.plane, room.namespace, "leaving")
    binding = bind(room.plane, VIEWER, room.namespace, "leaving")
    gone = token_of(room.plane, room.namespace, "gone")
    bind(room.plane, VIEWER, room.namespace, "gone")
    until(lambda: room.running.ask("/", token=leaving).status == 200)
    until(lambda: room.running.ask("/", token=gone).status == 200)
    cookie = room.running.sign_in(gone).cookie
    with room.running.events(token=leaving, seconds=90) as events, ThreadPoolExecutor() as threads:
        next(events)
        began = time.monotonic()
        room.plane.request("DELETE", binding)
        room.plane.request("DELETE", f"/api/v1/namespaces/{room.namespace}/serviceaccounts/gone")

        def departure() -> Departure:
            _, ending = next(event for event in events if event[0] == "ended")
            seconds = time.monotonic() - began
            return Departure(ending, seconds, room.running.ask("/", token=leaving).status)

        yield Departing(threads.submit(departure), cookie)


@pytest.mark.control_plane
def test_a_session_outlives_its_account_for_less_than_a_minute(room: Room, departing: Departing) -> None:
    """The first test, and :func:`test_a_deleted_account_has_no_session_any_more` one of the last."""
    assert room.running.ask("/", cookie=departing.cookie).status == 200


@pytest.mark.control_plane
def test_the_page_needs_a_token_that_the_api_server_knows(room: Room) -> None:
    garbage = [room.token[:-4] + "AAAA", "garbage", room.token.partition(".")[0]]
    assert [room.running.ask("/", token=token).status for token in ("", *garbage)] == [401] * 4
    page = room.running.ask("/", token=room.token)
    assert page.status == 200
    assert "<b>1</b>node</a>" in page.body


@pytest.mark.control_plane
def test_the_document_is_that_of_virt_dra_report(room: Room) -> None:
    document = json.loads(room.running.ask("/report.json", token=room.token).body)
    assert (document["kind"], document["nodes"]) == ("Report", 1)


@pytest.mark.control_plane
def test_whoever_may_not_list_all_of_it_sees_nothing_and_learns_what_is_missing(room: Room) -> None:
    poor = token_of(room.plane, room.namespace, "poor")
    name = f"system:serviceaccount:{room.namespace}:poor"
    text = f"{name} may not see the whole cluster: the right to list is missing, in all namespaces, for "
    first = f"{text}nodes, persistentvolumeclaims, persistentvolumes, pods, controllerrevisions.apps, "
    for path in ("/", "/events", "/report.json"):
        refused = room.running.ask(path, token=poor)
        assert (refused.status, refused.body.startswith(first)) == (403, True)
    # With the right in one namespace only it is no better, nor with all but one kind.
    subject = {"kind": "ServiceAccount", "name": "poor", "namespace": room.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": VIEWER}
    bindings = f"{_RBAC}/namespaces/{room.namespace}/rolebindings"
    room.plane.request("POST", bindings, {"metadata": {"name": "poor"}, "roleRef": role, "subjects": [subject]})
    rules = [
        rule
        for rule in room.plane.request("GET", f"{_RBAC}/clusterroles/{VIEWER}")["rules"]
        if rule["apiGroups"] != ["virt-dra.io"]
    ]
    room.plane.request("POST", f"{_RBAC}/clusterroles", {"metadata": {"name": "nearly"}, "rules": rules})
    bind(room.plane, "nearly", room.namespace, "poor")
    missing = f"{text}deviceprofiles.virt-dra.io, keeppolicies.virt-dra.io, virtualmachineinstancedevices.virt-dra.io\n"
    until(lambda: room.running.ask("/", token=token_of(room.plane, room.namespace, "poor")).body == missing)


@pytest.mark.control_plane
def test_a_browser_signs_in_sees_what_changes_and_signs_out(room: Room) -> None:
    answer = room.running.sign_in(room.token)
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    cookie = answer.cookie
    assert room.running.ask("/", cookie=cookie).status == 200
    with room.running.events(cookie=cookie) as events:
        kind, before = next(events)
        assert kind == "changed"
        began = time.monotonic()
        room.vm("fresh")
        after = next(version for kind, version in events if kind == "changed")
        assert time.monotonic() - began < 30
        assert after != before
        page = room.running.ask("/", cookie=cookie)
        assert (page.headers["ETag"], f"{room.namespace}/fresh" in page.body) == (f'W/"{after}"', True)
        assert room.running.sign_out(cookie).status == 303
        assert [event for event in events if event[0] == "ended"] == [("ended", "the session has ended")]
    assert room.running.ask("/", cookie=cookie).status == 401


@pytest.mark.control_plane
def test_a_nodes_heartbeat_changes_nothing(room: Room) -> None:
    before = room.running.metrics()["virt_dra_report_rendering_seconds_count"]
    beat = {
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]}
    }
    room.plane.merge("/api/v1/nodes/node-1/status", beat)
    time.sleep(5)
    assert room.running.metrics()["virt_dra_report_rendering_seconds_count"] == before


@pytest.mark.control_plane
def test_guessing_is_limited(room: Room) -> None:
    answers = [room.running.sign_in(f"guess-{number}") for number in range(30)]
    limited = [answer for answer in answers if answer.status == 429]
    assert {answer.status for answer in answers} == {401, 429}
    assert len(limited) >= 15
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in limited)
    assert room.running.ask("/", token=room.token).status == 200  # who is known is not limited
    time.sleep(7)  # one attempt is free again
    assert room.running.sign_in(token_of(room.plane, room.namespace, "viewer")).status == 303


@pytest.mark.control_plane
def test_when_the_rendering_process_is_killed_the_page_says_so_and_is_renewed(room: Room) -> None:
    with room.running.events(token=room.token) as events:
        next(events)
        first = room.child()
        os.kill(first, signal.SIGKILL)
        _, text = next(event for event in events if event[0] == "stale")
        assert text.startswith("Not up to date since ")
        assert text.endswith(" UTC: the process that renders the page has ended.")
        page = room.running.ask("/", token=room.token)
        assert (page.status, text in page.body) == (200, True)
        room.vm("meanwhile")
        assert next(kind for kind, _ in events if kind in ("current", "changed"))
        until(lambda: "meanwhile" in room.running.ask("/", token=room.token).body)
    assert room.child() != first
    assert room.running.ask("/", token=room.token).headers["Virt-Dra-Stale-Since"] is None
    assert room.running.metrics()["virt_dra_report_process_starts_total"] == 2.0


@pytest.mark.control_plane
@pytest.mark.slow(seconds=60)
def test_a_right_that_is_withdrawn_ends_an_open_stream_within_a_minute(room: Room, departing: Departing) -> None:
    departure = departing.departure.result()
    assert departure.ending.startswith(
        f"system:serviceaccount:{room.namespace}:leaving may not see the whole cluster: "
    )
    assert departure.seconds < 65
    assert departure.afterwards == 403


@pytest.mark.control_plane
@pytest.mark.slow
def test_a_deleted_account_has_no_session_any_more(room: Room, departing: Departing) -> None:
    until(lambda: room.running.ask("/", cookie=departing.cookie).status == 401, 80)


@pytest.mark.control_plane
@pytest.mark.slow
def test_while_the_api_server_is_away_nobody_is_let_in_anew(room: Room) -> None:
    fresh = token_of(room.plane, room.namespace, "viewer")
    with room.running.events(token=room.token, seconds=90) as events:
        next(events)
        room.plane.stop_api_server()
        try:
            refused = room.running.ask("/", token=fresh)
            assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
            ended = next(event for event in events if event[0] in ("stale", "ended"))
            assert "the cluster's API server doesn't " in ended[1]
        finally:
            room.plane.start_api_server()
    until(lambda: room.running.ask("/", token=fresh).status == 200)
    room.vm("afterwards")
    until(lambda: "afterwards" in room.running.ask("/", token=fresh).body, 120)
    until(lambda: room.running.metrics()["virt_dra_report_stale"] == 0.0)


@pytest.mark.control_plane
def test_its_rights_are_those_that_it_needs(room: Room) -> None:
    """The server runs with them. Each of them is used: what it may list it lists, and without reviews it could let
    nobody in."""
    roles = {
        obj["metadata"]["name"]: obj["rules"] for obj in build(packaged(), "report") if obj["kind"] == "ClusterRole"
    }
    reading = [rule for rule in roles["virt-dra-report"] if rule["verbs"] == ["list", "watch"]]
    read = {(group, name) for rule in reading for group in rule["apiGroups"] for name in rule["resources"]}
    assert read == {(resource.group, resource.plural) for resource in resources_of(READ["report-server"].all)}
    assert read == {
        (group, name) for rule in roles[VIEWER] for group in rule["apiGroups"] for name in rule["resources"]
    }
    assert {verb for rule in roles[VIEWER] for verb in rule["verbs"]} == {"list"}
    rest = [(rule["resources"], rule["verbs"]) for rule in roles["virt-dra-report"] if rule not in reading]
    assert rest == [(["tokenreviews"], ["create"]), (["subjectaccessreviews"], ["create"])]
    # Each kind that it may list was listed.
    listed = {key for key in room.running.said("following")[0] if key[:1].isupper()}
    assert listed == {kind.KIND for kind in READ["report-server"].all}


@pytest.mark.control_plane
@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/api/v1/secrets"),
        ("GET", "/api/v1/configmaps"),
        ("GET", "/api/v1/nodes/node-1"),
        ("DELETE", "/api/v1/nodes/node-1"),
        ("PATCH", "/api/v1/nodes/node-1"),
        ("POST", "/api/v1/namespaces/virt-dra/pods"),
        ("POST", "/api/v1/namespaces/virt-dra/serviceaccounts/virt-dra-report/token"),
        ("DELETE", "/apis/resource.k8s.io/v1/resourceslices"),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
        ("POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests"),
    ],
)
def test_a_thief_of_its_token_can_do_nothing_else(room: Room, verb: str, path: str) -> None:
    with acting_as(room.plane, room.plane.kubeconfig_of_service_account("virt-dra", "virt-dra-report")) as ask:
        assert ask(verb, path)[0] == 403


@pytest.mark.control_plane
def test_what_a_thief_of_its_token_can_do_is_read_and_ask(room: Room) -> None:
    """Whether a token is good that the thief has, and what others may do: nothing is changed by that."""
    with acting_as(room.plane, room.plane.kubeconfig_of_service_account("virt-dra", "virt-dra-report")) as ask:
        assert ask("GET", "/api/v1/pods")[0] == 200
        assert ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", token_review("guess"))[0] == 201
        review = access_review(Viewer("ann"), resource_of(Pod))
        assert ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)[0] == 201
