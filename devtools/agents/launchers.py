"""``virt-dra-launcher`` as what a pod's container runs: the command that the pod says, with the container's folder as
its ``/``."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Final

from devtools.cluster.supervisor import Supervisor
from virt_dra.api.integration import standalone
from virt_dra.simulator.agents.containers import RunningContainer

PROGRAM: Final = Path(sys.executable).parent / standalone.COMMAND[0]
_POLL_SECONDS: Final = 0.05
_KILLED: Final = 128 + signal.SIGKILL


class Launchers:
    """:meth:`run` is a program for :class:`virt_dra.simulator.agents.kubelet.Kubelet`. Processes end with the test,
    whatever ended it.

    ``options``: of the launcher, which come after the pod's own and so take their place."""

    def __init__(self, folder: Path, *options: str) -> None:
        folder.mkdir()
        self._options = options
        self._supervisor = Supervisor(folder)
        self._folder = folder
        self._pids: dict[str, int] = {}

    def close(self) -> None:
        self._supervisor.close()

    async def run(self, container: RunningContainer) -> int:
        """Until the launcher ends; cancelled, as when its pod is deleted, it ends the launcher as a kubelet does."""
        command = container.spec.command
        assert command[: len(standalone.COMMAND)] == standalone.COMMAND, f"the pod runs something else: {command}"
        message = container.path(container.spec.termination_message_path or standalone.TERMINATION_MESSAGE_PATH)
        message.parent.mkdir(parents=True, exist_ok=True)
        folders = {
            "--info-dir": container.path(standalone.INFO_DIRECTORY),
            "--run-dir": container.path(standalone.RUN_DIRECTORY),
            "--root": container.root,
            "--termination-message": message,
        }
        options = [text for option, path in folders.items() for text in (option, str(path))]
        argv = [str(PROGRAM), *command[len(standalone.COMMAND) :], *options, "--poll", "0.05", *self._options]
        uid = container.pod.metadata.uid
        pid = self._pids[uid] = self._supervisor.start(argv, self.log_of(uid), container.environment)
        try:
            while (code := self._supervisor.status(pid)) is None:
                await asyncio.sleep(_POLL_SECONDS)
        except asyncio.CancelledError:
            self._supervisor.signal(pid, signal.SIGTERM)
            raise
        return code if code >= 0 else _KILLED

    def shut_down(self, pod_uid: str) -> None:
        """The guest ends in peace."""
        self._supervisor.signal(self._pids[pod_uid], signal.SIGTERM)

    def kill(self, pod_uid: str) -> None:
        """As by the node's lack of memory."""
        self._supervisor.signal(self._pids[pod_uid], signal.SIGKILL)

    def log_of(self, pod_uid: str) -> Path:
        """Where its launcher's words go."""
        return self._folder / f"{pod_uid}.log"

    def said(self, pod_uid: str) -> str:
        path = self.log_of(pod_uid)
        return path.read_text(encoding="utf-8") if path.exists() else ""
