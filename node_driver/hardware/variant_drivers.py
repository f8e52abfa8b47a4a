"""Which VFIO driver the kernel has for a function: its own table ``modules.alias`` says (D-64).

A line ``alias vfio_pci:v000015B3d0000101Esv*sd*bc*sc*i* mlx5_vfio_pci`` names a module for functions whose modalias
matches the pattern.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from node_driver.hardware.file_tree import FileTree
from node_driver.hardware.inventory import DEFAULT_VFIO_DRIVER, VfioAlias

TABLE_MAX: Final = 64 * 1024 * 1024
"""Bytes of modules.alias; distributions have 1 to 3 MiB."""
ALIASES_MAX: Final = 10_000
_LINE: Final = re.compile(r"^alias (vfio_pci:[A-Za-z0-9*?]{1,200}) ([A-Za-z0-9_-]{1,63})$", re.MULTILINE)
_DASHED: Final = {"vfio_pci": DEFAULT_VFIO_DRIVER, "xe_vfio_pci": "xe-vfio-pci", "pds_vfio_pci": "pds-vfio-pci"}
"""Drivers that aren't called as their module, for modules that aren't loaded."""


def read_aliases(sysfs: FileTree, table: str) -> tuple[VfioAlias, ...]:
    """The VFIO drivers of a ``modules.alias``, the most specific pattern first. A loaded module shows the name of its
    driver."""
    lines = islice(_LINE.finditer(table), ALIASES_MAX)
    aliases = [VfioAlias(line[1], _driver(sysfs, line[2])) for line in lines]
    return tuple(sorted(aliases, key=lambda alias: (alias.pattern.count("*"), -len(alias.pattern), alias)))


def _driver(sysfs: FileTree, module: str) -> str:
    module = module.replace("-", "_")
    loaded = [name.removeprefix("pci:") for name in sysfs.names(f"module/{module}/drivers") if name.startswith("pci:")]
    return loaded[0] if len(loaded) == 1 else _DASHED.get(module, module)
