"""Leader election on a real control plane: one leads, the next takes over, and never do two."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from aiohttp import web

from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.scripted_server import (
    Answer,
    ScriptedServer,
    asking,
    cut_answer,
    cutting_proxy,
    json_answer,
    scripted_server,
    status,
)
from virt_dra.api.wire import Json
from virt_dra.cluster.kube.cluster import KubeCluster, connect
from virt_dra.cluster.kube.leader import LEASE, LeadershipLost, LeaseTiming, lead, may_take, taken
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.cluster.kube.raw import RawObjects

TIMING = LeaseTiming(duration=4, renew_deadline=3, retry=1)


class Leading:
    """Who leads; fails when two do."""

    def __init__(self) -> None:
        self.now: set[str] = set()
        self.order: list[str] = []
        self._changed = asyncio.Event()

    def work(self, name: str, seconds: float = 60, slow_end: float = 0.0) -> Callable[[], asyncio.Future[None]]:
        async def run() -> None:
            assert not self.now, f"{name} leads beside {self.now}"
            self.now.add(name)
            self.order.append(name)
            self._changed.set()
            try:
                await asyncio.sleep(seconds)
            finally:
                await asyncio.sleep(slow_end)
                self.now.discard(name)

        return lambda: asyncio.ensure_future(run())

    async def until(self, name: str, patience: float = 20) -> None:
        async with asyncio.timeout(patience):
            while name not in self.now:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def client(plane: ControlPlane) -> AsyncIterator[KubeCluster]:
    async with connect(str(plane.kubeconfig), limits=ClientLimits(qps=0)) as cluster:
        yield cluster


async def spec_of(cluster: KubeCluster, namespace: str) -> dict[str, object]:
    spec: dict[str, object] = (await cluster.get_raw(LEASE, "Lease", "op", namespace))["spec"]
    return spec


@pytest.mark.control_plane
async def test_work_that_ends_gives_the_lease_back(control_plane: ControlPlane, namespace: str) -> None:
    leading = Leading()
    told: list[bool] = []
    async with client(control_plane) as cluster:
        await lead(cluster, "op", namespace, "a", leading.work("a", 0.01), timing=TIMING, leading=told.append)
        spec = await spec_of(cluster, namespace)
        assert (spec.get("holderIdentity"), spec["leaseDurationSeconds"], told) == (None, 1, [True, False])


@pytest.mark.control_plane
async def test_a_leader_that_stops_is_followed_at_once(control_plane: ControlPlane, namespace: str) -> None:
    leading = Leading()
    async with client(control_plane) as cluster:
        first = asyncio.create_task(lead(cluster, "op", namespace, "a", leading.work("a", slow_end=0.2), timing=TIMING))
        await leading.until("a")
        second = asyncio.create_task(lead(cluster, "op", namespace, "b", leading.work("b"), timing=TIMING))
        await asyncio.sleep(1.5)
        assert leading.order == ["a"]
        spec = await spec_of(cluster, namespace)
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec.get("leaseTransitions", 0)) == ("a", 4, 0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await leading.until("b", patience=2)  # less than the lease's duration
        assert (await spec_of(cluster, namespace))["leaseTransitions"] == 1
        second.cancel()
        await asyncio.wait({second})


@pytest.mark.control_plane
async def test_the_works_exception_comes_out_and_the_lease_is_free(control_plane: ControlPlane, namespace: str) -> None:
    async def failing() -> None:
        raise ZeroDivisionError

    async with client(control_plane) as cluster:
        with pytest.raises(ZeroDivisionError):
            await lead(cluster, "op", namespace, "a", failing, timing=TIMING)
        assert (await spec_of(cluster, namespace)).get("holderIdentity") is None


@pytest.mark.control_plane
@pytest.mark.parametrize("how", ["cut", "hung"])
async def test_a_leader_that_cannot_renew_stops_before_the_next_begins(
    control_plane: ControlPlane, namespace: str, tmp_path: Path, how: str
) -> None:
    """``hung``: its connections stay open, but nothing comes back."""

    leading = Leading()
    async with client(control_plane) as near, cutting_proxy("127.0.0.1", control_plane.port) as proxy:
        path = tmp_path / "kubeconfig"
        path.write_text(Path(control_plane.kubeconfig).read_text().replace(f":{control_plane.port}", f":{proxy.port}"))
        async with connect(str(path), limits=ClientLimits(qps=0)) as far:
            first = asyncio.create_task(lead(far, "op", namespace, "a", leading.work("a"), timing=TIMING))
            await leading.until("a")
            second = asyncio.create_task(lead(near, "op", namespace, "b", leading.work("b"), timing=TIMING))
            if how == "cut":
                proxy.refuse = True
                proxy.cut()
            else:
                proxy.hang = True
            with pytest.raises(LeadershipLost, match=rf"^the lease {namespace}/op could not be renewed for 3 s$"):
                await first
            assert leading.now == set()
            await leading.until("b")
            assert leading.order == ["a", "b"]
            second.cancel()
            await asyncio.wait({second})


@pytest.mark.control_plane
async def test_a_leader_whose_lease_was_taken_stops(control_plane: ControlPlane, namespace: str) -> None:
    leading = Leading()
    async with client(control_plane) as cluster:
        first = asyncio.create_task(lead(cluster, "op", namespace, "a", leading.work("a"), timing=TIMING))
        await leading.until("a")
        await cluster.patch_raw(LEASE, "Lease", "op", namespace, merge={"spec": {"holderIdentity": "thief"}})
        with pytest.raises(LeadershipLost, match=rf"^thief has taken the lease {namespace}/op$"):
            await first
        assert leading.now == set()
        assert (await spec_of(cluster, namespace))["holderIdentity"] == "thief"


@pytest.mark.parametrize("timing", [(3, 3, 1), (3, 2, 2), (3, 2, 0)])
def test_timing_that_makes_no_sense_is_refused(timing: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match="must be longer than its renew deadline"):
        LeaseTiming(*timing)


@pytest.mark.parametrize(
    ("spec", "unchanged", "wanted"),
    [
        ({}, 0, True),
        ({"holderIdentity": ""}, 0, True),
        ({"holderIdentity": "me", "leaseDurationSeconds": 15}, 0, True),
        ({"holderIdentity": "you", "leaseDurationSeconds": 15}, 14.9, False),
        ({"holderIdentity": "you", "leaseDurationSeconds": 15}, 15, True),
        ({"holderIdentity": "you", "leaseDurationSeconds": 1}, 1, True),
        ({"holderIdentity": "you"}, 3.9, False),
        ({"holderIdentity": "you"}, 4, True),
    ],
)
def test_a_lease_is_taken_when_it_is_free_or_ran_out(spec: dict[str, object], unchanged: float, wanted: bool) -> None:
    assert may_take(spec, "me", unchanged, 4) is wanted


def test_renewing_keeps_what_taking_wrote() -> None:
    first = taken({"strategy": "kept"}, "me", 15, datetime(2026, 1, 1, tzinfo=UTC))
    assert first == {
        "strategy": "kept",
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 1,
    }
    later = datetime(2026, 1, 1, 0, 0, 2, 5, tzinfo=UTC)
    assert taken(first, "me", 15, later) == {**first, "renewTime": "2026-01-01T00:00:02.000005Z"}
    assert taken(first, "you", 15, later)["leaseTransitions"] == 2


LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/op"


Trouble = Answer | Literal["lost", "slow"]
"""A refusal; or the Lease is given back, and the answer is lost or late."""


class LeaseServer:
    """The Lease of a scripted API server, which has trouble with the first requests to give it back."""

    def __init__(self, server: ScriptedServer, trouble: Sequence[Trouble]) -> None:
        metadata = {"name": "op", "namespace": "ns", "resourceVersion": "1"}
        self.lease: Json = {"apiVersion": LEASE, "kind": "Lease", "metadata": metadata, "spec": {}}
        self._server, self._trouble = server, list(trouble)
        leases = {"name": "leases", "kind": "Lease", "namespaced": True, "verbs": ["get", "update"]}
        server.answers("GET", f"/apis/{LEASE}", json_answer({"kind": "APIResourceList", "resources": [leases]}))
        server.answers("GET", LEASE_PATH, self._read)
        server.answers("PUT", LEASE_PATH, self._written)

    async def _read(self, request: web.BaseRequest) -> web.StreamResponse:
        return await json_answer(self.lease)(request)

    async def _written(self, request: web.BaseRequest) -> web.StreamResponse:
        sent = json.loads(self._server.bodies[-1])
        version = self.lease["metadata"]["resourceVersion"]
        if sent["metadata"]["resourceVersion"] != version:
            return await status(409, "Conflict", "the object has been modified")(request)
        trouble = self._trouble.pop(0) if self._trouble and not sent["spec"]["holderIdentity"] else None
        if callable(trouble):
            return await trouble(request)
        if trouble == "slow":
            await asyncio.sleep(1.2)  # longer than TIMING.retry
        self.lease = {**sent, "metadata": {**sent["metadata"], "resourceVersion": f"{int(version) + 1}"}}
        return await (cut_answer() if trouble == "lost" else json_answer(self.lease))(request)


UNAUTHORIZED = status(401, "Unauthorized", "Unauthorized")
BUSY = status(429, "TooManyRequests", "too many requests", {"Retry-After": "1"})


@pytest.mark.parametrize(
    "trouble",
    [[], [UNAUTHORIZED], [UNAUTHORIZED, UNAUTHORIZED, UNAUTHORIZED], [BUSY], ["lost"], ["slow"], [BUSY, "lost"]],
    ids=["none", "401", "401 three times", "429", "lost", "slow", "429, then lost"],
)
async def test_a_lease_is_given_back_whatever_a_server_under_load_answers_first(
    tmp_path: Path, trouble: list[Trouble]
) -> None:
    async with scripted_server() as server, asking(server, tmp_path) as cluster:
        there = LeaseServer(server, trouble)
        await lead(cluster, "op", "ns", "a", Leading().work("a", 0.01), timing=TIMING)
        spec = there.lease["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (None, 1, 1)


async def test_giving_a_lease_back_is_tried_no_longer_than_it_lasts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted_server() as server, asking(server, tmp_path) as cluster:
        there = LeaseServer(server, [UNAUTHORIZED] * 1000)
        began = asyncio.get_running_loop().time()
        await lead(cluster, "op", "ns", "a", Leading().work("a", 0.01), timing=TIMING)
        assert there.lease["spec"]["holderIdentity"] == "a"
        assert 1 < asyncio.get_running_loop().time() - began <= TIMING.duration + 0.5
        assert "the lease ns/op could not be given back: " in caplog.text


async def test_a_lease_that_another_has_taken_meanwhile_stays_with_it(tmp_path: Path) -> None:
    async with scripted_server() as server, asking(server, tmp_path) as cluster:

        async def taken_by_another(request: web.BaseRequest) -> web.StreamResponse:
            metadata = {**there.lease["metadata"], "resourceVersion": "7"}
            there.lease = {**there.lease, "metadata": metadata, "spec": {"holderIdentity": "b"}}
            return await UNAUTHORIZED(request)

        there = LeaseServer(server, [taken_by_another])
        await lead(cluster, "op", "ns", "a", Leading().work("a", 0.01), timing=TIMING)
        assert there.lease["spec"]["holderIdentity"] == "b"


@pytest.mark.control_plane
async def test_a_lease_that_was_taken_while_its_taker_was_told_to_go_is_given_back(
    control_plane: ControlPlane, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nobody would lead for as long as it lasts, or for ever where the next ones don't live that long."""

    taken_there = asyncio.Event()
    create = RawObjects.create_raw

    async def answered_late(objects: RawObjects, raw: Mapping[str, Any]) -> Json:
        made = await create(objects, raw)
        taken_there.set()
        await asyncio.sleep(60)
        return made

    monkeypatch.setattr(RawObjects, "create_raw", answered_late)
    leading = Leading()
    async with client(control_plane) as cluster:
        first = asyncio.create_task(lead(cluster, "op", namespace, "a", leading.work("a"), timing=TIMING))
        await taken_there.wait()
        assert (await spec_of(cluster, namespace))["holderIdentity"] == "a"
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await spec_of(cluster, namespace)).get("holderIdentity") is None
        assert leading.order == []
