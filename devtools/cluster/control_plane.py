"""A real control plane on loopback: etcd and kube-apiserver, on demand kube-scheduler and kube-controller-manager.

Tests use the fixtures ``control_plane`` (one a test run) and ``namespace`` of ``tests/conftest.py``; ``make cluster``
runs :mod:`devtools.play`. Its programs come from ``tools/control-plane.sh``. They end with the process that started
them, whatever ended it (see :mod:`.supervisor`).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from devtools import needs
from devtools.cluster.admin_requests import POLL_SECONDS, WAIT_SECONDS, AdminRequests, ControlPlaneError, RequestError
from devtools.cluster.credentials import ADMINS, Credentials, User
from devtools.cluster.programs import (
    ADVICE,
    API_SERVER,
    CLASSIC_DRIVER,
    CONTROLLERS,
    ETCD,
    SCHEDULER,
    SCRIPT,
    VERSION,
    binary,
    require,
)
from devtools.cluster.supervisor import Supervisor

__all__ = [
    "ADVICE", "ALL_DRA_GATES", "API_SERVER", "CONTROLLERS", "DEFAULT_CONTROLLERS", "ETCD", "SCHEDULER", "SCRIPT",
    "ControlPlane", "ControlPlaneError", "RequestError", "binary", "require",
]  # fmt: skip

Json = dict[str, Any]

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
"""What a cluster without machines needs: claims are made, freed and forgotten, the roles view, edit and admin say
something."""

_TAIL_LINES = 25
_GO: Mapping[str, str] = {"GOGC": "400"}
"""For programs in Go: collections at five times what is in use instead of two. Tests of control planes take an eighth
less of a processor with it, a server some 150 MB more."""


class _Port:
    """A free port of loopback that stays ours while the server that listens on it is stopped: both sides share it by
    SO_REUSEPORT."""

    def __init__(self, number: int = 0) -> None:
        """0: any. Raises OSError for a port in use."""
        if number:  # the server that holds a port of that number need not be one of this cluster
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", number))
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", number))
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()


class ControlPlane(AdminRequests):
    """Use as a context manager, or :meth:`start` and :meth:`close` it. Methods block; from asyncio call them in a
    thread.

    All versions of the API are served, alpha ones too. ``gates``: feature gates of all servers (see
    :data:`ALL_DRA_GATES`). ``service_accounts``: have the ServiceAccount admission plugin on, as clusters have; then a
    pod needs the ServiceAccount of its namespace (:meth:`create_namespace` makes it, otherwise add
    ``serviceaccount-controller``) and gets a token volume. ``arguments``: further ones of kube-apiserver. ``port``: of
    kube-apiserver, 0 for a free one. ``folder``: keeps the logs. ``version``: the release of its programs.

    While it runs: :attr:`server` (URL), :attr:`port`, :attr:`kubeconfig` (the admin's), :attr:`context` (TLS as the
    admin), :attr:`webhook_client_ca` (the authority of the certificate that the API server presents to webhooks),
    :attr:`webhook_client` (that certificate and its key).
    """

    def __init__(
        self,
        *,
        gates: Mapping[str, bool] | None = None,
        service_accounts: bool = False,
        arguments: Sequence[str] = (),
        port: int = 0,
        folder: Path | None = None,
        version: str = VERSION,
    ) -> None:
        self._version = version
        self.gates: Mapping[str, bool] = dict(gates or {})
        self._service_accounts, self._arguments = service_accounts, tuple(arguments)
        self._kept = folder
        self._wanted_port = port
        self._pids: dict[str, int] = {}
        self._started_with: dict[str, tuple[str, ...]] = {}
        """The arguments of each program that was started."""
        self._controllers: frozenset[str] = frozenset()
        self._ending = contextlib.ExitStack()

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts etcd and kube-apiserver and waits until both are ready. Raises :class:`ControlPlaneError`; OSError for
        a port in use."""
        with contextlib.ExitStack() as ending:
            self._ports = {}
            for name, number in {
                API_SERVER: self._wanted_port,
                ETCD: 0,
                "peer": 0,
                SCHEDULER: 0,
                CONTROLLERS: 0,
            }.items():
                self._ports[name] = ending.enter_context(contextlib.closing(_Port(number)))
            self.folder = Path(tempfile.mkdtemp(prefix="virt-dra-control-plane-"))
            self._supervisor = ending.enter_context(contextlib.closing(Supervisor(self.folder)))
            self.logs = self._kept or self.folder / "logs"
            self.logs.mkdir(parents=True, exist_ok=True)
            self._credentials = Credentials(self.folder / "credentials")
            self.port = self._ports[API_SERVER].number
            self.server = f"https://127.0.0.1:{self.port}"
            self.webhook_client_ca, self.webhook_client = (
                self._credentials.webhook_client_ca,
                self._credentials.webhook_client,
            )
            admin = self._credentials.user("admin", (ADMINS,))
            self.kubeconfig = self._write_kubeconfig("admin", admin)
            self.context = self._client_context(self.folder / "credentials" / "admin", admin)
            ending.enter_context(contextlib.closing(self._connect(self.port, self.context)))
            self._start_etcd()
            self.start_api_server()
            self._ending = ending.pop_all()

    def close(self) -> None:
        """Ends all servers and removes what they stored. Nothing to do where that was done."""
        self._ending.close()
        self._pids.clear()

    def __enter__(self) -> Self:
        needs.use("control_plane")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{self._ports[name].number}" for name in (ETCD, "peer"))
        self._run(
            ETCD,
            *(
                "--data-dir",
                str(self.folder / "etcd"),
                "--unsafe-no-fsync",
                "--log-level",
                "error",
                "--socket-reuse-port",
            ),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *(
                "--listen-peer-urls",
                peer,
                "--initial-advertise-peer-urls",
                peer,
                "--initial-cluster",
                f"default={peer}",
            ),
        )

    def start_api_server(self) -> None:
        """On its port, with what etcd holds. Waits until it is ready. Nothing to do while it runs."""
        credentials = self._credentials
        certificates = self.folder / "kube-apiserver"
        disabled = () if self._service_accounts else ("--disable-admission-plugins", "ServiceAccount")
        self._run(
            API_SERVER,
            *("--etcd-servers", f"http://127.0.0.1:{self._ports[ETCD].number}", "--cert-dir", str(certificates)),
            *(
                "--bind-address",
                "127.0.0.1",
                "--secure-port",
                str(self._ports[API_SERVER].number),
                "--permit-port-sharing",
            ),
            *(
                "--advertise-address",
                "127.0.0.1",
                "--endpoint-reconciler-type",
                "none",
                "--service-cluster-ip-range",
                "10.0.0.0/24",
            ),
            *("--tls-cert-file", str(credentials.certificate), "--tls-private-key-file", str(credentials.key)),
            *("--client-ca-file", str(credentials.client_authority), "--authorization-mode", "RBAC"),
            *("--service-account-key-file", str(credentials.service_account_key)),
            *("--service-account-signing-key-file", str(credentials.service_account_key)),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--runtime-config", "api/all=true"),
            *("--admission-control-config-file", str(credentials.admission_configuration)),
            *disabled,
            *self._gate_arguments(),
            *self._arguments,
        )
        self._wait_until_ready(API_SERVER, "/readyz")

    def stop_api_server(self, *, gracefully: bool = False) -> None:
        """Ends it at once, as a crash does, or by SIGTERM, as an upgrade does."""
        self._stop(API_SERVER, gracefully=gracefully)

    def restart_api_server(self, *, gracefully: bool = False) -> None:
        """The same server on the same port; its watch cache begins anew, so that versions from before are too old to
        watch from."""
        self.stop_api_server(gracefully=gracefully)
        self.start_api_server()

    def kill_etcd(self) -> None:
        """Ends it at once (SIGKILL). What it stored stays, for :meth:`start_etcd`."""
        self._stop(ETCD)

    def start_etcd(self) -> None:
        """On its port, with what it stored. Waits until the API server is ready again, which looks for it ever more
        seldom. Nothing to do while it runs."""
        self._start_etcd()
        self._wait_until_ready(API_SERVER, "/readyz", 4 * WAIT_SECONDS)

    @contextlib.contextmanager
    def paused(self, name: str = API_SERVER) -> Iterator[None]:
        """While in it, a server accepts connections and answers nothing (SIGSTOP)."""
        self._supervisor.signal(self._pids[name], signal.SIGSTOP)
        try:
            yield
        finally:
            self._supervisor.signal(self._pids[name], signal.SIGCONT)

    # --- scheduler and controllers ----------------------------------------------------------------------------------

    def start_scheduler(self, configuration: Json | None = None) -> None:
        """kube-scheduler with its own user. Nothing to do while it runs. Skips the test where the program is missing.

        ``configuration``: a KubeSchedulerConfiguration; how it connects is filled in.
        """
        self._require(SCHEDULER)
        if SCHEDULER in self._pids:
            return
        arguments = self._component_arguments(SCHEDULER, "system:kube-scheduler")
        if configuration is not None:
            connection = {"kubeconfig": arguments[arguments.index("--kubeconfig") + 1], "qps": 500, "burst": 1000}
            path = self.folder / "scheduler-configuration.yaml"
            path.write_text(json.dumps({**configuration, "clientConnection": connection}), encoding="utf-8")
            arguments = (*arguments, "--config", str(path))
        self._run(SCHEDULER, *arguments)
        self._wait_until_ready(SCHEDULER, "/readyz" if self._version == VERSION else "/healthz")

    def stop_scheduler(self) -> None:
        self._stop(SCHEDULER)

    def start_controllers(self, *names: str) -> None:
        """kube-controller-manager with these controllers (:data:`DEFAULT_CONTROLLERS`), each with a ServiceAccount of
        its own.

        Where others run already, both do afterwards. Skips the test where the program is missing.
        """
        self._require(CONTROLLERS)
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

    def start_classic_driver(self, name: str, settings: Path) -> None:
        """A driver of classic DRA that does what the JSON of a file says (tools/control-plane/kubernetes-…/driver)."""
        self._run(CLASSIC_DRIVER, str(self.kubeconfig), name, str(settings))

    def stop_classic_driver(self) -> None:
        self._stop(CLASSIC_DRIVER)

    def restart_controllers(self) -> None:
        """Those that run, from the start: the garbage collector looks for kinds that are new only every 30 s. Nothing
        where none run."""
        running = self._controllers
        self.stop_controllers()
        if running:
            self.start_controllers(*running)

    def pid(self, name: str) -> int:
        """The process of a program that was started. Raises KeyError for one that wasn't."""
        return self._pids[name]

    def restart_ended(self) -> list[str]:
        """Starts scheduler and controllers again where they have ended by themselves, as a kubelet does. Returns which.

        kube-scheduler ends where its cache contradicts a pod that it reads (``Scheduler cache is corrupted``), which
        was seen after the API server had been killed.
        """
        ended = [
            name
            for name in (SCHEDULER, CONTROLLERS)
            if name in self._pids and self._supervisor.status(self._pids[name]) is not None
        ]
        for name in ended:
            del self._pids[name]
            self._run(name, *self._started_with[name])
        return ended

    def _require(self, name: str) -> None:
        """Skip the test where a program isn't there; one of another release was required as a whole before."""
        if self._version == VERSION:
            require(name)

    def _component_arguments(self, name: str, user: str) -> tuple[str, ...]:
        kubeconfig = str(self._write_kubeconfig(name, self._credentials.user(user)))
        return (
            *("--kubeconfig", kubeconfig, "--leader-elect=false", "--authentication-skip-lookup"),
            *("--bind-address", "127.0.0.1", "--secure-port", str(self._ports[name].number), "--permit-port-sharing"),
            *(
                "--tls-cert-file",
                str(self._credentials.certificate),
                "--tls-private-key-file",
                str(self._credentials.key),
            ),
            *(
                "--kube-api-qps",
                "500",
                "--kube-api-burst",
                "1000",
            ),  # their defaults are for larger machines, and make tests wait
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
        """A kubeconfig of a ServiceAccount, by a token for an hour (TokenRequest). The account is made where it is
        missing."""
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self._create(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        answer = self.request(
            "POST", f"{accounts}/{name}/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        )
        full_name = f"system:serviceaccount:{namespace}:{name}"
        return self._write_kubeconfig(full_name, User(full_name, token=answer["status"]["token"]), namespace)

    def _write_kubeconfig(self, name: str, user: User, namespace: str = "default") -> Path:
        path = self.folder / f"{name.replace(':', '-').replace('/', '-')}.kubeconfig"
        path.write_text(self._credentials.kubeconfig(self.server, user, namespace), encoding="utf-8")
        return path

    def _client_context(self, path: Path, user: User) -> ssl.SSLContext:
        path.write_bytes(user.certificate + user.key)
        context = ssl.create_default_context(cafile=str(self._credentials.authority))
        context.load_cert_chain(path)
        return context

    # --- processes --------------------------------------------------------------------------------------------------

    def tails(self) -> str:
        """The last lines of every server's log, for the report of a failed test."""
        return "\n".join(f"--- {path.stem}\n{self._tail(path.stem)}" for path in sorted(self.logs.glob("*.log")))

    def _tail(self, name: str) -> str:
        path = self.logs / f"{name}.log"
        return (
            "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:])
            if path.exists()
            else ""
        )

    def _run(self, name: str, *arguments: str) -> None:
        if name in self._pids:
            return
        program = binary(name, self._version)
        if program is None:
            raise ControlPlaneError(f"{name} is missing: {ADVICE}")
        self._pids[name] = self._supervisor.start([str(program), *arguments], self.logs / f"{name}.log", _GO)
        self._started_with[name] = arguments

    def _stop(self, name: str, *, gracefully: bool = False) -> None:
        pid = self._pids.pop(name, None)
        if pid is None:
            return
        if gracefully:
            self._supervisor.signal(pid, signal.SIGTERM)
            end = time.monotonic() + WAIT_SECONDS
            while self._supervisor.status(pid) is None and time.monotonic() < end:
                time.sleep(POLL_SECONDS)
        self._supervisor.end(pid)

    def _wait_until_ready(self, name: str, path: str, seconds: float = WAIT_SECONDS) -> None:
        end = time.monotonic() + seconds
        last = ""
        while time.monotonic() < end:
            for server in {name, ETCD}:
                status = self._supervisor.status(self._pids[server])
                if status is not None:
                    raise ControlPlaneError(f"{server} has ended with {status}:\n{self._tail(server)}")
            try:
                connection = http.client.HTTPSConnection(
                    "127.0.0.1", self._ports[name].number, context=self.context, timeout=5
                )
                with contextlib.closing(connection):
                    connection.request("GET", path)
                    response = connection.getresponse()
                    last = response.read().decode(errors="replace")
                if response.status == 200:
                    return
            except (OSError, http.client.HTTPException) as error:
                last = str(error)
            time.sleep(POLL_SECONDS)
        raise ControlPlaneError(f"{name} isn't ready after {seconds:.0f} s ({last}):\n{self._tail(name)}")
