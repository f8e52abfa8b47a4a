"""A server that lies to whoever reads it: answers, lists and events without end. Each command ends with an error that
says what is wrong, in bounded memory, which is measured."""

from __future__ import annotations

import gzip
import json
import os
import re
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from devtools.cluster.scripted_server import VERSION, write_kubeconfig
from webhooks.tls.authority import SystemKeys, bootstrap

MIB = 2**20
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
LARGEST_MIB = 700
"""The most that a client may take at its peak; the lies of which it reads all would be GiB."""

PROGRAM = """
import sys
from pathlib import Path
from virt_dra.cli.start import main
try:
    main()
finally:
    peak = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
    print("peak KiB", peak, file=sys.stderr)
"""

Lie = Callable[["LyingRequest"], None]


class LyingRequest(BaseHTTPRequestHandler):
    """Answers each request to a path by its lie; other paths have an empty list."""

    protocol_version = "HTTP/1.1"
    lies: dict[str, Lie]

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        lie = self.lies.get(path)
        try:
            if lie is not None:
                lie(self)
            elif path == "/version":
                self.answer(json.dumps(VERSION).encode())
            else:
                status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not served"}
                self.answer(json.dumps(status).encode(), 404)
        except OSError:
            self.close_connection = True  # the client has gone

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.path).query)

    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, piece: bytes, status: int = 200) -> None:
        """A body of pieces, without end."""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while True:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on standard error."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has enough closes its connection."""


@contextmanager
def lying(lies: dict[str, Lie], folder: Path, *, tls: bool = False) -> Iterator[Path]:
    """The kubeconfig of such a server."""

    class Handler(LyingRequest):
        pass

    Handler.lies = lies
    with _Server(("127.0.0.1", 0), Handler) as server:
        address, trust = f"http://127.0.0.1:{server.server_port}", {}
        if tls:
            bundle = bootstrap(["localhost"], datetime.now(UTC), SystemKeys())
            for name, content in bundle.to_files().items():
                (folder / name).write_bytes(content)
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
            server.socket = context.wrap_socket(server.socket, server_side=True)
            address, trust = (
                f"https://localhost:{server.server_port}",
                {"certificate-authority": str(folder / "ca.crt")},
            )
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        try:
            yield write_kubeconfig(folder, address, {}, trust)
        finally:
            server.shutdown()
            serving.join()


def page(items: list[dict[str, Any]], following: str = "") -> bytes:
    meta = {"resourceVersion": "5", **({"continue": following} if following else {})}
    return json.dumps({"kind": "ResourceSliceList", "metadata": meta, "items": items}, separators=(",", ":")).encode()


def pages_of(number: int, item: Callable[[int], dict[str, Any]]) -> Lie:
    """Pages of so many items without end, each with another token."""

    def lie(request: LyingRequest) -> None:
        begin = int(request.query.get("continue", ["0"])[0])
        request.answer(page([item(begin + index) for index in range(number)], str(begin + number)))

    return lie


def a_slice(number: int, **spec: Any) -> dict[str, Any]:
    pool = {"name": f"n{number}", "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"s{number}", "uid": f"u{number}", "resourceVersion": "1"},
        "spec": {"driver": "gpu.example.com", "pool": pool, "nodeName": f"n{number}", **spec},
    }


def bomb(request: LyingRequest) -> None:
    """500 MiB of JSON in half a MiB of gzip."""
    request.answer(_bomb(), Content_Encoding="gzip")


@cache
def _bomb() -> bytes:
    body = b'{"kind":"ResourceSliceList","metadata":{"resourceVersion":"5","x":"'
    return gzip.compress(body + b"0" * (500 * MIB) + b'"},"items":[]}', 1)


