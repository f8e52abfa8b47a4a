"""Mediated devices: made with a UUID of ours and removed again (D-49). Those of others are never touched (D-65)."""

from __future__ import annotations

from typing import Final

from node_driver.host.binding import kernel_answer
from node_driver.host.changes import HostError, TargetGone
from node_driver.host.kernel_files import AttributeWrite, KernelFiles

MDEVS: Final = "/sys/bus/mdev/devices"
PARENTS: Final = "/sys/class/mdev_bus"


class MediatedDevices:
    """The property ``mdev`` of UUIDs: ``parent/type``."""

    def __init__(self, files: KernelFiles) -> None:
        self._files = files

    async def value(self, uuid: str) -> str:
        await self._files.operate(uuid)  # waits for what an earlier call began: it may yet make or remove the device
        if not self._files.exists(f"{MDEVS}/{uuid}"):
            return ""
        parents = (name for name in self._files.names(PARENTS) if self._files.exists(f"{PARENTS}/{name}/{uuid}"))
        return f"{next(parents, '')}/{self._files.link(f'{MDEVS}/{uuid}/mdev_type')}"

    async def set_value(self, uuid: str, value: str) -> None:
        now = await self.value(uuid)
        if now == value:
            return
        if now and value:
            raise HostError(f"mediated device {uuid} exists already, as {now}; remove it on the node first")
        if not value:
            await self._write(uuid, AttributeWrite(f"{MDEVS}/{uuid}/remove", "1"), f"{uuid} can't be removed")
        else:
            parent, _, type_id = value.partition("/")
            types = f"{PARENTS}/{parent}/mdev_supported_types"
            if not self._files.exists(f"{types}/{type_id}"):
                offered = ", ".join(self._files.names(types)) or "none"
                raise HostError(f"{parent} doesn't offer mediated devices of type {type_id} (now: {offered})")
            await self._write(
                uuid,
                AttributeWrite(f"{types}/{type_id}/create", uuid),
                f"{parent} can't make another {type_id}; other devices of the card may have used it up",
            )
        if (now := await self.value(uuid)) != value:
            raise HostError(f"mediated device {uuid} was to be {value or 'removed'}, but is {now or 'gone'}")

    async def _write(self, uuid: str, operation: AttributeWrite, failure: str) -> None:
        try:
            await self._files.operate(uuid, operation)
        except FileNotFoundError:
            raise TargetGone(f"mediated device {uuid} or its parent is gone") from None
        except OSError as error:
            raise HostError(f"{failure}: {kernel_answer(error)}") from error
