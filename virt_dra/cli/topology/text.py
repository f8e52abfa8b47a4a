"""The topology as a tree for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from rich.tree import Tree

from virt_dra.api.go_text import visible
from virt_dra.cli.topology.looks import look_of, words_of
from virt_dra.inventory.topology import NodeFold, PlacedDevice

SHOWN = 50
"""Folds that are shown as text; -o json has all."""


def fold_trees(folds: Sequence[NodeFold]) -> list[Tree]:
    """One tree per fold; of the first SHOWN."""
    return [_tree(fold) for fold in folds[:SHOWN]]


def _tree(fold: NodeFold) -> Tree:
    tree = Tree(Text(visible(fold.title), style="bold"))
    numas = {"": tree}
    for group in fold.example.groups:
        if group.numa not in numas:
            numas[group.numa] = tree.add(Text(f"NUMA node {visible(group.numa)}"))
        branch = numas[group.numa]
        if group.root:
            branch = branch.add(Text(f"PCIe root {visible(group.root)}"))
        for device in group.devices:
            branch.add(_line(device))
    return tree


def _line(device: PlacedDevice) -> Text:
    look = look_of(device)
    address = f"  {device.row.address}" if device.row.address else ""
    line = Text(f"{look.sign} ", style=look.style)
    line.append(visible(f"{device.row.id.device}  {device.label}{address}  "), style="default")
    line.append(visible(words_of(device)), style=look.style)
    return line
