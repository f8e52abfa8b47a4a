"""A real control plane on loopback: etcd and kube-apiserver, on demand kube-scheduler and kube-controller-manager.

Tests use the fixtures ``control_plane`` (one a test run) and ``namespace`` of ``tests/conftest.py``; ``make cluster`` runs :mod:`.play`.
Its programs come from ``tools/control-plane.sh``. They end with the process that started them, whatever ended it (see :mod:`.supervisor`).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.cluster.credentials import ADMINS, Credentials, User
from tests.cluster.supervisor import Supervisor

Json = dict[str, Any]

VERSION = "1.37.1"
ETCD, API_SERVER, SCHEDULER, CONTROLLERS = "etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"
SCRIPT = Path(__file__).parents[2] / "tools" / "control-plane.sh"
_CACHE = Path("virt-dra/control-plane/1.37.1-3.6.16/bin")
ADVICE = (
    "no control plane 1.37.1: run tools/control-plane.sh (it needs Go), or name a folder with etcd and kube-apiserver in KUBEBUILDER_ASSETS"
)

ALL_DRA_GATES: Mapping[str, bool] = dict.fromkeys(
    (
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "DRAResourcePoolStatus",
        "DRADerivedAttributes",
        "DRADeviceCompatibilityGroups",
        "DRAOptionalNodeOperations",
        "NodeDeclaredFeatures",
        "DRAPartitionableDevicesType",
        "DRAFractionalCapacityRange",
    ),
    True,
)
"""The gates of dynamic resource allocation that 1.37 leaves off."""

DEFAULT_CONTROLLERS = (
    "resourceclaim-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "device-taint-eviction-controller",
    "pod-garbage-collector-controller",
    "clusterrole-aggregation-controller",
)
"""What a cluster without machines needs: claims are made, freed and forgotten, the roles view, edit and admin say something."""

NODE_CAPACITY = {"cpu": "64", "memory": "512Gi", "pods": "500", "ephemeral-storage": "1Ti"}

_START_SECONDS = 60.0
_POLL_SECONDS = 0.05
_TAIL_LINES = 25


class ControlPlaneError(RuntimeError):
    """A server that doesn't start or answer; the text ends with what it logged last."""


class RequestError(RuntimeError):
    """The API server refused a request of this module's own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


def binary(name: str) -> Path | None:
    """Where a program is: in ``KUBEBUILDER_ASSETS``, else in the cache of ``tools/control-plane.sh``, else nowhere."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / _CACHE
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    folders = [Path(assets), cache] if assets else [cache]
    return next((folder / name for folder in folders if os.access(folder / name, os.X_OK)), None)


def require(*names: str) -> None:
    """Skip the test, with one line of advice, where programs are missing (etcd and kube-apiserver always count); with CI=true fail it."""
    missing = [name for name in (ETCD, API_SERVER, *names) if binary(name) is None]
    if missing:
        advice = f"{', '.join(missing)} missing: {ADVICE}"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(advice)


