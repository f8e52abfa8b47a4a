"""The workloads of sweeps: a description, a dump, a trace. They are sent to other processes as they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper

from virt_dra.api.core_v1 import Node
from virt_dra.api.meta import TypedObject
from virt_dra.api.nearest import did_you_mean
from virt_dra.simulator.experiment.added_nodes import NodeFile
from virt_dra.simulator.experiment.building import build_experiment
from virt_dra.simulator.experiment.description import MOST_NODES, Description
from virt_dra.simulator.experiment.dump import cluster_of, replayed
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.model import Experiment
from virt_dra.simulator.experiment.trace import read_trace


@dataclass(frozen=True)
class DescribedWorkload:
    """The workload of a description. ``objects``: of the cluster's files; ``arrivals``: name and content of the CSV
    file; ``varied``: whose number a sweep varies, nodes of the description or copies of a node."""

    description: Description
    source: str
    objects: tuple[TypedObject, ...] = ()
    arrivals: tuple[str, bytes] | None = None
    varied: str | NodeFile | None = None

    def experiment(self, seed: int, size: int | None) -> Experiment:
        description = self.description
        added: Sequence[TypedObject] = ()
        if isinstance(self.varied, NodeFile):
            described = {f"{part.name}-{i}" for part in description.cluster.nodes for i in range(part.count)}
            added = self.varied.copies(size, described | node_names(self.objects))
        elif self.varied is not None and size is not None:
            description = _sized(description, self.varied, size, self.source)
        arrivals = None if self.arrivals is None else (self.arrivals[0], _lines(self.arrivals[1]))
        return build_experiment(description, self.source, self.objects, arrivals, seed=seed, added=added)


@dataclass(frozen=True)
class DumpedWorkload:
    """The pods of a dump, placed anew."""

    objects: tuple[TypedObject, ...]
    source: str
    varied: NodeFile | None = None

    def experiment(self, seed: int, size: int | None) -> Experiment:
        added = [] if self.varied is None else self.varied.copies(size, node_names(self.objects))
        return replayed(cluster_of((*self.objects, *added)), self.source)


@dataclass(frozen=True)
class TracedWorkload:
    """``nodes`` and ``tasks``: the content of the two CSV files."""

    nodes: bytes
    tasks: bytes
    nodes_name: str
    tasks_name: str
    inflate: float | None

    def experiment(self, seed: int, size: int | None) -> Experiment:
        return read_trace(
            _lines(self.nodes), _lines(self.tasks), self.nodes_name, self.tasks_name, inflate=self.inflate, seed=seed
        )


def _lines(content: bytes) -> Iterable[str]:
    return TextIOWrapper(BytesIO(content), encoding="utf-8-sig", newline="")


def node_names(objects: tuple[TypedObject, ...]) -> frozenset[str]:
    """The names of the Nodes among the objects."""
    return frozenset(obj.name for obj in objects if isinstance(obj, Node))


def _sized(description: Description, name: str, size: int, source: str) -> Description:
    """The description with another number of nodes in one part."""
    parts = description.cluster.nodes
    names = [part.name for part in parts]
    if name not in names:
        raise BadExperiment(
            f"{source}: cluster.nodes: there is no part {name}"
            + (did_you_mean(name, names) or f"; the parts are {', '.join(names) or 'none'}")
        )
    if sum(part.count for part in parts if part.name != name) + size > MOST_NODES:
        raise BadExperiment(f"{source}: with {size} {name} there are more than {MOST_NODES} nodes")
    sized = [part.model_copy(update={"count": size}) if part.name == name else part for part in parts]
    return description.model_copy(update={"cluster": description.cluster.model_copy(update={"nodes": sized})})
