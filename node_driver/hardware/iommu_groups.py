"""Which IOMMU group a device's link names (D-43)."""

from __future__ import annotations

import re
from typing import Final

from node_driver.hardware.file_tree import FileTree, UnreadableFile, has_text

GROUPS: Final = "kernel/iommu_groups"
_NUMBER: Final = re.compile(r"\d{1,9}")


def iommu_group(tree: FileTree, folder: str) -> int | None:
    """The group of the device whose folder it is; None for a device without one.

    Raises :class:`UnreadableFile` for a link that names none, or one that the kernel doesn't have: nothing can be
    opened there. A copied tree may lack the list of groups, and then the link is all there is."""
    path = f"{folder}/iommu_group"
    name = tree.link(path)
    if not name:
        return None
    if not _NUMBER.fullmatch(name):
        raise has_text(path, name, "the number of a group")
    if tree.resolved(GROUPS) is not None and tree.resolved(f"{GROUPS}/{name}") is None:
        raise UnreadableFile(path, f"leads to the group {name}, which isn't in {GROUPS}")
    return int(name)
