"""``virt-dra report-server`` as a process beside a real API server, viewers' tokens, and requests as browsers and curl
make them."""

from __future__ import annotations

import http.client
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from devtools.cluster.control_plane import ControlPlane
from devtools.deployed.webhook import PROGRAM, log_reader, until

Json = dict[str, Any]
COOKIE = "__Host-virt-dra-report"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


@dataclass(frozen=True)
class Answered:
    """What a client gets. ``cookie``: the session's id, if one was set."""

    status: int
    headers: http.client.HTTPMessage
    body: str

    @property
    def cookie(self) -> str:
        return (self.headers["Set-Cookie"] or "").partition("=")[2].partition(";")[0]


@dataclass
class RunningReport:
    """The process. ``log``: what it has said so far, one object a line."""

    process: subprocess.Popen[str]
    tls: Path
    log: list[Json] = field(default_factory=list)

    def said(self, message: str) -> list[Json]:
        return [line for line in tuple(self.log) if line["message"] == message]

    @property
    def port(self) -> int:
        return int(self._serving()["port"])

    @property
    def plain_port(self) -> int:
        return int(self._serving()["plainPort"])

    def _serving(self) -> Json:
        def said() -> list[Json]:
            assert self.process.poll() is None, f"it ended: {self.log[-5:]}"
            return self.said("serving")

        line: Json = until(said)[0]
        return line

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.tls / "current" / "ca.crt"))

    def wait_until_ready(self) -> None:
        until(lambda: self.plain("/readyz")[0] == 200)

    def plain(self, path: str) -> tuple[int, str]:
        """A request to the plain port."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.plain_port, timeout=30)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def metrics(self) -> dict[str, float]:
        """Values by name with labels."""
        lines = self.plain("/metrics")[1].splitlines()
        return {
            name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        }

    def connected(self, seconds: float = 60.0) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("localhost", self.port, context=self.context, timeout=seconds)

    def ask(
        self,
        path: str,
        *,
        token: str = "",
        cookie: str = "",
        method: str = "GET",
        body: str | None = None,
        **headers: str,
    ) -> Answered:
        """``headers``: further ones, with _ for -."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        given |= {"Authorization": f"Bearer {token}"} if token else {}
        given |= {"Cookie": f"{COOKIE}={cookie}"} if cookie else {}
        with closing(self.connected()) as connection:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            return Answered(answer.status, answer.headers, answer.read().decode(errors="replace"))

    def sign_in(self, token: str, **headers: str) -> Answered:
        """The form, as a browser sends it; headers may be given otherwise."""
        usual = {
            "Origin": f"https://localhost:{self.port}",
            "Content_Type": "application/x-www-form-urlencoded",
            "Accept": "text/html",
        }
        return self.ask("/login", method="POST", body=urlencode({"token": token}), **{**usual, **headers})

    def sign_out(self, cookie: str, **headers: str) -> Answered:
        usual = {"Origin": f"https://localhost:{self.port}", "Content_Length": "0"}
        return self.ask("/logout", method="POST", cookie=cookie, **{**usual, **headers})

    @contextmanager
    def events(
        self, *, token: str = "", cookie: str = "", seconds: float = 60.0
    ) -> Iterator[Iterator[tuple[str, str]]]:
        """The stream's events, kind and data, as they come; a comment is an event without a kind. It ends where the
        server ends it."""
        with closing(self.connected(seconds)) as connection:
            headers = {"Authorization": f"Bearer {token}"} if token else {"Cookie": f"{COOKIE}={cookie}"}
            connection.request("GET", "/events", headers={**headers, "Accept": "text/event-stream"})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()

            def read() -> Iterator[tuple[str, str]]:
                kind = ""
                for raw in answer:
                    line = raw.decode().rstrip("\n")
                    name, _, value = line.partition(": ")
                    if name == "event":
                        kind = value
                    elif name == "data":
                        yield kind, value
                    elif line.startswith(":"):
                        yield "", line

            yield read()


@contextmanager
def report_server(kubeconfig: Path, folder: Path, *options: str) -> Iterator[RunningReport]:
    """``virt-dra report-server`` on loopback, by a certificate of its own in the folder."""
    tls = folder / "tls"
    listening = (
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--plain-port",
        "0",
        "--self-signed",
        str(tls),
        "--dns-name",
        "localhost",
    )
    command = [sys.executable, "-c", PROGRAM, "report-server", "--kubeconfig", str(kubeconfig), *listening, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        running = RunningReport(process, tls)

        reading = log_reader(process, running.log)
        try:
            yield running
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
            reading.join()


def token_of(plane: ControlPlane, namespace: str, account: str, seconds: int = 3600) -> str:
    """A token of a ServiceAccount, which is made where it is missing."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    if account not in {item["metadata"]["name"] for item in plane.request("GET", accounts)["items"]}:
        plane.request("POST", accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}})
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
    token: str = plane.request("POST", f"{accounts}/{account}/token", body)["status"]["token"]
    return token


def bind(plane: ControlPlane, role: str, namespace: str, account: str) -> str:
    """A ClusterRoleBinding of a role to a ServiceAccount. Returns its path."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    made = plane.request(
        "POST", _BINDINGS, {"metadata": {"generateName": f"{role}-"}, "roleRef": reference, "subjects": [subject]}
    )
    return f"{_BINDINGS}/{made['metadata']['name']}"
