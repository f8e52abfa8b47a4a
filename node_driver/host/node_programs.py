"""Programs of the node's image, in processes of their own."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from node_driver.host import disk_sample, vf_settings
from node_driver.host.changes import HostBusy, HostError
from node_driver.host.child import StillRunning, run
from node_driver.host.file_locks import FileLocks

OUTPUT_MAX: Final = 500
"""Characters of the output's end that are of use in a message."""
OWN: Final = {
    "disk-sample": (sys.executable, "-I", "-S", str(Path(disk_sample.__file__))),
    "vf-settings": (sys.executable, "-I", str(Path(vf_settings.__file__))),
}
"""Programs of ours, by name."""


class NodePrograms:
    """:class:`node_driver.host.sanitizing.Programs`."""

    def __init__(self, locks: FileLocks) -> None:
        self._locks = locks

    async def run(self, target: str, *arguments: str, limit: float) -> tuple[int, str]:
        name, *rest = arguments
        command = OWN.get(name) or (shutil.which(name),)
        if command[0] is None:
            raise HostError(f"program {name} isn't in the driver's image")
        try:
            async with self._locks.descriptor(f"kernel {target}", limit=limit) as lock:
                result = await run([*command, *rest], limit=limit, lock=lock, environment={"LC_ALL": "C"})
        except StillRunning:
            raise HostBusy(f"{name} hasn't finished with {target} within {limit:.0f} s; it goes on") from None
        except OSError as error:
            raise HostError(f"program {name} can't be started: {error}") from error
        return result.exit_code, result.output.decode(errors="replace").strip()[-OUTPUT_MAX:]
