"""Our own pods: what the containers of the images ``virt-dra`` and ``virt-dra-launcher`` run, as :mod:`.starting`
starts it.

A container's arguments and variables are the pod's own, its rights are those of the pod's ServiceAccount (a token bound
to the pod), its ports are at the pod's address, its probes are asked, it is started again when it ends, and its volumes
are folders. NetworkPolicies are not tried.
"""

from __future__ import annotations

import asyncio
import base64
import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp

from devtools.agents.launchers import Launchers
from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.supervisor import Supervisor
from devtools.play.network import PodNetwork
from devtools.play.starting import ACCOUNT_DIRECTORY, KUBECONFIG, HostStarter, Started, Starter
from virt_dra.api.integration import standalone
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.simulator.agents.containers import RunningContainer

Json = dict[str, Any]

POLL_SECONDS: Final = 0.25
_LONGEST_PAUSE: Final = 10.0
_TOKEN_SECONDS: Final = 3607
"""What kubelets ask for, and so what the API server grants for longer."""


def domain_file(folder: Path, namespace: str, name: str) -> Path:
    """Where the domain of a VMI is shown."""
    return folder / f"{namespace}_{name}.xml"


class PodProcesses:
    """:attr:`images` is for :class:`virt_dra.simulator.agents.kubelet.Kubelet`. ``logs`` gets what containers say,
    ``domains`` those of launchers, and ``scratch`` what goes with them. :meth:`close` ends all of them."""

    def __init__(
        self,
        plane: ControlPlane,
        network: PodNetwork,
        logs: Path,
        domains: Path,
        scratch: Path,
        starter: Starter | None = None,
    ) -> None:
        """``starter``: as processes of this machine, if None."""
        self._plane, self._network, self._logs, self._domains = plane, network, logs, domains
        self._contained = starter is not None
        self._starter = starter or HostStarter()
        processes = scratch / "processes"
        processes.mkdir()
        self._supervisor = Supervisor(processes)
        # A machine to play on has none of the devices: libvirt's own driver for tests takes any domain, and starts
        # nothing.
        self._launchers = Launchers(scratch / "launchers", "--uri", "test:///default")
        self._ending: set[asyncio.Task[None]] = set()
        self._logs_of: dict[tuple[str, str, str], Path] = {}
        self.images = {"virt-dra": self._run, "virt-dra-launcher": self._launch}

    def close(self) -> None:
        self._supervisor.close()
        self._launchers.close()

    def log_of(self, namespace: str, pod: str, container: str) -> Path | None:
        """The output of a container that runs as a process here."""
        return self._logs_of.get((namespace, pod, container))

    async def _launch(self, container: RunningContainer) -> int:
        """``virt-dra-launcher``. The domain that it writes is shown as long as it runs."""
        owners = [
            owner.name for owner in container.pod.metadata.owner_references if owner.kind == VirtualMachineInstance.KIND
        ]
        shown = domain_file(self._domains, container.pod.namespace, owners[0] if owners else container.pod.name)
        shown.unlink(missing_ok=True)
        shown.symlink_to(container.path(f"{standalone.RUN_DIRECTORY}/{standalone.DOMAIN_FILE}"))
        try:
            if self._contained:
                return await self._once(container)
            log = self._launchers.log_of(container.pod.metadata.uid)
            self._logs_of[container.pod.namespace, container.pod.name, container.spec.name] = log
            return await self._launchers.run(container)
        finally:
            shown.unlink(missing_ok=True)

    async def _once(self, container: RunningContainer) -> int:
        """A container that isn't started again; its exit code."""
        started = self._starter.start(container, "", self._server)
        pid = self._supervisor.start(started.argv, self._log(container), started.environment)
        try:
            while (code := self._supervisor.status(pid)) is None:
                await asyncio.sleep(POLL_SECONDS)
        except asyncio.CancelledError:
            self._end_later(pid, started, container.pod.spec.termination_grace_period_seconds)
            raise
        return code

    async def _run(self, container: RunningContainer) -> int:
        """``virt-dra`` with the container's arguments, again and again until the pod goes."""
        pod = container.pod
        listening = (
            self._network.loopback_of(self._network.address_of(pod.metadata.uid)) if container.spec.ports else ""
        )
        log = self._log(container)
        await asyncio.to_thread(self._write_account, container)
        pause = 0.5
        while True:
            started = await asyncio.to_thread(self._starter.start, container, listening, self._server)
            pid = self._supervisor.start(started.argv, log, started.environment)
            try:
                await self._followed(container, listening, pid)
            except asyncio.CancelledError:
                self._end_later(pid, started, pod.spec.termination_grace_period_seconds)
                raise
            finally:
                container.serving = False
            await asyncio.sleep(pause)  # restartPolicy: Always
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _log(self, container: RunningContainer) -> Path:
        pod = container.pod
        log = self._logs / f"{pod.namespace}_{pod.name}_{container.spec.name}.log"
        self._logs_of[pod.namespace, pod.name, container.spec.name] = log
        return log

    @property
    def _server(self) -> str:
        """``host:port`` of the API server."""
        return self._plane.server.removeprefix("https://")

    def _write_account(self, container: RunningContainer) -> None:
        """The pod's ServiceAccount, as files where pods have them, and a kubeconfig that names those."""
        pod = container.pod
        account = (pod.spec.model_extra or {}).get("serviceAccountName") or "default"
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.metadata.uid}
        path = f"/api/v1/namespaces/{pod.namespace}/serviceaccounts/{account}/token"
        answer = self._plane.request(
            "POST", path, {"spec": {"expirationSeconds": _TOKEN_SECONDS, "boundObjectRef": bound}}
        )
        folder = container.path(ACCOUNT_DIRECTORY)
        folder.mkdir(parents=True, exist_ok=True)
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(answer["status"]["token"], encoding="utf-8")
        authority = json.loads(self._plane.kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
        (folder / "ca.crt").write_bytes(base64.b64decode(authority["certificate-authority-data"]))
        (folder / "namespace").write_text(pod.namespace, encoding="utf-8")
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "pod", "cluster": authority}],
            "users": [{"name": account, "user": {"tokenFile": str(token)}}],
            "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": account, "namespace": pod.namespace}}],
            "current-context": "pod",
        }
        (folder / KUBECONFIG).write_text(json.dumps(kubeconfig), encoding="utf-8")

    def _end_later(self, pid: int, started: Started, grace: int | None) -> None:
        """SIGTERM, and SIGKILL when the grace period is over; the pod is gone meanwhile."""

        async def end() -> None:
            self._supervisor.signal(pid, signal.SIGTERM)
            last = asyncio.get_running_loop().time() + (30 if grace is None else grace)
            while self._supervisor.status(pid) is None:
                if asyncio.get_running_loop().time() > last:
                    await asyncio.to_thread(started.end)
                    self._supervisor.end(pid)
                await asyncio.sleep(POLL_SECONDS)

        task = asyncio.create_task(end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    # --- probes -----------------------------------------------------------------------------------------------------

    async def _followed(self, container: RunningContainer, listening: str, pid: int) -> None:
        """Until the process ends, by itself or because its liveness probe failed too often."""
        probes = _Probes(container, listening)
        timeout = aiohttp.ClientTimeout(total=5)
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(force_close=True)) as session:
            while self._supervisor.status(pid) is None:
                if await probes.failed(session):
                    self._supervisor.signal(pid, signal.SIGTERM)
                await asyncio.sleep(POLL_SECONDS)


