"""How a pod's container is started: as a process of this machine, or in containerd of the image that was built here.

A process runs as you and sees your file system. A container has the image's, the pod's volumes, and what the pod's
security context and resources say: user, read-only root, capabilities, seccomp, limit of memory.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from devtools.cluster.processes import PROGRAM
from devtools.containers.containerd import BindMount, Containerd
from devtools.containers.restrictions import Restrictions, restrictions_of
from virt_dra.api.integration import standalone
from virt_dra.simulator.agents.containers import RunningContainer
from virt_dra.simulator.agents.kubelet import image_name

ACCOUNT_DIRECTORY: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
KUBECONFIG: Final = "kubeconfig"
"""The file of the ServiceAccount's folder for programs that see it where this machine has it."""
_LISTENING: Final = ("--host", "--plain-host")
_SHARED_FOLDER, _SHARED_FILE = 0o2777, 0o666


@dataclass(frozen=True)
class Started:
    """A command that is the container as long as it runs. ``end``: ends at once what may be left of it after a
    SIGKILL."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    end: Callable[[], None] = lambda: None


class Starter(Protocol):
    """Commands that run containers."""

    def start(self, container: RunningContainer, listening: str, server: str) -> Started:
        """``listening``: the address at which its ports are; "" where it has none. ``server``: the API server,
        ``host:port``."""


class HostStarter:
    """Runs ``virt-dra`` of this environment with the container's arguments."""

    def start(self, container: RunningContainer, listening: str, server: str) -> Started:
        environment = {
            **container.environment,
            "KUBECONFIG": str(container.path(f"{ACCOUNT_DIRECTORY}/{KUBECONFIG}")),
            "HOME": str(container.root),
            "TMPDIR": str(container.path("/tmp").resolve()),
        }
        return Started(
            (sys.executable, "-c", PROGRAM, *_here(container), *_listening(container, listening)), environment
        )


class ContainerdStarter:
    """Runs containers of the images that were loaded, by the name of the pod's image without registry and tag."""

    def __init__(self, containerd: Containerd) -> None:
        self._containerd = containerd
        self._numbers = itertools.count()
        self.running: dict[tuple[str, str, str], tuple[str, Restrictions]] = {}
        """By namespace, pod and container: what the latest start is called there, and what it may do."""

    def close(self) -> None:
        """Ends all that it started, and forgets it."""
        for identity, _ in self.running.values():
            self._containerd.kill(identity)
        self.running.clear()

    def start(self, container: RunningContainer, listening: str, server: str) -> Started:
        """Raises :class:`~devtools.containers.restrictions.NotApplicable`."""
        pod, spec = container.pod.to_wire()["spec"], container.spec.to_wire()
        image = self._containerd.image(image_name(container.spec.image or ""))
        restrictions = restrictions_of(pod, spec, image.user)
        argv = image.argv(container.spec.command, (*container.spec.args, *_listening(container, listening)))
        host, _, port = server.rpartition(":")
        environment = {**container.environment, "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        identity = f"{container.pod.metadata.uid}-{container.spec.name}-{next(self._numbers)}"
        mounts = tuple(_mounts(container, restrictions))
        command = self._containerd.command(
            identity, image_name(container.spec.image or ""), argv, restrictions, mounts, environment
        )
        self.running[container.pod.namespace, container.pod.name, container.spec.name] = identity, restrictions
        return Started(tuple(command), {}, lambda: self._containerd.kill(identity))


def _mounts(container: RunningContainer, restrictions: Restrictions) -> Iterator[BindMount]:
    """Its volumes, owned as a kubelet has them owned, its ServiceAccount, and the file for its last words."""
    group = restrictions.volumes_group if restrictions.volumes_group is not None else -1
    volumes = {volume.name: volume for volume in container.pod.spec.volumes}
    for mount in container.spec.volume_mounts:
        folder = container.path(mount.mount_path).resolve()
        volume = volumes.get(mount.name)
        if volume is not None and volume.empty_dir is not None:
            os.chown(folder, -1, group)
            folder.chmod(_SHARED_FOLDER)
        yield BindMount(folder, mount.mount_path, bool(mount.read_only) or volume is None or volume.empty_dir is None)
    account = container.path(ACCOUNT_DIRECTORY)
    if account.exists():
        os.chown(account / "token", restrictions.user, group)  # readable for the pod's user only
        if ACCOUNT_DIRECTORY not in {mount.mount_path for mount in container.spec.volume_mounts}:
            yield BindMount(account, ACCOUNT_DIRECTORY, read_only=True)
    path = container.spec.termination_message_path or standalone.TERMINATION_MESSAGE_PATH
    message = container.path(path)
    message.parent.mkdir(parents=True, exist_ok=True)
    message.touch()
    message.chmod(_SHARED_FILE)
    yield BindMount(message, path)


def _listening(container: RunningContainer, address: str) -> tuple[str, ...]:
    """Arguments that have a server listen at its pod's address alone: all pods have this machine's network."""
    if not address:
        return ()
    given = {argument.partition("=")[0] for argument in container.spec.args}
    return tuple(f"{option}={address}" for option in _LISTENING if option == "--host" or option in given)


def _here(container: RunningContainer) -> list[str]:
    """The container's arguments; those that name a mounted folder name it where this machine has it."""
    arguments = []
    for argument in container.spec.args:
        option, equals, value = argument.partition("=")
        mounted = any(
            value == mount.mount_path or value.startswith(f"{mount.mount_path}/")
            for mount in container.spec.volume_mounts
        )
        arguments.append(f"{option}{equals}{container.path(value)}" if mounted else argument)
    return arguments