class _Port:
    """A free port of loopback that stays ours while the server that listens on it is stopped: both sides share it by SO_REUSEPORT."""

    def __init__(self, number: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", number))
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()


class ControlPlane:
    """Use as a context manager, or :meth:`start` and :meth:`close` it. Methods block; from asyncio call them in a thread.

    ``gates``: feature gates of all servers (see :data:`ALL_DRA_GATES`). ``runtime_config``: which API versions are served; as a default
    all, alpha ones too. ``service_accounts``: have the ServiceAccount admission plugin on, as clusters have; then a pod needs the
    ServiceAccount of its namespace (:meth:`create_namespace` makes it, otherwise add ``serviceaccount-controller``) and gets a token
    volume. ``arguments``: further ones of kube-apiserver. ``port``: of kube-apiserver, 0 for a free one. ``folder``: keeps the logs.

    While it runs: :attr:`server` (URL), :attr:`port`, :attr:`kubeconfig` (the admin's), :attr:`context` (TLS as the admin).
    """

    def __init__(
        self,
        *,
        gates: Mapping[str, bool] | None = None,
        runtime_config: str = "api/all=true",
        service_accounts: bool = False,
        arguments: Sequence[str] = (),
        port: int = 0,
        folder: Path | None = None,
    ) -> None:
        self.gates: Mapping[str, bool] = dict(gates or {})
        self._runtime_config, self._service_accounts, self._arguments = runtime_config, service_accounts, tuple(arguments)
        self._kept = folder
        self._wanted_port = port
        self._pids: dict[str, int] = {}
        self._controllers: frozenset[str] = frozenset()
        self._started = False

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts etcd and kube-apiserver and waits until both are ready. Raises :class:`ControlPlaneError`."""
        self.folder = Path(tempfile.mkdtemp(prefix="virt-dra-control-plane-"))
        self.logs = self._kept or self.folder / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self._supervisor = Supervisor(self.folder)
        self._ports = {
            name: _Port(number)
            for name, number in {ETCD: 0, "peer": 0, API_SERVER: self._wanted_port, SCHEDULER: 0, CONTROLLERS: 0}.items()
        }
        self._started = True
        try:
            self._credentials = Credentials(self.folder / "credentials")
            self.port = self._ports[API_SERVER].number
            self.server = f"https://127.0.0.1:{self.port}"
            admin = self._credentials.user("admin", (ADMINS,))
            self.kubeconfig = self._write_kubeconfig("admin", admin)
            self.context = self._client_context(self.folder / "credentials" / "admin", admin)
            self._connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=_START_SECONDS)
            self._requesting = threading.Lock()
            self._start_etcd()
            self.start_api_server()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends all servers and removes what they stored."""
        if self._started:
            self._started = False
            self._supervisor.close()
            self._connection.close()
            for port in self._ports.values():
                port.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{self._ports[name].number}" for name in (ETCD, "peer"))
        self._run(
            ETCD,
            *("--data-dir", str(self.folder / "etcd"), "--unsafe-no-fsync", "--log-level", "error", "--socket-reuse-port"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"),
        )

    def start_api_server(self) -> None:
        """On its port, with what etcd holds. Waits until it is ready. Nothing to do while it runs."""
        credentials = self._credentials
        certificates = self.folder / "kube-apiserver"
        disabled = () if self._service_accounts else ("--disable-admission-plugins", "ServiceAccount")
        self._run(
            API_SERVER,
            *("--etcd-servers", f"http://127.0.0.1:{self._ports[ETCD].number}", "--cert-dir", str(certificates)),
            *("--bind-address", "127.0.0.1", "--secure-port", str(self._ports[API_SERVER].number), "--permit-port-sharing"),
            *("--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none", "--service-cluster-ip-range", "10.0.0.0/24"),
            *("--tls-cert-file", str(credentials.certificate), "--tls-private-key-file", str(credentials.key)),
            *("--client-ca-file", str(credentials.authority), "--authorization-mode", "RBAC"),
            *("--service-account-key-file", str(credentials.service_account_key)),
            *("--service-account-signing-key-file", str(credentials.service_account_key)),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--runtime-config", self._runtime_config),
            *disabled,
            *self._gate_arguments(),
            *self._arguments,
        )
        self._wait_until_ready(API_SERVER, "/readyz")

    def stop_api_server(self, *, gracefully: bool = False) -> None:
        """Ends it at once, as a crash does, or by SIGTERM, as an upgrade does."""
        self._stop(API_SERVER, gracefully=gracefully)
        self._connection.close()

    def restart_api_server(self, *, gracefully: bool = False) -> None:
        """The same server on the same port; its watch cache begins anew, so that versions from before are too old to watch from."""
        self.stop_api_server(gracefully=gracefully)
        self.start_api_server()

    @contextlib.contextmanager
    def paused(self, name: str = API_SERVER) -> Iterator[None]:
        """While in it, a server accepts connections and answers nothing (SIGSTOP)."""
        self._supervisor.signal(self._pids[name], signal.SIGSTOP)
        try:
            yield
        finally:
            self._supervisor.signal(self._pids[name], signal.SIGCONT)

    # --- scheduler and controllers ----------------------------------------------------------------------------------

    def start_scheduler(self) -> None:
        """kube-scheduler with its own user. Nothing to do while it runs. Skips the test where the program is missing."""
        require(SCHEDULER)
        if SCHEDULER not in self._pids:
            self._run(SCHEDULER, *self._component_arguments(SCHEDULER, "system:kube-scheduler"))
            self._wait_until_ready(SCHEDULER, "/readyz")

    def stop_scheduler(self) -> None:
        self._stop(SCHEDULER)

    def start_controllers(self, *names: str) -> None:
        """kube-controller-manager with these controllers (:data:`DEFAULT_CONTROLLERS`), each with a ServiceAccount of its own.

        Where others run already, both do afterwards. Skips the test where the program is missing.
        """
        require(CONTROLLERS)
        wanted = self._controllers | frozenset(names or DEFAULT_CONTROLLERS)
        if wanted == self._controllers:
            return
        self.stop_controllers()
        self._run(
            CONTROLLERS,
            *self._component_arguments(CONTROLLERS, "system:kube-controller-manager"),
            *("--controllers", ",".join(sorted(wanted)), "--use-service-account-credentials"),
            *("--service-account-private-key-file", str(self._credentials.service_account_key)),
        )
        self._controllers = wanted
        self._wait_until_ready(CONTROLLERS, "/healthz")

    def stop_controllers(self) -> None:
        self._controllers = frozenset()
        self._stop(CONTROLLERS)

    def restart_controllers(self) -> None:
        """Those that run, from the start: the garbage collector looks for kinds that are new only every 30 s. Nothing where none run."""
        running = self._controllers
        self.stop_controllers()
        if running:
            self.start_controllers(*running)

    def _component_arguments(self, name: str, user: str) -> tuple[str, ...]:
        kubeconfig = str(self._write_kubeconfig(name, self._credentials.user(user)))
        return (
            *("--kubeconfig", kubeconfig, "--leader-elect=false", "--authentication-skip-lookup"),
            *("--bind-address", "127.0.0.1", "--secure-port", str(self._ports[name].number), "--permit-port-sharing"),
            *("--tls-cert-file", str(self._credentials.certificate), "--tls-private-key-file", str(self._credentials.key)),
            *("--kube-api-qps", "500", "--kube-api-burst", "1000"),  # their defaults are for larger machines, and make tests wait
            *self._gate_arguments(),
        )

    def _gate_arguments(self) -> tuple[str, ...]:
        gates = ",".join(f"{gate}={str(on).lower()}" for gate, on in sorted(self.gates.items()))
        return ("--feature-gates", gates) if gates else ()

    # --- users ------------------------------------------------------------------------------------------------------

    def kubeconfig_of_user(self, name: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig of any user, by a client certificate. It may do what RBAC says of it."""
        return self._write_kubeconfig(name, self._credentials.user(name, groups))

    def kubeconfig_of_service_account(self, namespace: str, name: str) -> Path:
        """A kubeconfig of a ServiceAccount, by a token for an hour (TokenRequest). The account is made where it is missing."""
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self._create(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        answer = self.request("POST", f"{accounts}/{name}/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"})
        full_name = f"system:serviceaccount:{namespace}:{name}"
        return self._write_kubeconfig(full_name, User(full_name, token=answer["status"]["token"]), namespace)

    def allows(self, user: str, groups: Sequence[str], verb: str, resource: str, *, group: str = "", namespace: str = "") -> bool:
        """Whether RBAC allows it already: the authorizer learns of new roles and bindings a moment after they were made."""
        attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
        review = {"spec": {"user": user, "groups": list(groups), "resourceAttributes": attributes}}
        answer = self.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    def _write_kubeconfig(self, name: str, user: User, namespace: str = "default") -> Path:
        path = self.folder / f"{name.replace(':', '-').replace('/', '-')}.kubeconfig"
        path.write_text(self._credentials.kubeconfig(self.server, user, namespace), encoding="utf-8")
        return path

    def _client_context(self, path: Path, user: User) -> ssl.SSLContext:
        path.write_bytes(user.certificate + user.key)
        context = ssl.create_default_context(cafile=str(self._credentials.authority))
        context.load_cert_chain(path)
        return context

    # --- requests ---------------------------------------------------------------------------------------------------

    def request(self, method: str, path: str, body: object = None, content: str = "application/json", *, accept: str = "") -> Json:
        """One request of the admin, made again while the server says that it can't be served yet (429).

        Raises :class:`RequestError`; OSError or HTTPException where nobody answers. For any thread.
        """
        text = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content, "Accept": accept or "application/json"}
        end = time.monotonic() + _START_SECONDS
        while True:
            status, told = self._asked(method, path, text, headers)
            if status != 429 or time.monotonic() > end:
                break
            time.sleep(_POLL_SECONDS)
        if status >= 400:
            raise RequestError(status, _message(told))
        answer: Json = json.loads(told or b"{}")
        return answer

    def _asked(self, method: str, path: str, text: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        with self._requesting:
            try:
                self._connection.request(method, path, text, dict(headers))
                response = self._connection.getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException):
                self._connection.close()
                raise

    def create_namespace(self, prefix: str = "test-", labels: Mapping[str, str] | None = None) -> str:
        """A new namespace with its ServiceAccount ``default``; answers its name."""
        metadata = {"generateName": prefix, "labels": dict(labels or {})}
        made = self.request("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        name: str = made["metadata"]["name"]
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        self._create(f"/api/v1/namespaces/{name}/serviceaccounts", account)
        return name

    def delete_namespace(self, name: str) -> None:
        """With all that is in it, at once, whatever finalizers say; also where no namespace controller runs."""
        with _tolerating(404):
            self.request("DELETE", f"/api/v1/namespaces/{name}")
            for path in self._namespaced_resources():
                self._empty(path.format(namespace=name))
        with _tolerating(404, 409):
            self.request(
                "PUT", f"/api/v1/namespaces/{name}/finalize", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )

    def create_node(self, name: str, labels: Mapping[str, str] | None = None) -> str:
        """A node that takes pods: admission marks a new one not ready, which nobody but a kubelet takes back; answers its name."""
        node = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "status": {
                "capacity": NODE_CAPACITY,
                "allocatable": NODE_CAPACITY,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }
        self.request("POST", "/api/v1/nodes", node)
        self.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")
        return name

    def wait_until_established(self, definition: str) -> None:
        """Until the kind of a CustomResourceDefinition is served. Raises :class:`ControlPlaneError`."""
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}"
        plural, _, group = definition.partition(".")
        found = self.request("GET", path)
        served = f"/apis/{group}/{found['spec']['versions'][0]['name']}/{plural}"
        self._wait(lambda: self._answers(served), f"{definition} isn't served")

    def wait_until_gone(self, path: str) -> None:
        """Until a path answers 404. Raises :class:`ControlPlaneError`."""
        self._wait(lambda: not self._answers(path), f"{path} is still there")

    def _answers(self, path: str) -> bool:
        try:
            self.request("GET", path)
        except RequestError as error:
            if error.status not in (404, 503):  # 503: a kind is on its way
                raise
            return False
        return True

    def _wait(self, condition: Callable[[], bool], problem: str) -> None:
        end = time.monotonic() + _START_SECONDS
        while not condition():
            if time.monotonic() > end:
                raise ControlPlaneError(f"{problem} after {_START_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)

    def _create(self, path: str, body: Json) -> None:
        with _tolerating(409):
            self.request("POST", path, body)

    def _namespaced_resources(self) -> Iterator[str]:
        """Paths of what can be deleted by collection; every resource in one of its versions."""
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        for root in ("/api", "/apis"):
            for group in self.request("GET", root, accept=accept)["items"]:
                name = group["metadata"].get("name", "")
                seen: set[str] = set()
                for version in group["versions"]:
                    base = f"{root}/{name}/{version['version']}" if name else f"{root}/{version['version']}"
                    for resource in version.get("resources", ()):
                        plural = resource["resource"]
                        if resource["scope"] == "Namespaced" and "deletecollection" in resource["verbs"] and plural not in seen:
                            seen.add(plural)
                            yield f"{base}/namespaces/{{namespace}}/{plural}"

    def _empty(self, path: str) -> None:
        with _tolerating(404, 405):
            found = self.request("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
            for item in found.get("items", ()):
                if not item["metadata"].get("finalizers"):
                    continue
                with _tolerating(404):
                    free = {"metadata": {"finalizers": None}}
                    self.request("PATCH", f"{path}/{item['metadata']['name']}", free, "application/merge-patch+json")

    # --- processes --------------------------------------------------------------------------------------------------

    def tails(self) -> str:
        """The last lines of every server's log, for the report of a failed test."""
        return "\n".join(f"--- {path.stem}\n{self._tail(path.stem)}" for path in sorted(self.logs.glob("*.log")))

    def _tail(self, name: str) -> str:
        path = self.logs / f"{name}.log"
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]) if path.exists() else ""

    def _run(self, name: str, *arguments: str) -> None:
        if name in self._pids:
            return
        program = binary(name)
        if program is None:
            raise ControlPlaneError(f"{name} is missing: {ADVICE}")
        self._pids[name] = self._supervisor.start([str(program), *arguments], self.logs / f"{name}.log")

    def _stop(self, name: str, *, gracefully: bool = False) -> None:
        pid = self._pids.pop(name, None)
        if pid is None:
            return
        if gracefully:
            self._supervisor.signal(pid, signal.SIGTERM)
            end = time.monotonic() + _START_SECONDS
            while self._supervisor.status(pid) is None and time.monotonic() < end:
                time.sleep(_POLL_SECONDS)
        self._supervisor.end(pid)

    def _wait_until_ready(self, name: str, path: str) -> None:
        end = time.monotonic() + _START_SECONDS
        last = ""
        while time.monotonic() < end:
            for server in {name, ETCD}:
                status = self._supervisor.status(self._pids[server])
                if status is not None:
                    raise ControlPlaneError(f"{server} has ended with {status}:\n{self._tail(server)}")
            try:
                connection = http.client.HTTPSConnection("127.0.0.1", self._ports[name].number, context=self.context, timeout=5)
                with contextlib.closing(connection):
                    connection.request("GET", path)
                    response = connection.getresponse()
                    last = response.read().decode(errors="replace")
                if response.status == 200:
                    return
            except (OSError, http.client.HTTPException) as error:
                last = str(error)
            time.sleep(_POLL_SECONDS)
        raise ControlPlaneError(f"{name} isn't ready after {_START_SECONDS:.0f} s ({last}):\n{self._tail(name)}")


def _message(answer: bytes) -> str:
    """A Status says it; an unknown path is told in plain text."""
    try:
        return str(json.loads(answer).get("message", ""))
    except ValueError:
        return answer.decode(errors="replace").strip()


@contextlib.contextmanager
def _tolerating(*statuses: int) -> Iterator[None]:
    try:
        yield
    except RequestError as error:
        if error.status not in statuses:
            raise
