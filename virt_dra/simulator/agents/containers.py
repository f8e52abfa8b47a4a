"""Folders that stand for containers' file systems: volumes, and files that drivers mount."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from launcher.addresses.metadata_files import read_folder
from virt_dra.api.core_v1 import Container, Pod

_numbers = count()


@dataclass
class RunningContainer:
    """A started container. ``pod`` is the pod as the kubelet saw it last; ``environment`` is fixed."""

    pod: Pod
    spec: Container
    root: Path
    """Stands for the container's ``/``."""
    environment: Mapping[str, str]
    serving: bool = True
    """Whether an HTTP readiness probe is answered with success. A program that serves says so itself."""

    def path(self, absolute: str) -> Path:
        return self.root / absolute.lstrip("/")

    def text(self, absolute: str) -> str:
        """The content of a file, "" for a missing one."""
        path = self.path(absolute)
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def metadata_files(self) -> dict[str, str]:
        """The metadata files that are in it, by absolute path."""
        return read_folder(self.root)


ContainerProgram = Callable[[RunningContainer], Awaitable[int]]
"""What a container runs; its exit code."""


class MountClash(OSError):
    """A file is to be mounted where a read-only volume is: the runtime can't make the container."""


def write_volume(folder: Path, files: Mapping[str, str]) -> bool:
    """Make a downwardAPI volume hold exactly these files, all at once; whether anything changed. As the kubelet does
    it: the files are in a hidden folder that a link names, and what is visible are links through it."""
    folder.mkdir(parents=True, exist_ok=True)
    current = folder / "..data"
    if current.exists() and _content(current.resolve()) == dict(files):
        return False
    number = next(_numbers)
    hidden = folder / f"..{number}"
    for name, content in files.items():
        path = hidden / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    hidden.mkdir(exist_ok=True)
    previous = current.resolve() if current.exists() else None
    link = folder / f"..tmp{number}"
    link.symlink_to(hidden.name)
    link.replace(current)
    tops = {name.split("/")[0] for name in files}
    for top in tops:
        if not (folder / top).is_symlink():
            (folder / top).symlink_to(f"..data/{top}")
    for shown in folder.iterdir():
        if shown.is_symlink() and not shown.name.startswith("..") and shown.name not in tops:
            shown.unlink()
    if previous is not None:
        shutil.rmtree(previous)
    return True


def _content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()
    }


def write_mounted_file(root: Path, absolute: str, content: str, volume_mounts: Mapping[str, str]) -> None:
    """A file that a driver mounts into a container. Raises :class:`MountClash` inside of downwardAPI
    ``volume_mounts``."""
    parent = os.path.dirname(absolute)  # noqa: PTH120 - a path of the container, not of this machine
    for mount, volume in volume_mounts.items():
        if parent == mount or parent.startswith(f"{mount}/"):
            raise MountClash(f"{absolute} can't be mounted: {mount} is volume {volume}, which is read-only")
    path = root / absolute.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
