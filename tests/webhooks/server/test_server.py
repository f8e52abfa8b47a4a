"""The server over real TLS on loopback: answers, limits, probes, metrics, logs."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from devtools.webhooks.serving import JSON, KNOWLEDGE, SPEC, Served, body, hang_up, serving, status, vm, vmi
from virt_dra.api.kubevirt_versions import Gates
from webhooks.knowledge import Knowledge, KubeVirtOnly
from webhooks.rules.reviewed_spec import VmObject
from webhooks.server.app import ServerLimits
from webhooks.server.log import json_logging
from webhooks.verdict import Verdict

NO_REQUEST: dict[str, Any] = {**SPEC, "domain": {"devices": {"gpus": [{"name": "g", "claimName": "c"}]}}}
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
ADMITTED = (
    200,
    {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": UID, "allowed": True}},
)


def run(folder: Path, test: Callable[[Served], Awaitable[None]], **options: Any) -> None:
    async def all_of_it() -> None:
        async with serving(folder, **options) as served:
            await test(served)

    asyncio.run(all_of_it())


def test_reviews_are_answered(tmp_path: Path) -> None:
    async def ask(served: Served) -> None:
        assert await served.ask(body(vmi())) == ADMITTED
        assert await served.ask(body(vm()), "/validate-vm?timeout=10s") == ADMITTED
        code, denied = await served.ask(body(vmi(NO_REQUEST)))
        assert (code, denied["response"]["allowed"]) == (200, False)
        assert denied["response"]["status"]["message"] == "requestName is required for DRA GPU"

    run(tmp_path, ask)


MAX = ServerLimits(body_bytes=2000)
TOO_LARGE = status(413, "RequestEntityTooLarge", "the body is larger than 2000 bytes, the limit of this server")


@pytest.mark.parametrize(
    ("path", "headers", "data", "want"),
    [
        pytest.param("/validate-vmi", JSON, b"{", None, id="not JSON"),
        pytest.param("/validate-vmi", JSON, b" " * 2001, TOO_LARGE, id="too large"),
        pytest.param(
            "/validate-vmi",
            {"Content-Type": "text/yaml"},
            b"{}",
            status(415, "UnsupportedMediaType", "Content-Type must be application/json, not text/yaml"),
            id="YAML",
        ),
        pytest.param(
            "/validate-vmi",
            {**JSON, "Content-Encoding": "br"},
            b"{}",
            status(415, "UnsupportedMediaType", "Content-Encoding is not supported; send plain JSON"),
            id="compressed",
        ),
        pytest.param(
            "/validate-pod",
            JSON,
            b"{}",
            status(
                404,
                "NotFound",
                "there is nothing at this path; the paths are /validate-vmi, "
                "/validate-vm, /mutate-vmi, /mutate-launcher-pod, /healthz, /readyz",
            ),
            id="another path",
        ),
        pytest.param(
            "/healthz", JSON, b"{}", status(405, "MethodNotAllowed", "only GET is possible here"), id="POST to a probe"
        ),
    ],
)
def test_what_is_no_review_gets_a_status(
    tmp_path: Path, path: str, headers: dict[str, str], data: bytes, want: object
) -> None:
    not_json = (
        "the body is not an AdmissionReview: line 1, column 2: not JSON: "
        "Expecting property name enclosed in double quotes"
    )

    async def ask(served: Served) -> None:
        assert await served.ask(data, path, headers) == (want or status(400, "BadRequest", not_json))
        assert await served.ask(body(vmi())) == ADMITTED, "and the next one is answered"

    run(tmp_path, ask, limits=MAX)


def test_a_get_is_no_review(tmp_path: Path) -> None:
    async def ask(served: Served) -> None:
        async with served.client.get(served.url("/validate-vmi")) as response:
            assert (response.status, response.headers["Allow"]) == (405, "POST")
            assert await response.json() == status(405, "MethodNotAllowed", "only POST is possible here")[1]

    run(tmp_path, ask)


def test_a_body_without_a_length_is_limited_too(tmp_path: Path) -> None:
    async def endless() -> Any:
        for _ in range(10_000):
            yield b" " * 1000

    async def ask(served: Served) -> None:
        async with served.client.post(served.url("/validate-vmi"), data=endless(), headers=JSON) as response:
            assert (response.status, await response.json()) == TOO_LARGE

    run(tmp_path, ask, limits=MAX)


def test_bodies_together_are_limited(tmp_path: Path) -> None:
    async def ask(served: Served) -> None:
        _, slow = await served.connect()
        slow.write(_head(1500) + b" " * 900)
        await _until(lambda: served.server._bodies.buffered == 900)
        busy = status(503, "ServiceUnavailable", "too many large requests at once; try again")
        assert await served.ask(b" " * 1500) == busy
        await hang_up(slow)
        await _until(lambda: served.server._bodies.buffered == 0)
        assert await served.ask(body(vmi())) == ADMITTED

    run(tmp_path, ask, limits=ServerLimits(body_bytes=2000, buffered_bytes=2000))


def _head(length: int, *more: str) -> bytes:
    lines = [
        "POST /validate-vmi HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {length}",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


def test_who_waits_for_leave_to_send_gets_it(tmp_path: Path) -> None:
    async def ask(served: Served) -> None:
        reader, writer = await served.connect()
        data = body(vmi())
        writer.write(_head(len(data), "Expect: 100-continue", "Connection: close"))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(data)
        head, _, content = (await reader.read()).partition(b"\r\n\r\n")
        assert (head[:15], json.loads(content)) == (b"HTTP/1.1 200 OK", ADMITTED[1])
        await hang_up(writer)

    run(tmp_path, ask)


@pytest.mark.slow
def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    async def ask(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(_head(100) + b"{")
        head, _, content = (await reader.read()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert json.loads(content) == status(408, "Timeout", "the review could not be received within 0.2 s")[1]
        await hang_up(writer)

    run(tmp_path, ask, limits=ServerLimits(seconds=0.2))


@pytest.mark.parametrize("sent", [b"", b"POST /validate-vmi HT"])
def test_a_connection_that_does_not_ask_is_closed(tmp_path: Path, sent: bytes) -> None:
    async def ask(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(sent)
        async with asyncio.timeout(30):
            with pytest.raises(ConnectionError):  # noqa: PT012 # either the read or the end of the connection tells it
                assert await reader.read() == b""
                raise ConnectionResetError
        await hang_up(writer)
        assert 'refused_connections_total{reason="slow"} 1.0' in (await served.plain("/metrics"))[1]

    run(tmp_path, ask, limits=ServerLimits(head_seconds=0.2))


@pytest.mark.slow
def test_a_connection_that_asked_may_be_idle_for_longer(tmp_path: Path) -> None:
    async def ask(served: Served) -> None:
        reader, writer = await served.connect()
        data = body(vmi())
        for pause in (1.2, 0):
            writer.write(_head(len(data)) + data)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK")
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            await asyncio.sleep(pause)
        await hang_up(writer)

    run(tmp_path, ask, limits=ServerLimits(head_seconds=1.0))


def test_connections_are_limited(tmp_path: Path) -> None:
    async def ask(served: Served) -> None:
        held = [await served.connect() for _ in range(3)]
        async with asyncio.timeout(30):
            with pytest.raises(ConnectionError):  # noqa: PT012 # as above
                assert await held[0][0].read() == b""
                raise ConnectionResetError
        assert sum(map(len, served.server._connections)) == 2
        for _, connection in held:
            await hang_up(connection)
        await _until(lambda: sum(map(len, served.server._connections)) == 0)
        assert await served.ask(body(vmi())) == ADMITTED

    run(tmp_path, ask, limits=ServerLimits(connections=2))


@pytest.mark.parametrize(
    "sent",
    [b"garbage\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"\0" * 9000],
)
def test_what_is_not_http_is_refused(tmp_path: Path, sent: bytes) -> None:
    log = StringIO()

    async def ask(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(sent)
        assert b" 400 Bad Request\r\n" in await reader.readline()
        await hang_up(writer)
        assert await served.ask(body(vmi())) == ADMITTED

    handler = json_logging(log, logging.INFO)
    try:
        run(tmp_path, ask)
    finally:
        logging.getLogger().removeHandler(handler)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [line["code"] for line in lines if line["message"] == "not a request in HTTP"] == [400]
    assert "Traceback" not in log.getvalue()


@dataclass(frozen=True)
class Held(KubeVirtOnly):
    """Knowledge whose answers wait until they are let go, or for so many seconds."""

    seconds: float = 30
    gates: Gates = KNOWLEDGE.gates
    asked: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)

    def preflight(self, subject: VmObject, old: VmObject | None = None) -> Verdict:
        self.asked.set()
        self.let_go.wait(self.seconds)
        return Verdict(allowed=True)


LARGE = body(vmi(annotations={"a": "x" * 70_000}))


def test_while_a_large_review_is_decided_others_are_answered(tmp_path: Path) -> None:
    held = Held()

    async def ask(served: Served) -> None:
        large = asyncio.create_task(served.ask(LARGE))
        await asyncio.to_thread(held.asked.wait, 30)
        assert await served.plain("/healthz") == (200, "ok\n")
        assert (await served.ask(body(vmi(NO_REQUEST))))[0] == 200
        assert not large.done()
        held.let_go.set()
        assert await large == ADMITTED

    run(tmp_path, ask, knowledge=held, limits=ServerLimits(seconds=30))


@pytest.mark.slow
def test_a_review_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    """It is answered at once, and the next one begins when the thread is free."""
    held = Held()

    async def ask(served: Served) -> None:
        try:
            assert await served.ask(LARGE, "/validate-vmi?timeout=1s") == status(
                504, "Timeout", "the review could not be decided within 0.5 s"
            )
            held.asked.clear()
            following = asyncio.create_task(served.ask(LARGE))
            assert (await served.ask(body(vmi(NO_REQUEST))))[0] == 200
            assert not held.asked.is_set()
        finally:
            held.let_go.set()
        assert await following == ADMITTED
        assert held.asked.is_set()

    run(tmp_path, ask, knowledge=held, limits=ServerLimits(seconds=20))


def test_without_knowledge_it_is_alive_but_not_ready(tmp_path: Path) -> None:
    unknown: Knowledge | None = None

    async def ask(served: Served) -> None:
        assert await served.plain("/healthz") == (200, "ok\n")
        assert await served.plain("/readyz") == (503, "the cluster's state isn't known yet\n")
        assert await served.ask(body(vmi())) == status(
            503, "ServiceUnavailable", "the cluster's state isn't known yet; try again"
        )

    run(tmp_path, ask, knowledge=unknown)


def test_probes_answer_with_and_without_tls(tmp_path: Path) -> None:
    async def ask(served: Served) -> None:
        for path in ("/healthz", "/readyz"):
            assert await served.plain(path) == (200, "ok\n")
            async with served.client.get(served.url(path)) as response:
                assert (response.status, await response.text()) == (200, "ok\n")
        async with served.client.get(served.url("/metrics")) as response:
            assert response.status == 404

    run(tmp_path, ask)


def test_metrics_count_what_happened(tmp_path: Path) -> None:
    async def ask(served: Served) -> None:
        for _ in range(3):
            await served.ask(body(vmi()))
        await served.ask(body(vm(NO_REQUEST)), "/validate-vm")
        await served.ask(b"nonsense")
        code, text = await served.plain("/metrics")
        assert code == 200
        for line in (
            'virt_dra_webhook_reviews_total{allowed="true",operation="CREATE",webhook="vmi"} 3.0',
            'virt_dra_webhook_reviews_total{allowed="false",operation="CREATE",webhook="vm"} 1.0',
            'virt_dra_webhook_review_duration_seconds_count{webhook="vmi"} 3.0',
            'virt_dra_webhook_failures_total{code="400"} 1.0',
            "virt_dra_webhook_requests_in_flight 1.0",
            "virt_dra_webhook_ready 1.0",
        ):
            assert f"\n{line}\n" in text, text
        expiry = next(
            line
            for line in text.splitlines()
            if line.startswith("virt_dra_webhook_certificate_expiry_timestamp_seconds ")
        )
        assert float(expiry.split()[1]) > 1.7e9

    run(tmp_path, ask)


def test_the_log_has_an_object_a_line_whatever_users_write(tmp_path: Path) -> None:
    log = StringIO()
    evil = 'a\n{"level": "error", "allowed": true}\u2028\x1b[31m"\\'
    handler = json_logging(log, logging.DEBUG)
    try:
        run(tmp_path, lambda served: _ask_three(served, evil))
    finally:
        logging.getLogger().removeHandler(handler)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    denied, admitted, bad = (
        next(line for line in lines if line["message"] == message)
        for message in ("denied", "admitted", "request without a verdict")
    )
    del denied["time"], denied["milliseconds"], admitted["time"], bad["time"]
    assert denied == {
        "level": "info",
        "logger": "virt_dra.webhook",
        "message": "denied",
        "webhook": "vmi",
        "uid": evil,
        "operation": "CREATE",
        "kind": "VirtualMachineInstance",
        "namespace": evil,
        "name": evil,
        "user": evil,
        "dryRun": False,
        "allowed": False,
        "operations": 0,
        "reason": "requestName is required for DRA GPU",
        "warnings": 0,
    }
    assert len(admitted["user"]) == 512
    assert (bad["level"], bad["code"]) == ("warning", 400)
    assert log.getvalue().isascii()


async def _ask_three(served: Served, evil: str) -> None:
    await served.ask(body(vmi(NO_REQUEST), uid=evil, name=evil, namespace=evil, userInfo={"username": evil}))
    await served.ask(body(vmi(), userInfo={"username": "u" * 10_000}))
    await served.ask(body(kind={"kind": evil}))


def test_faults_of_ours_are_logged_by_kind_and_place(tmp_path: Path) -> None:
    class Broken(Held):
        def preflight(self, subject: VmObject, old: VmObject | None = None) -> Verdict:
            raise KeyError("x\ny")

    log = StringIO()
    handler = json_logging(log, logging.INFO)

    async def ask(served: Served) -> None:
        async with served.client.post(served.url("/validate-vmi"), data=body(vmi()), headers=JSON) as response:
            assert response.status == 500
            assert "KeyError" not in await response.text()

    try:
        run(tmp_path, ask, knowledge=Broken())
    finally:
        logging.getLogger().removeHandler(handler)
    told = next(json.loads(line) for line in log.getvalue().splitlines() if "KeyError" in line)
    assert told["error"] == "KeyError: 'x\\ny'"
    assert told["at"].startswith("tests.webhooks.server.test_server:")
