"""Our pods as containers of the images that were built here, for as long as a context lasts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from devtools.containers.caching import ADVICE, archives
from devtools.containers.containerd import Containerd, ContainerdError
from devtools.play.starting import ContainerdStarter


@contextmanager
def contained(built: Mapping[str, Path] | None = None) -> Iterator[tuple[Containerd, ContainerdStarter]]:
    """A containerd with the images, and what starts containers of them. ``built``: archives by name; None for those of
    this source.

    Raises :class:`~devtools.containers.containerd.ContainerdError`, also where there are none.
    """
    images = archives() if built is None else built
    if not images:
        raise ContainerdError(ADVICE)
    with Containerd() as containerd:
        for name, archive in images.items():
            containerd.load(name, archive)
        yield containerd, ContainerdStarter(containerd)