class _Probes:
    """The HTTP probes of one start of a container."""

    def __init__(self, container: RunningContainer, listening: str) -> None:
        self._container, self._listening = container, listening
        extra: Mapping[str, Any] = container.spec.model_extra or {}
        self._ports = {port.name: port.container_port for port in container.spec.ports if port.name}
        self._startup, self._liveness = extra.get("startupProbe"), extra.get("livenessProbe")
        self._readiness = container.spec.readiness_probe
        self._started = False
        self._failures = 0
        self._due: dict[str, float] = {}

    async def failed(self, session: aiohttp.ClientSession) -> bool:
        """Asks what is due, and says whether the process is to be started anew. Until it is ready that is asked more
        often than the probe says: people wait for it."""
        if not self._started:
            self._started = await self._succeeds(session, self._startup)
            return False
        if self._readiness is None or not self._container.serving or self._is_due("readiness", self._readiness):
            self._container.serving = await self._succeeds(session, self._readiness)
        if self._liveness is None or not self._is_due("liveness", self._liveness):
            return False
        self._failures = 0 if await self._succeeds(session, self._liveness) else self._failures + 1
        return self._failures >= int(self._liveness.get("failureThreshold", 3))

    def _is_due(self, name: str, probe: Json) -> bool:
        now = asyncio.get_running_loop().time()
        if now < self._due.get(name, 0.0):
            return False
        self._due[name] = now + float(probe.get("periodSeconds", 10))
        return True

    async def _succeeds(self, session: aiohttp.ClientSession, probe: Json | None) -> bool:
        if probe is None:
            return True
        asked = probe["httpGet"]
        port = self._ports.get(asked["port"], asked["port"])
        try:
            async with session.get(f"http://{self._listening}:{port}{asked.get('path', '/')}") as answer:
                return 200 <= answer.status < 400
        except (aiohttp.ClientError, TimeoutError):
            return False
