"""The kubelet of some nodes: starts the pods that are bound to them, in folders that stand for their containers' file
systems. As the real one, it prepares claims (:mod:`.claim_manager`), keeps volumes up to date, runs init containers
first, and reports readiness and the health of devices. Containers run Python functions (:data:`ContainerProgram`), by
container name or image; one without runs for ever, an init container without ends at once."""

from __future__ import annotations

import asyncio
import base64
import logging
import shutil
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from virt_dra.api.core_v1 import FINISHED, Container, Node, Pod, reference_to
from virt_dra.api.integration.paths import WAIT_CONTAINER, WAIT_DIRECTORY, WAIT_FILE
from virt_dra.api.integration.standalone import MAX_TERMINATION_MESSAGE, TERMINATION_MESSAGE_PATH
from virt_dra.api.meta import ObjectMeta, format_time
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.cluster.port import AlreadyExists, ApiError, Cluster, Conflict, NotFound
from virt_dra.cluster.watching.event_recorder import EventRecorder
from virt_dra.cluster.watching.informer import CacheKey, Informer, key_of, running
from virt_dra.cluster.watching.work_queue import WorkQueue
from virt_dra.model.feeds.stand_ins import NODE_LABELS
from virt_dra.simulator.agents import pod_status
from virt_dra.simulator.agents.background import background
from virt_dra.simulator.agents.claim_manager import FAILED_PREPARE, ClaimManager, DraCheckpoint, Prepared, PrepareError
from virt_dra.simulator.agents.containers import (
    ContainerProgram,
    MountClash,
    RunningContainer,
    write_mounted_file,
    write_volume,
)
from virt_dra.simulator.agents.device_health import HealthReports, allocated_resources_status
from virt_dra.simulator.agents.downward import UnsupportedField, environment, volume_files
from virt_dra.simulator.agents.driver import Driver

log = logging.getLogger(__name__)

CAPACITY: Mapping[str, str] = {
    "cpu": "256",
    "memory": "4Ti",
    "pods": "1000",
    "ephemeral-storage": "1Ti",
    "devices.kubevirt.io/kvm": "1k",
    "devices.kubevirt.io/tun": "1k",
    "devices.kubevirt.io/vhost-net": "1k",
}
RETRY_SECONDS = 0.2
_SECRET_SECONDS = 1.0
"""Seconds between two reads of Secrets that volumes show."""
SECRET = unknown_kind("v1", "Secret")
Remove = Callable[[Pod], Awaitable[None]]


async def wait_for_addresses(container: RunningContainer) -> int:
    """The program of the init container of the device-plugin path."""
    while not container.text(f"{WAIT_DIRECTORY}/{WAIT_FILE}"):
        await asyncio.sleep(0.02)
    return 0


class NotYet(Exception):
    """The pod can't go on for now; the text says why."""


RECONCILE_SECONDS = 60.0
"""How often claims of pods that no longer exist are given back (C-16.7)."""
SLICE_WIPE_SECONDS = 30.0
"""So long after a driver's plugin disappeared its slices are deleted (C-16.9)."""


@dataclass
class _Ours:
    """A pod that was begun. ``prepared``: by pod-local claim name; None before its claims are."""

    pod: Pod
    folder: Path
    prepared: Mapping[str, Prepared] | None = None
    containers: dict[str, RunningContainer] = field(default_factory=dict)
    programs: dict[str, asyncio.Task[int]] = field(default_factory=dict)
    exits: dict[str, pod_status.Exit] = field(default_factory=dict)
    started: dict[str, str] = field(default_factory=dict)
    shown: str | None = None
    """The version of the pod that volumes show."""
    secrets: dict[str, dict[str, str]] = field(default_factory=dict)
    """What volumes of Secrets show, by volume."""
    due: float = 0.0
    """When they are to show what the pod is now; 0: they do."""


