"""Nodes that a cluster doesn't have yet, as copies of one that a file describes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Final

from virt_dra.api.core_v1 import Node
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.simulator.experiment.errors import BadExperiment

_HOSTNAME: Final = "kubernetes.io/hostname"


def describes_nodes(objects: Sequence[TypedObject]) -> bool:
    """Whether a file is of a node, rather than of VMs."""
    return any(isinstance(obj, Node) for obj in objects)


def copies_of_node(
    objects: Sequence[TypedObject], number: int, taken: Collection[str], source: str
) -> list[Node | ResourceSlice]:
    """``number`` copies of the one Node among ``objects``, with the ResourceSlices of its devices, under names that
    aren't ``taken``: ``name-1``, ``name-2``, … Raises BadExperiment for a file of anything else."""
    nodes = [obj for obj in objects if isinstance(obj, Node)]
    slices = [obj for obj in objects if isinstance(obj, ResourceSlice)]
    if len(nodes) != 1:
        raise BadExperiment(f"{source}: has {len(nodes)} Nodes; one is copied, with the ResourceSlices of its devices")
    node = nodes[0]
    others = [obj for obj in objects if not isinstance(obj, Node | ResourceSlice)]
    if others:
        raise BadExperiment(f"{source}: has a {others[0].kind} beside the Node; only ResourceSlices are copied with it")
    for slice_ in slices:
        if slice_.spec.node_name != node.name:
            raise BadExperiment(
                f"{source}: ResourceSlice {slice_.name}: spec.nodeName must be {node.name}, so that it is copied with "
                "the Node"
            )
    free = (f"{node.name}-{i}" for i in count(1) if f"{node.name}-{i}" not in taken)
    return [obj for name in islice(free, number) for obj in _copy(node, slices, name)]


def _copy(node: Node, slices: Sequence[ResourceSlice], name: str) -> list[Node | ResourceSlice]:
    labels = dict(node.metadata.labels)
    if _HOSTNAME in labels:
        labels[_HOSTNAME] = name
    copied: list[Node | ResourceSlice] = [
        node.with_(metadata=node.metadata.with_(name=name, labels=labels, uid=f"copy of {name}"))
    ]
    for slice_ in slices:
        pool = slice_.spec.pool
        pool_name = name if pool.name == node.name else f"{name}-{pool.name}"
        spec = slice_.spec.with_(node_name=name, pool=pool.with_(name=pool_name))
        metadata = slice_.metadata.with_(name=f"{name}-{slice_.name}", uid="")
        copied.append(slice_.with_(metadata=metadata, spec=spec))
    return copied


@dataclass(frozen=True)
class NodeFile:
    """A file of the node of which copies are added."""

    name: str
    objects: tuple[TypedObject, ...]

    def copies(self, size: int | None, taken: Collection[str]) -> list[Node | ResourceSlice]:
        """So many copies of the node; none for None. Raises BadExperiment."""
        return copies_of_node(self.objects, size, taken, self.name) if size else []
