"""Manifests at http addresses: read as those of files are, with errors that say what is wrong."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from virt_dra.cluster import web_files
from virt_dra.cluster.files import read_inputs

POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {}\n"


class _Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/two.yaml":
            self._answer(200, POD.format("a") + "---\n" + POD.format("b"))
        elif self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/two.yaml")
            self.end_headers()
        elif self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "ftp://localhost/two.yaml")
            self.end_headers()
        elif self.path == "/cut":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(POD.format("a").encode())
        elif self.path == "/slow":
            threading.Event().wait(2)
        elif self.path == "/drip":
            with suppress(OSError):
                while True:
                    self.wfile.write(b"X")
                    time.sleep(0.02)
        elif self.path == "/endless":
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while True:
                    self.wfile.write(b"#" * 2**20)
        elif self.path == "/page":
            self._answer(200, "<html>\n<body>Sign in</body>")
        else:
            self._answer(404, "no")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on standard error."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with _served() as address:
        yield address


@contextmanager
def _served() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


@pytest.mark.parametrize("path", ["/two.yaml", "/moved"])
def test_an_address_is_read_like_a_file(site: str, path: str) -> None:
    loaded = read_inputs([site + path, site + path])
    assert [(str(obj.object.key), str(obj.source)) for obj in loaded.objects] == [
        ("a", f"{site}{path}:1"),
        ("b", f"{site}{path}:6 (document 2)"),
    ]
    assert loaded.problems == ()


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("{site}/none", "{site}/none: the server answers 404 Not Found"),
        ("{site}/elsewhere", "{site}/elsewhere: the server redirects to an address that is neither http nor https"),
        ("{site}/cut", "{site}/cut: the connection ended before the file did"),
        ("{site}/slow", "{site}/slow: the server doesn't answer within 0.5 s"),
        ("http://127.0.0.1:1/x", "http://127.0.0.1:1/x: Connection refused"),
        ("http://", "http://: not an address: it names no server"),
        ("http://[", "http://[: not an address: Invalid IPv6 URL"),
        ("http://host:port/x", "http://host:port/x: not an address: Port could not be cast to integer value as 'port'"),
        ("http://a b/x", "http://a b/x: URL can't contain control characters. 'a b' (found at least ' ')"),
    ],
)
def test_what_cannot_be_fetched_says_why(
    site: str, address: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_files, "ANSWER_SECONDS", 0.5)
    loaded = read_inputs([address.format(site=site)])
    assert (loaded.objects, [str(problem) for problem in loaded.problems]) == ((), [problem.format(site=site)])


def test_a_password_is_neither_sent_nor_shown(site: str) -> None:
    address = site.replace("http://", "http://user:secret@") + "/two.yaml"
    (problem,) = read_inputs([address]).problems
    assert "secret" not in str(problem)
    assert str(problem).endswith(
        "/two.yaml: an address can't have a password, which messages would show; "
        "fetch the file with another program, and give it with -f -"
    )


def test_a_page_that_is_no_manifest_says_where(site: str) -> None:
    (problem,) = read_inputs([site + "/page"]).problems
    assert str(problem) == f"{site}/page:1: a Kubernetes object must be a JSON object"


def test_a_file_that_is_too_large_is_not_read_to_its_end(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_files, "MOST_BYTES", 10)
    (problem,) = read_inputs([site + "/two.yaml"]).problems
    assert str(problem) == f"{site}/two.yaml: larger than 0 MiB; fetch it with another program, and give its files"


def test_a_file_without_end_takes_bounded_memory(site: str) -> None:
    tracemalloc.start()
    try:
        (problem,) = read_inputs([site + "/endless"]).problems
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert str(problem) == f"{site}/endless: larger than 128 MiB; fetch it with another program, and give its files"
    assert peak < 200 * 2**20


def test_a_header_that_comes_byte_by_byte_ends(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_files, "WHOLE_SECONDS", 0.5)
    (problem,) = read_inputs([site + "/drip"]).problems
    assert str(problem) == f"{site}/drip: not there after 0.5 s"


def test_a_file_of_that_name_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (problem,) = read_inputs(["httpx://x"]).problems
    assert str(problem) == "httpx://x: no such file or folder"