class Kubelet:
    """Call :meth:`register`, then :meth:`run` it in a task (or ``async with kubelet.running()``). ``programs``: by
    container name; ``images``: by the image's name, without registry and tag. ``address_of``: a pod's uid -> its
    address. ``remove``: ends a pod that is being deleted; see :func:`remover`. ``refresh``: seconds until a changed
    annotation is in volumes; ``start_delay``: until a pod is begun. :attr:`present`: False as while its node is cut
    off: containers go on, and their changes aren't reported."""

    def __init__(
        self,
        cluster: Cluster,
        nodes: Iterable[str],
        drivers: Iterable[Driver],
        folder: Path,
        *,
        programs: Mapping[str, ContainerProgram] | None = None,
        images: Mapping[str, ContainerProgram] | None = None,
        address_of: Callable[[str], str] = lambda uid: "",
        remove: Remove | None = None,
        refresh: float = 0.0,
        start_delay: float = 0.0,
        probe_period: float = 0.2,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cluster = cluster
        self.nodes = tuple(nodes)
        self._drivers = {driver.name: driver for driver in drivers}
        self._device_health = HealthReports()
        self._checkpoints: dict[str, DraCheckpoint] = {}
        self._managers: dict[str, ClaimManager] = {}
        self._folder = folder
        self.programs: dict[str, ContainerProgram] = {WAIT_CONTAINER: wait_for_addresses, **(programs or {})}
        self._images, self._address_of = dict(images or {}), address_of
        self._remove = remove or remover(cluster)
        self.refresh, self.start_delay, self._probe_period = refresh, start_delay, probe_period
        self.present = True
        self._clock = clock
        self._events = EventRecorder(
            cluster, "kubelet", ",".join(self.nodes), clock=clock, suffixes=lambda: uuid.uuid4().hex
        )
        self._ours: dict[str, _Ours] = {}
        self._uids: dict[CacheKey, str] = {}
        self._seen: dict[str, float] = {}
        self._changed = asyncio.Event()
        for driver in self._drivers.values():
            driver.listen(self._changed)

    async def register(self, labels: Mapping[str, str] = NODE_LABELS, capacity: Mapping[str, str] = CAPACITY) -> None:
        """Make the nodes, ready to take pods, with room for launchers. Nodes that are there are brought to it."""
        for name in self.nodes:
            metadata = ObjectMeta(name=name, labels={**labels, "kubernetes.io/hostname": name})
            status = {
                "capacity": dict(capacity),
                "allocatable": dict(capacity),
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            try:
                await self._cluster.create(Node(metadata=metadata))
            except AlreadyExists:
                await self._cluster.patch(Node, name, merge={"metadata": {"labels": dict(metadata.labels)}})
            await self._cluster.patch(Node, name, merge={"status": status}, subresource="status")
            # Admission marks a new node as not ready, and the controller that would take it back runs nowhere here.
            await self._cluster.patch(Node, name, merge={"spec": {"taints": None}})

    async def unregister(self) -> None:
        for name in self.nodes:
            try:
                await self._cluster.delete(Node, name)
            except NotFound:
                continue

    def container(self, pod_uid: str, name: str = "compute") -> RunningContainer | None:
        """A started container, also after it ended; None before."""
        ours = self._ours.get(pod_uid)
        return ours.containers.get(name) if ours else None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs while the body does; then containers stop, their pods stay as they are."""
        async with background(self.run()):
            yield

    async def run(self) -> None:
        """Runs for ever. It ends by cancellation, after which it may be run again, as a kubelet that restarts:
        containers that ran do so on, claims are known from the checkpoint and prepared again (C-22.16)."""
        self._managers = {node: self._manager(node) for node in self.nodes}
        for ours in self._ours.values():
            ours.prepared = None
        queue: WorkQueue[CacheKey] = WorkQueue(longest_delay=1.0)
        pods = Informer(self._cluster, Pod, first_pause=0.05, longest_pause=0.5)
        pods.on_change(lambda old, new: queue.add(key_of(new or old or Pod())))
        self._queue, self._pods = queue, pods
        async with running(pods), asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            group.create_task(self._reconcile_claims())
            group.create_task(self._wipe_slices())
            group.create_task(self._events.run())
            group.create_task(queue.run(self._sync, workers=8))

    def _manager(self, node: str) -> ClaimManager:
        def plugin(name: str) -> Driver | None:
            driver = self._drivers.get(name)
            return driver if driver is not None and driver.registered else None

        def save(checkpoint: DraCheckpoint) -> None:
            self._checkpoints[node] = checkpoint

        return ClaimManager(node, self._cluster, plugin, checkpoint=self._checkpoints.get(node), on_checkpoint=save)

    async def _reconcile_claims(self) -> None:
        """Give back, now and then, what pods used that no longer exist."""
        while True:
            await asyncio.sleep(RECONCILE_SECONDS)
            existing = {pod.metadata.uid for pod in self._pods.store.values()}
            for manager in self._managers.values():
                for uid in sorted(manager.pods - existing):
                    with suppress(PrepareError):  # tried again next time
                        await manager.unprepare(uid)

    async def _wipe_slices(self) -> None:
        """Delete the slices of drivers whose plugin has been gone for a while, at these nodes."""
        loop = asyncio.get_running_loop()
        gone: dict[str, float] = {}
        while True:
            await asyncio.sleep(1.0)
            for driver in self._drivers.values():
                if driver.registered:
                    gone.pop(driver.name, None)
                elif loop.time() - gone.setdefault(driver.name, loop.time()) >= SLICE_WIPE_SECONDS:
                    for node in self.nodes:
                        await self._delete_slices(f"spec.driver={driver.name},spec.nodeName={node}")

    async def _delete_slices(self, fields: str) -> None:
        with suppress(ApiError):  # tried again a second later
            for slice_ in (await self._cluster.list(ResourceSlice, fields=fields)).items:
                await self._cluster.delete(ResourceSlice, slice_.name, uid=slice_.metadata.uid)

    async def _listen(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            for key in tuple(self._uids):
                self._queue.add(key)

    # --- one pod ----------------------------------------------------------------------------------------------------

    async def _sync(self, key: CacheKey) -> float | None:
        """Take one pod a step further. Returns the seconds until its next step."""
        if not self.present:
            return RETRY_SECONDS
        namespace, name = key
        pod = self._pods.store.get(name, namespace)
        uid = self._uids.get(key)
        replaced = uid is not None and (pod is None or pod.metadata.uid != uid)
        if uid is not None and replaced and not await self._forget(key, uid):
            return RETRY_SECONDS
        if pod is None or pod.spec.node_name not in self.nodes:
            return None
        try:
            if pod.metadata.deletion_timestamp is not None:
                if not await self._forget(key, pod.metadata.uid):
                    return RETRY_SECONDS  # the object stays until its claims are given back (C-16.7)
                await self._remove(pod)
                return None
            return None if pod.finished else await self._advance(key, pod)
        except (Conflict, NotFound):
            return RETRY_SECONDS  # another writer was faster; the informer will deliver the pod
        except ApiError:
            return 5 * RETRY_SECONDS

    async def _advance(self, key: CacheKey, pod: Pod) -> float | None:
        now = asyncio.get_running_loop().time()
        waited = now - self._seen.setdefault(pod.metadata.uid, now)
        if waited < self.start_delay:
            return self.start_delay - waited
        self._uids[key] = pod.metadata.uid
        ours = self._ours.setdefault(pod.metadata.uid, _Ours(pod, self._folder / pod.metadata.uid))
        ours.pod = pod
        again: float | None = None
        problem = ""
        try:
            if ours.prepared is None:
                ours.prepared = await self._managers[pod.spec.node_name or ""].prepare(pod)
            mounted = await self._mount_secrets(ours)
            again = self._show_volumes(ours)
            if mounted is not None:
                again = mounted if again is None else min(again, mounted)
            await self._run_containers(key, ours)
        except PrepareError as error:
            problem, again = f"prepare dynamic resources: {error}", RETRY_SECONDS
            message = f"Failed to prepare dynamic resources: {problem}"
            self._events.record(reference_to(pod), "Warning", FAILED_PREPARE, message)
        except (NotYet, UnsupportedField, MountClash) as error:
            problem, again = str(error), RETRY_SECONDS
        ready, health, address = self._ready(ours), self._health(ours), self._address_of(pod.metadata.uid)
        status = pod_status.status_of(pod, ours.started, ours.exits, ready, problem, health, self._clock(), address)
        if status is not None and status.get("phase") in FINISHED and not await self._unprepared(pod):
            return RETRY_SECONDS  # claims are unprepared before the end is reported (C-16.7)
        if status is not None:
            version = {"resourceVersion": pod.metadata.resource_version}
            await self._cluster.patch(
                Pod, pod.name, pod.namespace, merge={"metadata": version, "status": status}, subresource="status"
            )
        probed = any(container.spec.readiness_probe for container in ours.containers.values())
        waits = [seconds for seconds in (again, self._probe_period if probed else None) if seconds is not None]
        return min(waits, default=None)

    async def _unprepared(self, pod: Pod) -> bool:
        """Give a pod's claims back; False if that has to be tried again."""
        try:
            await self._managers[pod.spec.node_name or ""].unprepare(pod.metadata.uid)
        except PrepareError as error:
            log.info("claims of pod %s not unprepared: %s", pod.key, error)
            return False
        return True

    async def _forget(self, key: CacheKey, uid: str) -> bool:
        """End a pod's containers and give its claims back; False if that has to be tried again."""
        ours = self._ours.get(uid)
        if ours is not None:
            for program in ours.programs.values():
                program.cancel()
            if not await self._unprepared(ours.pod):
                return False
            shutil.rmtree(ours.folder, ignore_errors=True)
        self._ours.pop(uid, None)
        self._uids.pop(key, None)
        self._seen.pop(uid, None)
        return True

    # --- volumes ----------------------------------------------------------------------------------------------------

    def _show_volumes(self, ours: _Ours) -> float | None:
        """Bring the volumes of started containers up to date; how many seconds are left until that is due."""
        version = ours.pod.metadata.resource_version
        now = asyncio.get_running_loop().time()
        if ours.shown == version:
            return None
        if ours.containers and self.refresh:
            ours.due = ours.due or now + self.refresh
            if now < ours.due:
                return ours.due - now
        ours.shown, ours.due = version, 0.0
        for container in ours.containers.values():
            container.pod = ours.pod
            self._write_volumes(ours, container.spec, container.root, first=False)
        return None

    async def _mount_secrets(self, ours: _Ours) -> float | None:
        """Bring volumes of Secrets up to date; seconds until that is due again. Raises :class:`NotYet`."""
        volumes = {volume.name: (volume.model_extra or {}).get("secret") for volume in ours.pod.spec.volumes}
        for name, source in volumes.items():
            if source is None:
                continue
            try:
                secret = await self._cluster.get(SECRET, source["secretName"], ours.pod.namespace)
                data = secret.to_wire().get("data") or {}
            except NotFound:
                if ours.containers:
                    continue  # what is shown stays
                raise NotYet(
                    f'MountVolume.SetUp failed for volume "{name}": secret "{source["secretName"]}" not found'
                ) from None
            items = source.get("items") or [{"key": key, "path": key} for key in data]
            missing = [item["key"] for item in items if item["key"] not in data]
            if missing and ours.containers:
                continue  # what is shown stays
            if missing:
                raise NotYet(
                    f'MountVolume.SetUp failed for volume "{name}": references non-existent secret key: {missing[0]}'
                )
            ours.secrets[name] = {item["path"]: base64.b64decode(data[item["key"]]).decode() for item in items}
            for container in ours.containers.values():
                for mount in container.spec.volume_mounts:
                    if mount.name == name:
                        write_volume(container.root / mount.mount_path.lstrip("/"), ours.secrets[name])
        return _SECRET_SECONDS if ours.secrets else None

    def _write_volumes(self, ours: _Ours, spec: Container, root: Path, *, first: bool) -> dict[str, str]:
        """Answers where downwardAPI volumes are mounted. A mount by subPath isn't refreshed."""
        volumes = {volume.name: volume for volume in ours.pod.spec.volumes}
        mounted: dict[str, str] = {}
        for mount in spec.volume_mounts:
            volume = volumes.get(mount.name)
            target = root / mount.mount_path.lstrip("/")
            if volume is not None and volume.downward_api is not None:
                files = volume_files(ours.pod, volume)
                if not mount.sub_path:
                    mounted[mount.mount_path.rstrip("/")] = volume.name
                    write_volume(target, files)
                elif first and mount.sub_path in files:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_text(files[mount.sub_path], encoding="utf-8")
            elif first and mount.name in ours.secrets:
                write_volume(target, ours.secrets[mount.name])
            elif first and volume is not None and volume.empty_dir is not None:
                shared = ours.folder / "volumes" / volume.name / (mount.sub_path or "")
                shared.mkdir(parents=True, exist_ok=True)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(shared)
            elif first:
                target.mkdir(parents=True, exist_ok=True)
        return mounted

    # --- containers -------------------------------------------------------------------------------------------------

    async def _run_containers(self, key: CacheKey, ours: _Ours) -> None:
        never = ours.pod.spec.restart_policy == "Never"
        for spec in ours.pod.spec.init_containers:
            stays = spec.restart_policy == "Always"
            failed = spec.name in ours.exits and ours.exits[spec.name].code != 0
            if failed and not never:
                await asyncio.sleep(RETRY_SECONDS)
                for by_name in (ours.containers, ours.programs, ours.exits, ours.started):
                    by_name.pop(spec.name, None)
            self._start(key, ours, spec, ends=not stays)
            if not stays and (spec.name not in ours.exits or ours.exits[spec.name].code != 0):
                return  # its end, or the pod's, comes first
        for spec in ours.pod.spec.containers:
            self._start(key, ours, spec, ends=False)

    def _start(self, key: CacheKey, ours: _Ours, spec: Container, *, ends: bool) -> None:
        if spec.name in ours.containers:
            return
        root = ours.folder / "containers" / spec.name
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        variables = environment(ours.pod, spec)
        mounted = self._write_volumes(ours, spec, root, first=True)
        for entry, prepared in (ours.prepared or {}).items():
            for reference in spec.resources.claims:
                if reference.name == entry:
                    self._inject(prepared, (reference.request or "").partition("/")[0], root, mounted, variables)
        container = ours.containers[spec.name] = RunningContainer(ours.pod, spec, root, variables)
        ours.started[spec.name] = format_time(self._clock())
        program = self.programs.get(spec.name) or self._images.get(image_name(spec.image or ""))
        container.serving = program is None
        if program is None and ends:
            ours.exits[spec.name] = pod_status.Exit(0)
        elif program is not None:
            task = ours.programs[spec.name] = asyncio.ensure_future(program(container))
            task.add_done_callback(lambda done: self._ended(key, ours, spec.name, done))

    def _inject(
        self, prepared: Prepared, request: str, root: Path, mounted: Mapping[str, str], variables: dict[str, str]
    ) -> None:
        """What the drivers' CDI files do to a container that uses a claim, or one request of it."""
        for name, (path, content) in prepared.files.items():
            if not request or name.partition(" ")[0] == request:
                write_mounted_file(root, path, content, mounted)
        for device in prepared.devices:
            if not request or device.base_request == request:
                variables.update(device.environment)

    def _ended(self, key: CacheKey, ours: _Ours, name: str, done: asyncio.Task[int]) -> None:
        if not done.cancelled():
            error = done.exception()
            container = ours.containers[name]
            message = container.text(container.spec.termination_message_path or TERMINATION_MESSAGE_PATH)[
                :MAX_TERMINATION_MESSAGE
            ]
            ours.exits[name] = pod_status.Exit(1 if error is not None else done.result(), message)
            self._queue.add(key)
            if error is not None:  # a fault of the test's program: shown, not swallowed
                asyncio.get_running_loop().call_exception_handler(
                    {"message": f"program of {name} failed", "exception": error}
                )

    # --- status -----------------------------------------------------------------------------------------------------

    def _ready(self, ours: _Ours) -> dict[str, bool]:
        return {
            name: name not in ours.exits and pod_status.probe_succeeds(container)
            for name, container in ours.containers.items()
            if name in {spec.name for spec in ours.pod.spec.containers}
        }

    def _health(self, ours: _Ours) -> dict[str, list[dict[str, Any]]]:
        """``allocatedResourcesStatus`` by container: only those of drivers that report health."""
        now = self._clock()
        for driver in self._drivers.values():
            if driver.registered:
                self._device_health.report(driver.name, driver.health_report, now)
            else:
                self._device_health.stream_ended(driver.name)
        devices = {
            entry: [device for device in prepared.devices if self._drivers[device.driver].reports_health]
            for entry, prepared in (ours.prepared or {}).items()
        }
        return {
            spec.name: [
                status.to_wire() for status in allocated_resources_status(spec, devices, self._device_health, now)
            ]
            for spec in ours.pod.spec.containers
            if spec.name in ours.containers
        }


def image_name(image: str) -> str:
    """``registry.example.com:5000/team/virt-dra:0.1.0`` -> ``virt-dra``."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def remover(cluster: Cluster) -> Remove:
    """How a kubelet ends a pod that is being deleted: at once, as its containers have stopped."""

    async def at_once(pod: Pod) -> None:
        try:
            await cluster.delete(Pod, pod.name, pod.namespace, uid=pod.metadata.uid, grace_seconds=0)
        except (NotFound, Conflict):
            return  # gone, or another one of its name

    return at_once
