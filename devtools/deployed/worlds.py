"""Clusters for the tests, of which one is there at a time: a node with devices, drivers and a kubelet, our overlay, and
KubeVirt or not."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from devtools.agents.kubevirt import FakeKubeVirt
from devtools.agents.kubevirt_installation import kubevirt_installed
from devtools.agents.launchers import Launchers
from devtools.cluster.control_plane import ControlPlane, RequestError
from devtools.deployed.overlay import Installed, installed
from devtools.deployed.webhook import Answer, post
from virt_dra.api.integration.known_drivers import WRITES_METADATA_ANNOTATION
from virt_dra.api.kubevirt_v1 import PermittedHostDevices
from virt_dra.api.kubevirt_versions import (
    GPUS_WITH_DRA,
    HOST_DEVICES,
    HOST_DEVICES_WITH_DRA,
    NETWORK_DEVICES_WITH_DRA,
    V1_8_0,
    V1_9_0,
    Gates,
    KubeVirtVersion,
)
from virt_dra.cluster.kube.cluster import connect
from virt_dra.cluster.port import Cluster
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE
from virt_dra.simulator.agents.driver import Driver
from virt_dra.simulator.agents.hardware import Gadget, HardwarePool
from virt_dra.simulator.agents.kubelet import Kubelet

T = TypeVar("T")
Json = dict[str, Any]

PATIENCE: Final = 60.0
"""For whatever a loaded machine takes; nothing waits that long on one of one's own."""
TOLD_WRITER: Final = "switch.example.com"
"""A driver that writes metadata files because an administrator has turned that on, and annotated a DeviceClass
accordingly."""
WRITERS: Final = frozenset({"gpu.intel.com", TOLD_WRITER})
"""Drivers of the tests that write metadata files. Of Intel's it is known."""
ALL_GATES: Final = (GPUS_WITH_DRA, HOST_DEVICES_WITH_DRA, HOST_DEVICES, NETWORK_DEVICES_WITH_DRA)

_DRIVER_WAIT: Final = "--webhook-argument=--driver-wait=2"
"""Two minutes as a default; cases without a matching device wait that long."""

PERMITTED: Final = PermittedHostDevices.from_wire({
    "pciHostDevices": [{"pciVendorSelector": "10DE:20B0", "resourceName": "example.com/A-100",
        "externalResourceProvider": True}]
})  # fmt: skip
"""What an administrator adds to KubeVirt's configuration for the path device-plugin."""

_GROUPS: Final[Mapping[str, str]] = {
    "pods": "/api/v1",
    "events": "/api/v1",
    "virtualmachines": "/apis/kubevirt.io/v1",
    "virtualmachineinstances": "/apis/kubevirt.io/v1",
    "virtualmachineinstancedevices": "/apis/virt-dra.io/v1alpha1",
    "resourceclaims": "/apis/resource.k8s.io/v1",
    "resourceclaimtemplates": "/apis/resource.k8s.io/v1",
}
_TABLE: Final = "application/json;as=Table;g=meta.k8s.io;v=v1"