LIES: dict[str, tuple[str, Lie, str]] = {
    "gzip": (SLICES, bomb, "/apis/resource.k8s.io/v1/resourceslices answers more than 32 MiB, as no API server does"),
    "endless-body": (
        SLICES,
        lambda request: request.stream(b"0" * MIB),
        "/apis/resource.k8s.io/v1/resourceslices answers more than 32 MiB, as no API server does",
    ),
    "endless-refusal": (
        SLICES,
        lambda request: request.stream(b"0" * MIB, 500),
        "/apis/resource.k8s.io/v1/resourceslices answers more than 32 MiB, as no API server does",
    ),
    "endless-version": (
        "/version",
        lambda request: request.stream(b"0" * MIB),
        "/version answers more than 32 MiB, as no API server does",
    ),
    "same-page": (
        SLICES,
        lambda request: request.answer(page([a_slice(1)], "again")),
        "/apis/resource.k8s.io/v1/resourceslices repeats a page without end, as no API server does",
    ),
    "endless-pages": (
        SLICES,
        pages_of(500, lambda number: a_slice(number, devices=[{"name": f"gpu-{index}"} for index in range(40)])),
        "take more than 400 MiB of memory: if that is your cluster, and as large, set VIRT_DRA_LIVE_MIB to more MiB",
    ),
    "pages-larger-than-asked": (
        SLICES,
        pages_of(5_000, lambda number: {"metadata": {"name": f"s{number}"}}),
        "take more than 400 MiB of memory: if that is your cluster, and as large, set VIRT_DRA_LIVE_MIB to more MiB",
    ),
    "only-braces": (
        SLICES,
        lambda request: request.answer(page([a_slice(1, devices=[{}] * 2_000_000)])),
        "/apis/resource.k8s.io/v1/resourceslices answers more than 262,144 JSON objects and lists, as no",
    ),
    "only-brackets": (
        SLICES,
        lambda request: request.answer(page([a_slice(1, devices=[[]] * 6_000_000)])),
        "/apis/resource.k8s.io/v1/resourceslices answers more than 262,144 JSON objects and lists, as no",
    ),
    "redirection": (
        SLICES,
        lambda request: request.answer(b"", 307, Location="http://127.0.0.1:1/latest/meta-data"),
        "/apis/resource.k8s.io/v1/resourceslices redirects to 'http://127.0.0.1:1/latest/meta-data', as no API server",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("path", "lie", "wanted"), LIES.values(), ids=LIES)
def test_a_command_ends_with_an_error_in_bounded_memory(path: str, lie: Lie, wanted: str, tmp_path: Path) -> None:
    began = time.monotonic()
    with lying({path: lie}, tmp_path) as kubeconfig:
        code, text, peak = _asked(kubeconfig, {"VIRT_DRA_LIVE_MIB": "400"})
    assert code == 2, text
    assert wanted in text
    assert text.count("\n") == 1, text
    assert peak < LARGEST_MIB * MIB
    assert time.monotonic() - began < 120


@pytest.mark.slow
def test_a_bomb_over_tls(tmp_path: Path) -> None:
    with lying({SLICES: bomb}, tmp_path, tls=True) as kubeconfig:
        code, text, peak = _asked(kubeconfig, {})
    assert (code, "answers more than 32 MiB" in text) == (2, True), text
    assert peak < LARGEST_MIB * MIB


@pytest.mark.slow
def test_a_list_of_ten_thousand_slices_is_read(tmp_path: Path) -> None:
    def honest(request: LyingRequest) -> None:
        begin = int(request.query.get("continue", ["0"])[0])
        end = min(begin + int(request.query["limit"][0]), 10_000)
        devices = [{"name": f"gpu-{index}"} for index in range(8)]
        items = [a_slice(number, devices=devices) for number in range(begin, end)]
        request.answer(page(items, str(end) if end < 10_000 else ""))

    with lying({SLICES: honest}, tmp_path) as kubeconfig:
        code, text, peak = _asked(kubeconfig, {})
    assert code == 0, text
    assert peak < LARGEST_MIB * MIB


def test_a_limit_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with lying({}, tmp_path) as kubeconfig:
        code, text, _ = _asked(kubeconfig, {"VIRT_DRA_LIVE_MIB": "2GiB"})
    assert (code, text) == (2, "error: VIRT_DRA_LIVE_MIB: must be a number of MiB, such as 2048: '2GiB'\n")


def _asked(kubeconfig: Path, environment: dict[str, str]) -> tuple[int, str, int]:
    """Exit code, standard error and the peak memory in bytes of `virt-dra get pools --live`."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, "get", "pools", "--live", "--kubeconfig", str(kubeconfig)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    match = re.search(r"peak KiB (\d+)\n", ended.stderr)
    assert match is not None, ended.stderr
    return ended.returncode, ended.stderr.replace(match[0], ""), int(match[1]) * 1024
