"""A Secret as files in a folder, kept up to date as a kubelet keeps a volume of it."""

from __future__ import annotations

import base64
import http.client
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from devtools.cluster.control_plane import ControlPlane, RequestError
from virt_dra.simulator.agents.containers import write_volume

WAIT_SECONDS = 60.0
_EVERY_SECONDS = 0.2


class MountedSecret:
    """Use it as a context manager, which begins when the Secret has the files. ``names``: those that are mounted."""

    def __init__(self, plane: ControlPlane, namespace: str, secret: str, folder: Path, *names: str) -> None:
        self.folder = folder
        self._plane, self._names = plane, names or ("tls.crt", "tls.key")
        self._path = f"/api/v1/namespaces/{namespace}/secrets/{secret}"
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def refresh(self) -> bool:
        """Whether the folder holds what the Secret does; False where the Secret lacks a file, or nobody says what it
        has."""
        try:
            data = self._plane.request("GET", self._path).get("data") or {}
        except (RequestError, OSError, http.client.HTTPException):
            return False
        if not all(data.get(name) for name in self._names):
            return False
        write_volume(self.folder, {name: base64.b64decode(data[name]).decode() for name in self._names})
        return True

    def _follow(self) -> None:
        while not self._done.wait(_EVERY_SECONDS):
            self.refresh()

    def __enter__(self) -> Self:
        end = time.monotonic() + WAIT_SECONDS
        while not self.refresh():
            if time.monotonic() > end:
                raise AssertionError(f"{self._path} doesn't get {', '.join(self._names)}")
            time.sleep(_EVERY_SECONDS)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