class Background:
    """An event loop in a thread, for what runs beside the tests."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that runs there."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    def call(self, function: Callable[..., T], *arguments: object) -> T:
        """The result of a function that is called there."""

        async def called() -> T:
            return function(*arguments)

        return self.do(called())

    @contextmanager
    def entered(self, manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """An asynchronous context that lasts as long as the body; one task enters and leaves it."""
        inside: Future[T] = Future()
        stop = asyncio.Event()

        async def hold() -> None:
            try:
                async with manager as value:
                    inside.set_result(value)
                    await stop.wait()
            except BaseException as error:
                if inside.done():
                    raise
                inside.set_exception(error)

        holding = asyncio.run_coroutine_threadsafe(hold(), self._loop)
        try:
            yield inside.result(PATIENCE)
        finally:
            self._loop.call_soon_threadsafe(stop.set)
            holding.result(PATIENCE)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@dataclass
class World:
    """``kubevirt``: beside a KubeVirt; ``launchers``: without one. Methods ask the API server as the cluster's
    administrator."""

    plane: ControlPlane
    background: Background
    namespace: str
    drivers: Mapping[str, Driver]
    kubelet: Kubelet
    running: Installed
    kubevirt: FakeKubeVirt | None = None
    launchers: Launchers | None = None
    warnings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The answers to creating each object by :meth:`create`, by its name."""

    @property
    def node(self) -> str:
        return f"node-{self.namespace}"

    # --- requests ---

    def path(self, plural: str, name: str = "") -> str:
        return f"{_GROUPS[plural]}/namespaces/{self.namespace}/{plural}{f'/{name}' if name else ''}"

    def post(self, plural: str, body: Json, query: str = "") -> Answer:
        """Whatever the answer is, with its warnings as people see them."""
        version = _GROUPS[plural].removeprefix("/apis/").removeprefix("/api/")
        answer = post(self.plane, f"{self.path(plural)}{query}", {"apiVersion": version, **body})
        shown = (text.encode("latin-1").decode().replace('\\"', '"') for text in answer.warnings)
        return Answer(answer.code, answer.body, tuple(shown))

    def create(self, plural: str, body: Json) -> Json:
        answer = self.post(plural, body)
        assert answer.code == 201, answer.body
        self.warnings[body["metadata"]["name"]] = answer.warnings
        made: Json = answer.body
        return made

    def get(self, plural: str, name: str) -> Json:
        """Raises RequestError."""
        return self.plane.request("GET", self.path(plural, name))

    def find(self, plural: str, name: str) -> Json | None:
        try:
            return self.get(plural, name)
        except RequestError as error:
            if error.status != 404:
                raise
            return None

    def all(self, plural: str, query: str = "") -> list[Json]:
        items: list[Json] = self.plane.request("GET", f"{self.path(plural)}{query}")["items"]
        return items

    def patch(self, plural: str, name: str, merge: Json) -> Json:
        return self.plane.merge(self.path(plural, name), merge)

    def delete(self, plural: str, name: str) -> None:
        self.plane.request("DELETE", self.path(plural, name))

    def table(self, plural: str, name: str) -> dict[str, object]:
        """What ``kubectl get`` shows of an object: its columns of priority 0."""
        answer = self.plane.request("GET", self.path(plural, name), accept=_TABLE)
        columns = zip(answer["columnDefinitions"], answer["rows"][0]["cells"], strict=True)
        return {column["name"]: cell for column, cell in columns if not column["priority"]}

    # --- waiting ---

    def eventually(self, look: Callable[[], T], holds: Callable[[T], object] = bool, seconds: float = PATIENCE) -> T:
        """What ``look`` answers as soon as it ``holds``."""
        end = time.monotonic() + seconds
        while not holds(answer := look()):
            assert time.monotonic() < end, f"not within {seconds:.0f} s; last: {answer}"
            time.sleep(0.05)
        return answer

    def in_phase(self, name: str, phase: str, plural: str = "virtualmachineinstances") -> Json:
        def reached(candidate: Json | None) -> bool:
            return candidate is not None and candidate.get("status", {}).get("phase") == phase

        reached_object = self.eventually(lambda: self.find(plural, name), reached)
        assert reached_object is not None
        return reached_object

    def devices(self, name: str, holds: Callable[[Json], object]) -> Json:
        """The status of a VMI's VirtualMachineInstanceDevices, once it ``holds``."""

        def look() -> Json:
            status: Json = (self.find("virtualmachineinstancedevices", name) or {}).get("status", {})
            return status

        return self.eventually(look, lambda status: status and holds(status))

    def launcher_pods(self, vmi: str) -> list[Json]:
        """Those of VMIs of that name, the newest last."""
        pods = self.all("pods", "?labelSelector=kubevirt.io%3Dvirt-launcher")
        owned = [
            pod for pod in pods if any(owner["name"] == vmi for owner in pod["metadata"].get("ownerReferences", ()))
        ]
        return sorted(owned, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    def launcher_pod(self, vmi: Json) -> Json:
        """The only one of a VMI."""

        def look() -> list[Json]:
            pods = self.launcher_pods(vmi["metadata"]["name"])
            return [
                pod
                for pod in pods
                if any(owner["uid"] == vmi["metadata"]["uid"] for owner in pod["metadata"]["ownerReferences"])
            ]

        (pod,) = self.eventually(look)
        return pod

    def events(self, name: str) -> list[tuple[str, str, str]]:
        """The Events that our operator emitted about objects of that name: type, reason, message."""
        query = f"?fieldSelector=involvedObject.name%3D{name}"
        ours = [event for event in self.all("events", query) if event["source"].get("component") == "virt-dra-operator"]
        return sorted((event["type"], event["reason"], event["message"]) for event in ours)


# --- making them --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hardware:
    """What a node has: driver -> devices. Devices of a case have the attribute ``case``, by which its class
    ``e2e-<case>`` finds them."""

    devices: Mapping[str, tuple[Gadget, ...]]
    classes: tuple[str, ...]


@asynccontextmanager
async def _agents(
    plane: ControlPlane, namespace: str, hardware: Hardware, folder: Path, launchers: Launchers | None
) -> AsyncIterator[tuple[Mapping[str, Driver], Kubelet]]:
    node = f"node-{namespace}"
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(connect(str(plane.kubeconfig)))
        drivers = {
            name: Driver(cluster, (HardwarePool(name, node, devices, node=node),), metadata=name in WRITERS)
            for name, devices in hardware.devices.items()
        }
        programs = {"compute": launchers.run} if launchers is not None else None
        kubelet = Kubelet(cluster, (node,), drivers.values(), folder, programs=programs)
        await kubelet.register()
        stack.push_async_callback(kubelet.unregister)
        for driver in drivers.values():
            await driver.publish()
            stack.push_async_callback(driver.withdraw)
        await stack.enter_async_context(kubelet.running())
        yield drivers, kubelet


@contextmanager
def _started(plane: ControlPlane, hardware: Hardware) -> Iterator[tuple[ExitStack, Background, str]]:
    """A namespace, classes, a loop; scheduler and controllers run."""
    plane.start_scheduler()
    plane.start_controllers()
    with ExitStack() as stack:
        background = Background()
        stack.callback(background.close)
        namespace = plane.create_namespace("e2e-")
        stack.callback(plane.delete_namespace, namespace)
        for name in hardware.classes:
            _create_class(plane, name, stack)
        yield stack, background, namespace


def _create_class(plane: ControlPlane, case: str, stack: ExitStack) -> None:
    name, path = f"e2e-{case}", "/apis/resource.k8s.io/v1/deviceclasses"
    expression = f'device.attributes[device.driver].?case.orValue("") == "{case}"'
    selectors = [{"cel": {"expression": expression}}]
    metadata = {"name": name, "annotations": {WRITES_METADATA_ANNOTATION: TOLD_WRITER}}
    plane.request("POST", path, {"metadata": metadata, "spec": {"selectors": selectors}})
    stack.callback(plane.request, "DELETE", f"{path}/{name}")


Maker = AbstractContextManager[World]


@contextmanager
def beside_kubevirt(
    plane: ControlPlane, version: str, hardware: Hardware, folder: Path, then: Callable[[World], None]
) -> Iterator[World]:
    """Beside a KubeVirt of that version with all gates for devices on. ``then`` is done to it at last.

    permittedHostDevices is set where it doesn't keep host devices with claims from starting (K-4.8).
    """
    permitted = None if V1_8_0 <= KubeVirtVersion.parse(version) < V1_9_0 else PERMITTED
    gates = Gates.for_version(KubeVirtVersion.parse(version), dict.fromkeys(ALL_GATES, True))
    with _started(plane, hardware) as (stack, background, namespace):
        own: Cluster = stack.enter_context(background.entered(kubevirt_installed(plane, gates, permitted)))
        running = stack.enter_context(installed(plane, BESIDE_KUBEVIRT, _DRIVER_WAIT))
        drivers, kubelet = stack.enter_context(background.entered(_agents(plane, namespace, hardware, folder, None)))
        kubevirt = FakeKubeVirt(own, kubelet, gates, permitted_host_devices=permitted)
        stack.enter_context(background.entered(kubevirt.running()))
        world = World(plane, background, namespace, drivers, kubelet, running, kubevirt=kubevirt)
        _until_asked(world)
        then(world)
        yield world


@contextmanager
def standalone(plane: ControlPlane, hardware: Hardware, folder: Path, then: Callable[[World], None]) -> Iterator[World]:
    """Without KubeVirt; launcher pods run ``virt-dra-launcher``. ``then`` is done to it at last."""
    with _started(plane, hardware) as (stack, background, namespace):
        running = stack.enter_context(installed(plane, STANDALONE))
        launchers = Launchers(folder / "launchers")
        stack.callback(launchers.close)
        drivers, kubelet = stack.enter_context(
            background.entered(_agents(plane, namespace, hardware, folder, launchers))
        )
        world = World(plane, background, namespace, drivers, kubelet, running, launchers=launchers)
        _until_asked(world)
        then(world)
        yield world


def _until_asked(world: World) -> None:
    """The API server learns of webhook configurations and of who is behind them a moment later."""
    if world.kubevirt is None:
        bad = {
            "kind": "VirtualMachineInstance",
            "metadata": {"name": "probe"},
            "spec": {"domain": {}, "resourceClaims": [{"name": "-"}]},
        }
        world.eventually(
            lambda: world.post("virtualmachineinstances", bad, "?dryRun=All"), lambda answer: answer.code == 422
        )
        return
    pod: Json = {
        "kind": "Pod",
        "metadata": {
            "name": "probe",
            "labels": {"kubevirt.io": "virt-launcher"},
            "annotations": {"virt-dra.io/device-claims": "{"},
        },
        "spec": {"containers": [{"name": "compute", "image": "i"}]},
    }
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "name": "v",
        "uid": "u",
        "controller": True,
    }
    pod["metadata"]["ownerReferences"] = [owner]
    world.eventually(lambda: world.post("pods", pod, "?dryRun=All"), lambda answer: answer.code == 422)


class Worlds:
    """The world that is there, if any. Another one that is asked for takes its place."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._known: tuple[str, World] | None = None

    def get(self, name: str, make: Callable[[], Maker]) -> World:
        """The world of that name; made if it isn't the one that is there."""
        if self._known is None or self._known[0] != name:
            self.close()
            self._known = (name, self._stack.enter_context(make()))
        return self._known[1]

    def close(self) -> None:
        self._known = None
        self._stack.close()
