"""An instance of the driver in a process of its own: PLUGIN_FOLDER REGISTRY POD_UID. It ends with SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import sys

from node_driver.wire.server import KubeletServer
from tests.node_driver.wire.claim_services import OneDeviceEach, SettableHealth, report

DRIVER = "passthrough.virt-dra.io"


async def serve(plugin_folder: str, registry: str, uid: str) -> None:
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    service = OneDeviceEach()
    service.failures["b"] = f"instance {uid or 'single'} refuses"
    async with KubeletServer(
        DRIVER, service, SettableHealth(report("a")), plugin_folder=plugin_folder, registry=registry, pod_uid=uid
    ):
        print("serving", flush=True)  # noqa: T201 - whoever started it waits for this line
        await ending.wait()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
