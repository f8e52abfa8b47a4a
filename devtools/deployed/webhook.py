"""The webhook as processes beside a real API server: KubeVirt's kinds as far as they matter here, webhook
configurations, requests."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import queue
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from devtools.cluster.control_plane import ControlPlane, RequestError
from devtools.cluster.mounted import MountedSecret
from devtools.cluster.ports import free_port

PROGRAM = "from virt_dra.cli.main import main; main()"
WAIT_SECONDS = 60.0
"""For whatever a loaded machine takes; nothing waits that long on one of one's own."""


def crd(kind: str, plural: str) -> dict[str, Any]:
    """As permissive as a definition can be, with a status that isn't a subresource (K-9.1)."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.kubevirt.io"},
        "spec": {"group": "kubevirt.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }


CRDS = tuple(
    crd(kind, plural)
    for kind, plural in (
        ("VirtualMachine", "virtualmachines"),
        ("VirtualMachineInstance", "virtualmachineinstances"),
        ("KubeVirt", "kubevirts"),
    )
)
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@contextmanager
def kubevirt_kinds(plane: ControlPlane) -> Iterator[None]:
    """KubeVirt's kinds are served while it lasts; those that were there stay afterwards."""
    made = []
    try:
        for definition in CRDS:
            if until(partial(_there, plane, definition)) == "made":
                made.append(definition["metadata"]["name"])
        for definition in CRDS:
            plural = definition["spec"]["names"]["plural"]
            until(partial(_served, plane, f"/apis/kubevirt.io/v1/{plural}"))
        yield
    finally:
        for name in made:
            plane.request("DELETE", f"{_DEFINITIONS}/{name}")
        for name in made:
            plane.wait_until_gone(f"{_DEFINITIONS}/{name}")


def _there(plane: ControlPlane, definition: dict[str, Any]) -> str:
    """``made``; ``there``, if it was; nothing as long as one of that name is going."""
    path = f"{_DEFINITIONS}/{definition['metadata']['name']}"
    try:
        plane.request("POST", _DEFINITIONS, definition)
    except RequestError:
        with suppress(RequestError):
            return "" if plane.request("GET", path)["metadata"].get("deletionTimestamp") else "there"
        return ""
    return "made"


def _served(plane: ControlPlane, path: str) -> bool:
    try:
        plane.request("GET", path)
    except RequestError:
        return False
    return True


def until(look: Any, seconds: float = WAIT_SECONDS) -> Any:
    """Waits until a function answers something true, and answers it."""
    end = time.monotonic() + seconds
    while not (answer := look()):
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.05)
    return answer


