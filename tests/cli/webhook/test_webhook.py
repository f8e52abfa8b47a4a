"""``virt-dra webhook`` as a process: it serves, judges by the objects of its files, and goes without losing a
request."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from devtools.webhooks.serving import body, vmi
from virt_dra.cli.main import cli
from virt_dra.cli.shared.extras import missing_extra
from webhooks.tls.authority import SystemKeys

PROGRAM = "from virt_dra.cli.main import main; main()"


@dataclass
class Process:
    process: subprocess.Popen[str]
    folder: Path
    port: int
    plain_port: int

    def connect(self) -> ssl.SSLSocket:
        trust = ssl.create_default_context(cafile=str(self.folder / "current" / "ca.crt"))
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        return trust.wrap_socket(plain, server_hostname="localhost")

    def ask(self, data: bytes) -> Any:
        with self.connect() as connection:
            connection.sendall(head(len(data)) + data)
            return json.loads(answer(connection)[1])

    def readiness(self) -> int:
        """The status code, or 0 where nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.plain_port}/readyz", timeout=30) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except urllib.error.URLError:
            return 0


def head(length: int) -> bytes:
    return (
        "POST /validate-vmi?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        f"application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def answer(connection: ssl.SSLSocket) -> tuple[bytes, bytes]:
    with connection.makefile("rb") as stream:
        first, length = stream.readline(), 0
        for line in stream:
            if line == b"\r\n":
                break
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return first, stream.read(length)


@contextmanager
def running(folder: Path, *options: str) -> Iterator[Process]:
    ports = ("--host", "127.0.0.1", "--port", "0", "--plain-port", "0")
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        "webhook",
        "--self-signed",
        str(folder),
        "--dns-name",
        "localhost",
        *ports,
        *options,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            serving = json.loads(process.stderr.readline())
            assert serving["message"] == "serving"
            yield Process(process, folder, serving["port"], serving["plainPort"])
        finally:
            process.kill()


def test_objects_of_its_files_are_looked_up(tmp_path: Path) -> None:
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t", "namespace": "team-a"},
        "spec": {"spec": {"devices": {"requests": [{"name": "other", "exactly": {"deviceClassName": "gpu"}}]}}},
    }
    (tmp_path / "cluster.json").write_text(json.dumps(template))
    with running(
        tmp_path / "tls", "-f", str(tmp_path / "cluster.json"), "--announce", "0", "--deny", "request-missing"
    ) as process:
        response = process.ask(body(vmi()))["response"]
        elsewhere = process.ask(body(vmi(), namespace="team-b"))["response"]
        process.process.terminate()
        assert process.process.wait(30) == 0
    assert not response["allowed"]
    assert "[request-missing]" in response["status"]["message"]
    assert elsewhere["allowed"], "what isn't there yet may come"
    assert any("[template-missing]" in warning for warning in elsewhere["warnings"])
    assert "team-a" not in json.dumps(elsewhere)


@pytest.mark.slow
def test_it_is_stopped_in_the_middle_of_a_request(tmp_path: Path) -> None:
    data = body(vmi())
    with running(tmp_path, "--announce", "0.5") as process, process.connect() as connection:
        assert process.readiness() == 200
        connection.sendall(head(len(data)) + data[:50])
        process.process.send_signal(signal.SIGTERM)
        until = time.monotonic() + 30
        while process.readiness() == 200:
            assert time.monotonic() < until
        connection.sendall(data[50:])
        first, content = answer(connection)
        assert first == b"HTTP/1.1 200 OK\r\n"
        assert json.loads(content)["response"]["allowed"] is True
        assert process.process.wait(30) == 0
        assert process.process.stderr is not None
        lines = [json.loads(line) for line in process.process.stderr]
    assert [line["message"] for line in lines] == ["shutting down", "stopped"]


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ([], "Error: give either --tls-dir or --self-signed\n"),
        (["--tls-dir", "a", "--self-signed", "b"], "Error: give either --tls-dir or --self-signed\n"),
        (["--self-signed", "b"], "Error: --self-signed needs --service or --dns-name\n"),
        (
            ["--tls-dir", "a", "--dns-name", "b"],
            "Error: --dns-name and --service go with an authority of our own, not with --tls-dir\n",
        ),
        (
            ["--service", "a"],
            "Error: Invalid value for '--service': 'a': write SERVICE.NAMESPACE, e.g. virt-dra-webhook.virt-dra\n",
        ),
        (
            ["--kubevirt-version", "new"],
            "Error: Invalid value for '--kubevirt-version': 'new' is no KubeVirt "
            "version; write for example 1.9, 1.8.3 or main\n",
        ),
        (["--tls-dir", "a"], "error: a/tls.crt: no such file\n"),
        (["--self-signed", "b", "--dns-name", "a b"], "error: b: 'a b' is neither a DNS name nor an IP address\n"),
        (["--live", "-f", "a.yaml"], "Error: give either --live or -f\n"),
        (["--context", "here"], "Error: --kubeconfig and --context go with --live\n"),
        (["--live"], "Error: give either --tls-dir or --self-signed\n"),
        (["-f", "none.yaml", "--tls-dir", "a"], "error: none.yaml: no such file or folder\n"),
    ],
)
def test_what_cannot_be_served_is_told(
    options: list[str], want: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["webhook", *options])
    assert (result.exit_code, result.stderr[-len(want) :]) == (2, want)


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options = [
            "--self-signed",
            str(tmp_path),
            "--dns-name",
            "localhost",
            "--host",
            "127.0.0.1",
            "--port",
            port,
            "--plain-port",
            "0",
        ]
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, "webhook", *options], stderr=subprocess.PIPE, text=True, check=False
        )
    told = f"error: cannot listen on 127.0.0.1, ports {port} and 0: {os.strerror(errno.EADDRINUSE)}\n"
    assert (ended.returncode, ended.stderr) == (2, told)


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["aiohttp", "cryptography", "prometheus_client"])
def test_without_its_libraries_it_says_how_to_get_them(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; {PROGRAM}"
    ended = subprocess.run(
        [sys.executable, "-c", program, "webhook", "--tls-dir", "a"], stderr=subprocess.PIPE, text=True, check=False
    )
    want = missing_extra("this command needs aiohttp, cryptography and prometheus-client", "webhook")
    assert (ended.returncode, ended.stderr) == (2, f"Error: {want}\n")


def test_keys_are_made_by_the_system() -> None:
    keys = SystemKeys()
    assert keys.private_key() != keys.private_key()
    assert 0 < keys.serial_number() < 2**159
