"""A kubelet and the driver's instances on one node, in a folder."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from devtools.upstream.kubelet.witness import CommandRefused, GoKubelet, running_kubelet
from node_driver.wire.server import KubeletServer
from node_driver.wire.service import ClaimService, HealthSource
from tests.node_driver.wire.claim_services import SettableHealth

DRIVER = "passthrough.virt-dra.io"
_R = TypeVar("_R")


@dataclass(frozen=True)
class KubeletFolder:
    program: Path
    folder: Path

    @property
    def plugin_folder(self) -> str:
        return str(self.folder / "plugins" / DRIVER)

    @property
    def registry(self) -> str:
        return str(self.folder / "registry")

    def kubelet(self, *options: str) -> AbstractAsyncContextManager[GoKubelet]:
        state = self.folder / "state"
        state.mkdir(exist_ok=True)
        where = ("-registry", self.registry, "-state", str(state), "-logtostderr", "-v", "3")
        return running_kubelet(self.program, self.folder / "kubelet.log", *where, *options)

    def server(self, claims: ClaimService, health: HealthSource | None = None, uid: str = "") -> KubeletServer:
        return KubeletServer(
            DRIVER, claims, health or SettableHealth(), plugin_folder=self.plugin_folder, registry=self.registry,
            pod_uid=uid, wait=1,
        )  # fmt: skip

    @asynccontextmanager
    async def driver_process(self, uid: str = "") -> AsyncIterator[asyncio.subprocess.Process]:
        """An instance in a process of its own, which prepares each claim but `b`."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.node_driver.kubelet.instance", self.plugin_folder, self.registry, uid,
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            await process.stdout.readline()
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def registered(kubelet: GoKubelet, driver: str = DRIVER) -> None:
    """Returns when the kubelet has the driver."""
    await until(lambda: kubelet.ask("registered", driver=driver))


async def until(step: Callable[[], Awaitable[_R]], limit: float = 20) -> _R:
    """The result of the first step that neither fails nor is refused."""
    deadline = asyncio.get_running_loop().time() + limit
    while True:
        try:
            return await step()
        except (CommandRefused, AssertionError):
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(0.05)


def claim(name: str) -> dict[str, Any]:
    """An allocated claim with one request `gpu`, reserved for the pod of :func:`pod`."""
    result = {"request": "gpu", "driver": DRIVER, "pool": "node-a", "device": name}
    return {
        "metadata": {"namespace": "lab", "name": name, "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "vfio.virt-dra.io"}}]}},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": "vm", "uid": "pod-vm"}],
        },
    }


def pod(*claims: str) -> dict[str, Any]:
    """A pod with these claims; its container `compute` names all of them, `sidecar` none."""
    return {
        "metadata": {"namespace": "lab", "name": "vm", "uid": "pod-vm"},
        "spec": {
            "nodeName": "node-a",
            "resourceClaims": [{"name": name, "resourceClaimName": name} for name in claims],
            "containers": [
                {"name": "compute", "resources": {"claims": [{"name": name, "request": "gpu"} for name in claims]}},
                {"name": "sidecar"},
            ],
        },
    }


def published_slice(name: str, driver: str = DRIVER) -> dict[str, Any]:
    pool = {"name": "node-a", "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": name}, "spec": {"driver": driver, "nodeName": "node-a", "pool": pool}}


def cdi_id(name: str) -> str:
    return f"{DRIVER}/device=uid-{name}-{name}"
