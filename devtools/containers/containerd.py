"""A containerd of one's own, without a service: containers of image archives, with what :mod:`.restrictions` says.

It runs in PID and mount namespaces of its own, so that it ends with the process that started it, whatever ended that,
and with it its containers and their mounts. Containers have this machine's network, as pods with ``hostNetwork`` do.
Needs root.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from devtools.cluster.supervisor import Supervisor
from devtools.containers.oci import ImageArchive
from devtools.containers.restrictions import Restrictions

_WAIT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05
_CGROUPS: Final = Path("/sys/fs/cgroup")
_OVERLAY: Final = "overlayfs"
_NOT_NEEDED: Final = ("io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt")
_numbers = itertools.count()


class ContainerdError(Exception):
    """Why containerd can't do what it was asked for; the text ends with what it said."""


@dataclass(frozen=True)
class BindMount:
    """A file or folder of this machine in a container."""

    source: Path
    target: str
    read_only: bool = False

    def __str__(self) -> str:
        return (
            f"type=bind,src={self.source},dst={self.target},options=rbind:rprivate:{'ro' if self.read_only else 'rw'}"
        )


class Containerd:
    """Use it as a context manager. :meth:`command` is what starts a container; it lasts as long as its containers
    do."""

    def __init__(self) -> None:
        if os.geteuid():
            raise ContainerdError("containers need root")
        # Short: the path of a socket has room for 107 bytes only.
        self._folder = Path(tempfile.mkdtemp(prefix="vdc-"))
        self._socket, self._log = self._folder / "s", self._folder / "log"
        self._cgroup = f"virt-dra-{os.getpid()}-{next(_numbers)}"
        self._supervisor = Supervisor(self._folder)
        self._images: dict[str, ImageArchive] = {}
        self._references: dict[str, str] = {}
        self._snapshotter = _OVERLAY

    def __enter__(self) -> Self:
        """Raises :class:`ContainerdError`."""
        configuration = self._folder / "config.toml"
        disabled = ", ".join(f'"{name}"' for name in _NOT_NEEDED)
        configuration.write_text(
            f'version = 2\nroot = "{self._folder}/root"\nstate = '
            f'"{self._folder}/state"\ndisabled_plugins = [{disabled}]\n'
            f'[grpc]\naddress = "{self._socket}"\n',
            encoding="utf-8",
        )
        own = ("unshare", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child", "--")
        try:
            pid = self._supervisor.start([*own, "containerd", "--config", str(configuration)], self._log)
            self._wait_until_up(pid)
            self._snapshotter = self._best_snapshotter()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends it and all containers at once."""
        self._supervisor.close()
        for folder in self._cgroup_folders():
            for group in (*folder.glob("*"), folder):
                if group.is_dir():
                    with suppress(OSError):  # a process of it is just ending: an empty cgroup does no harm
                        group.rmdir()

    def load(self, name: str, archive: Path) -> None:
        """Containers can be of this image from now on, under the name. Raises :class:`ContainerdError`."""
        image = ImageArchive(archive)
        self._ctr("image", "import", "--snapshotter", self._snapshotter, str(archive))
        lines = self._ctr("image", "ls").splitlines()[1:]
        self._references[name] = next(words[0] for line in lines if (words := line.split())[2] == image.digest)
        self._images[name] = image

    def image(self, name: str) -> ImageArchive:
        """An image that was loaded. Raises KeyError."""
        return self._images[name]

    @property
    def images(self) -> frozenset[str]:
        return frozenset(self._images)

    def command(
        self, identity: str, image: str, argv: Iterable[str], restrictions: Restrictions,
        mounts: Iterable[BindMount] = (), environment: Mapping[str, str] | None = None,
    ) -> list[str]:  # fmt: skip
        """A command that runs a container in the foreground: it passes signals on, and ends with the container's exit
        code.

        ``identity``: no other container's. Where the command is killed the container goes on until :meth:`kill`.
        """
        variables = [word for name, value in (environment or {}).items() for word in ("--env", f"{name}={value}")]
        mounted = [word for mount in mounts for word in ("--mount", str(mount))]
        options = ("--rm", "--net-host", "--snapshotter", self._snapshotter, "--cgroup", f"/{self._cgroup}/{identity}")
        return [
            *self._client(),
            "run",
            *options,
            *restrictions.options(),
            *mounted,
            *variables,
            self._references[image],
            identity,
            *argv,
        ]

    def kill(self, identity: str) -> None:
        """Ends a container at once and forgets it; one that has ended is no error."""
        for words in (("task", "kill", "--signal", "SIGKILL"), ("task", "delete", "--force"), ("container", "delete")):
            subprocess.run([*self._client(), *words, identity], capture_output=True, check=False)

    def processes(self, identity: str) -> tuple[int, ...]:
        """The ids of a container's processes, as they are outside of it; () where it doesn't run."""
        ids: set[int] = set()
        for folder in self._cgroup_folders():
            with suppress(OSError):
                ids.update(map(int, (folder / identity / "cgroup.procs").read_text(encoding="ascii").split()))
        return tuple(sorted(ids))

    def memory(self, identity: str) -> tuple[int, int]:
        """Bytes of a container's memory: its limit, and the most that it had. Raises OSError where it doesn't run."""
        for limit, peak in (("memory.limit_in_bytes", "memory.max_usage_in_bytes"), ("memory.max", "memory.peak")):
            for folder in self._cgroup_folders():
                if (folder / identity / limit).exists():
                    return int((folder / identity / limit).read_text()), int((folder / identity / peak).read_text())
        raise FileNotFoundError(f"no cgroup {self._cgroup}/{identity} with memory")

    def said(self) -> str:
        """The end of containerd's log."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-10:])

    def _cgroup_folders(self) -> list[Path]:
        """Of each hierarchy (version 1), or the one (version 2)."""
        return [folder for folder in (_CGROUPS / self._cgroup, *_CGROUPS.glob(f"*/{self._cgroup}")) if folder.is_dir()]

    def _client(self) -> list[str]:
        return ["ctr", "--address", str(self._socket)]

    def _best_snapshotter(self) -> str:
        """Where overlays can't be mounted, as on an overlay, files are copied."""
        plugins = [line.split() for line in self._ctr("plugins", "ls").splitlines()]
        usable = any(_OVERLAY in words and words[-1] == "ok" for words in plugins)
        return _OVERLAY if usable else "native"

    def _ctr(self, *words: str) -> str:
        done = subprocess.run([*self._client(), *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ContainerdError(f"ctr {words[0]} {words[1]}: {done.stderr.strip()}\n{self.said()}")
        return done.stdout

    def _wait_until_up(self, pid: int) -> None:
        end = time.monotonic() + _WAIT_SECONDS
        while subprocess.run([*self._client(), "version"], capture_output=True, check=False).returncode:
            if self._supervisor.status(pid) is not None or time.monotonic() > end:
                raise ContainerdError(f"containerd doesn't start:\n{self.said()}")
            time.sleep(_POLL_SECONDS)