def configurations(
    name: str, namespace: str, port: int, *, pods: str = "Fail"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A Validating- and a MutatingWebhookConfiguration that ask a server on loopback about one namespace."""

    def webhook(title: str, path: str, group: str, resource: str, operations: list[str], policy: str) -> dict[str, Any]:
        return {
            "name": title,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": f"https://localhost:{port}{path}"},
            "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "operations": operations, "resources": [resource]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "failurePolicy": policy,
            "sideEffects": "None",
            "timeoutSeconds": 10,
        }

    both = ["CREATE", "UPDATE"]
    validating = [
        webhook("vmi.virt-dra.io", "/validate-vmi", "kubevirt.io", "virtualmachineinstances", both, "Ignore"),
        webhook("vm.virt-dra.io", "/validate-vm", "kubevirt.io", "virtualmachines", both, "Ignore"),
    ]
    pod = webhook("launcher-pods.virt-dra.io", "/mutate-launcher-pod", "", "pods", ["CREATE"], pods)
    pod |= {"objectSelector": {"matchLabels": {"kubevirt.io": "virt-launcher"}}, "reinvocationPolicy": "IfNeeded"}
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    return (
        {**head, "kind": "ValidatingWebhookConfiguration", "webhooks": validating},
        {**head, "kind": "MutatingWebhookConfiguration", "webhooks": [pod]},
    )


_PLURALS = {"Validating": "validatingwebhookconfigurations", "Mutating": "mutatingwebhookconfigurations"}


@contextmanager
def configured(plane: ControlPlane, *given: dict[str, Any]) -> Iterator[None]:
    paths = [
        f"/apis/admissionregistration.k8s.io/v1/{_PLURALS[configuration['kind'].removesuffix('WebhookConfiguration')]}"
        for configuration in given
    ]
    made = []
    try:
        for path, configuration in zip(paths, given, strict=True):
            plane.request("POST", path, configuration)
            made.append(f"{path}/{configuration['metadata']['name']}")
        yield
    finally:
        for path in made:
            plane.request("DELETE", path)


@dataclass
class Webhook:
    """A process. ``log``: what it has said so far, one object a line."""

    process: subprocess.Popen[str]
    log: list[dict[str, Any]] = field(default_factory=list)

    def said(self, message: str) -> dict[str, Any] | None:
        return next((line for line in tuple(self.log) if line["message"] == message), None)

    def wait_until_ready(self) -> None:
        """It serves, knows the cluster, and says so to a probe."""
        serving = until(lambda: self._said_alive("serving"))
        until(lambda: self._said_alive("ready"))
        with urllib.request.urlopen(f"http://127.0.0.1:{serving['plainPort']}/readyz", timeout=30) as answer:
            assert answer.status == 200

    def _said_alive(self, message: str) -> dict[str, Any] | None:
        assert self.process.poll() is None, f"it ended: {self.log[-5:]}"
        return self.said(message)

    def metrics(self) -> dict[str, str]:
        """Values by name with labels."""
        serving = self._said_alive("serving")
        assert serving is not None
        with urllib.request.urlopen(f"http://127.0.0.1:{serving['plainPort']}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def log_reader(process: subprocess.Popen[str], log: list[dict[str, Any]]) -> threading.Thread:
    """A thread that reads the lines of a process's standard error into a list, until it ends."""

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            log.append(json.loads(line) if line.startswith("{") else {"message": line})

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    return reading


@contextmanager
def webhook(
    plane: ControlPlane, namespace: str, *options: str, configuration: str = "", port: int = 0
) -> Iterator[Webhook]:
    """``virt-dra webhook --live`` on loopback, by a certificate from Secrets of the namespace, which the webhook
    configurations of that name trust; without a namespace by what the options say.

    It answers the API server only, unless the options say something of callers.
    """
    listening = ("--host", "127.0.0.1", "--port", str(port), "--plain-port", "0", "--announce", "0")
    command = [sys.executable, "-c", PROGRAM, "webhook", "--live", "--kubeconfig", str(plane.kubeconfig)]
    command += [] if "--unverified-callers" in options else ["--client-ca", str(plane.webhook_client_ca)]
    with ExitStack() as stack:
        if namespace:
            made = certificates(plane, namespace, "--webhook-configuration", configuration)
            assert made.returncode == 0, made.stderr
            folder = Path(stack.enter_context(TemporaryDirectory()))
            stack.enter_context(MountedSecret(plane, namespace, "virt-dra-webhook-tls", folder))
            command += ["--tls-dir", str(folder)]
        process = stack.enter_context(
            subprocess.Popen([*command, *listening, *options], stderr=subprocess.PIPE, text=True)
        )
        running = Webhook(process)

        reading = log_reader(process, running.log)
        try:
            yield running
        finally:
            process.kill()
            reading.join()


def certificates(plane: ControlPlane, namespace: str, *options: str) -> subprocess.CompletedProcess[str]:
    """``virt-dra webhook-certificates --once`` for localhost."""
    command = [sys.executable, "-c", PROGRAM, "webhook-certificates", "--once", "--kubeconfig", str(plane.kubeconfig)]
    named = ["--own-namespace", namespace, "--dns-name", "localhost"]
    return subprocess.run([*command, *named, *options], capture_output=True, text=True, check=False)


@contextmanager
def balanced(*ports: int) -> Iterator[int]:
    """A port that forwards connections to those ports by turns, and skips closed ones, as a Service does."""
    turns = itertools.cycle(range(len(ports)))
    open_ones: set[asyncio.StreamWriter] = set()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = next(turns)
        for port in (*ports[first:], *ports[:first]):
            try:
                there, back = await asyncio.open_connection("127.0.0.1", port)
                break
            except OSError:
                continue
        else:
            writer.transport.abort()
            return
        both = {back, writer}
        open_ones.update(both)
        await asyncio.gather(_copied(reader, back), _copied(there, writer))
        for writer_ in both:
            writer_.close()
        open_ones.difference_update(both)

    async def serve() -> None:
        async with await asyncio.start_server(forward, "127.0.0.1", free_port()) as server:
            began.put(server.sockets[0].getsockname()[1])
            await asyncio.to_thread(end.wait)
        for writer_ in open_ones:
            writer_.transport.abort()
        while open_ones:
            await asyncio.sleep(0.01)

    began: queue.Queue[int] = queue.Queue()
    end = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        yield began.get()
    finally:
        end.set()
        thread.join()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until either side ends, which the other learns as it was."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()
    except OSError:
        writer.transport.abort()


@dataclass(frozen=True)
class Answer:
    """What a client gets from the API server."""

    code: int
    body: dict[str, Any]
    warnings: tuple[str, ...]


def post(plane: ControlPlane, path: str, body: dict[str, Any]) -> Answer:
    """As :meth:`ControlPlane.request`, on a connection of its own, with the warnings, and whatever the code."""
    connection = http.client.HTTPSConnection("127.0.0.1", plane.port, context=plane.context, timeout=WAIT_SECONDS)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        warnings = tuple(text.split('"', 1)[1].rsplit('"', 1)[0] for text in response.headers.get_all("Warning") or ())
        return Answer(response.status, json.loads(response.read()), warnings)
    finally:
        connection.close()
