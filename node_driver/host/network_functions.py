"""Settings of a network VF, made through its physical function (D-62)."""

from __future__ import annotations

import json
from typing import Any, Final

from node_driver.host.binding import PCI, function_folder
from node_driver.host.changes import HostError
from node_driver.host.kernel_files import LIMIT, AttributeRead, KernelFiles
from node_driver.host.sanitizing import Programs

PROGRAM: Final = "vf-settings"
INFINIBAND: Final = "32"
"""ARPHRD_INFINIBAND."""


class NetworkFunctions:
    """The property ``network-function`` of VFs: their settings as JSON with sorted keys. Setting some leaves the others
    as they are."""

    def __init__(self, files: KernelFiles, programs: Programs) -> None:
        self._files = files
        self._programs = programs

    async def value(self, address: str) -> str:
        return await self._run(address)

    async def set_value(self, address: str, value: str) -> None:
        wanted = {name: setting for name, setting in json.loads(value).items() if setting is not None}
        now: dict[str, Any] = json.loads(await self._run(address, json.dumps(wanted, sort_keys=True)))
        wrong = [(name, setting) for name, setting in wanted.items() if now.get(name) != setting]
        if wrong:
            shown = "; ".join(f"{name} is {now.get(name)}, not {setting}" for name, setting in wrong)
            raise HostError(f"network function {address} didn't take its settings: {shown}")

    async def _run(self, address: str, *settings: str) -> str:
        interface, vf = await self._place(address)
        exit_code, output = await self._programs.run(address, PROGRAM, interface, vf, *settings, limit=LIMIT)
        if exit_code:
            raise HostError(f"network function {address} can't be set through {interface}: {output or exit_code}")
        return output

    async def _place(self, address: str) -> tuple[str, str]:
        """The interface of the physical function, and the VF's index. Raises :class:`HostError` where there are no such
        settings."""
        folder = function_folder(self._files, address)
        physical = self._files.link(f"{folder}/physfn")
        if not physical:
            raise HostError(f"{address} is no VF: the parameters' field network applies to VFs of network cards only")
        parent = f"{PCI}/devices/{physical}"
        interfaces = self._files.names(f"{parent}/net")
        if not interfaces or await self._is_infiniband(physical, f"{parent}/net/{interfaces[0]}/type"):
            raise HostError(
                f"{address} belongs to {physical}, which is no Ethernet card: the parameters' field network applies to "
                "Ethernet functions only"
            )
        if await self._is_switchdev(physical, f"{parent}/net/{interfaces[0]}/phys_switch_id"):
            raise HostError(
                f"{address} belongs to {physical}, which is in switchdev mode: the parameters' field network applies "
                "to legacy mode only; set up its representor instead"
            )
        index = next(
            name.removeprefix("virtfn")
            for name in self._files.names(parent)
            if name.startswith("virtfn") and self._files.link(f"{parent}/{name}") == address
        )
        return interfaces[0], index

    async def _is_infiniband(self, physical: str, path: str) -> bool:
        if not self._files.exists(path):
            return False
        (kind,) = await self._files.operate(physical, AttributeRead(path))
        return kind == INFINIBAND

    async def _is_switchdev(self, physical: str, path: str) -> bool:
        """Cards in legacy mode answer that they don't support the attribute."""
        if not self._files.exists(path):
            return False
        try:
            return bool((await self._files.operate(physical, AttributeRead(path)))[0])
        except OSError:
            return False
