"""The inputs of ``virt-dra simulate``: descriptions, dumps and traces, read to experiments."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn

from virt_dra.api.reading.documents import DocumentError, read_documents
from virt_dra.cli.shared.file_input import objects_of_files
from virt_dra.cli.shared.output import refuse
from virt_dra.simulator.experiment.building import build_experiment
from virt_dra.simulator.experiment.description import KIND, Description, read_description
from virt_dra.simulator.experiment.dump import DumpedCluster, cluster_of, replayed
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.model import Experiment
from virt_dra.simulator.experiment.trace import FULL_LOAD, read_trace


def description_in(paths: Sequence[str], output: str) -> tuple[Description, str] | None:
    """The description, and the name of its file; None if the files are a dump of a cluster. Ends the command for what
    can't be read."""
    if len(paths) != 1 or Path(paths[0]).is_dir():
        return None
    path = paths[0]
    try:
        text = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        if f"kind: {KIND}".encode() not in text and f'"{KIND}"'.encode() not in text:
            return None if path != "-" else _not_from_stdin(output)
        source = "standard input" if path == "-" else path
        documents = list(read_documents(text, source))
    except (OSError, ValueError) as error:
        refuse([f"{path}: {error.strerror if isinstance(error, OSError) else error}"], output)
    except DocumentError as error:
        refuse([str(error)], output)
    kinds = [document.raw.get("kind") if isinstance(document.raw, dict) else None for document in documents]
    if KIND not in kinds:
        return None
    if len(documents) != 1:
        refuse(
            [
                f"{source}: has {len(documents)} documents; a description is one, "
                "and names other files under cluster.files"
            ],
            output,
        )
    with refused(output):
        return read_description(documents[0].raw, source), source


def _not_from_stdin(output: str) -> NoReturn:
    refuse([f"standard input: no object of kind {KIND}; give a dump of a cluster as a file"], output)


def experiment_of(description: Description, source: str, seed: int | None, output: str) -> Experiment:
    """Files that the description names are found beside it."""
    base = Path(source).parent if source != "standard input" else Path()
    objects = objects_of_files([str(base / file) for file in description.cluster.files], output)
    with refused(output):
        if description.arrivals is None:
            return build_experiment(description, source, objects, seed=seed)
        path = base / description.arrivals
        with _opened(str(path), output) as lines:
            return build_experiment(description, source, objects, (str(path), lines), seed=seed)


def dumped_cluster(paths: Sequence[str], output: str) -> DumpedCluster:
    """The cluster of a dump, with at least one node."""
    cluster = cluster_of(objects_of_files(paths, output))
    if not cluster.model.nodes:
        refuse(
            [
                f"{', '.join(paths)}: no Node; a dump is what kubectl get nodes,pods,… "
                f"-A -o yaml writes, a description has kind: {KIND}"
            ],
            output,
        )
    return cluster


def trace_of(nodes: str, pods: str, inflate: float | None, seed: int, output: str) -> Experiment:
    """The experiment of a trace. Ends the command for a trace that can't be read."""
    with refused(output), _opened(nodes, output) as node_lines, _opened(pods, output) as pod_lines:
        return read_trace(node_lines, pod_lines, nodes, pods, inflate=inflate, seed=seed)


def parse_inflation(text: str) -> float:
    """``until-full``, or a multiple of the cluster's GPUs. Raises ValueError."""
    if text == "until-full":
        return FULL_LOAD
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value <= 10:
        raise ValueError(
            f"{text!r} is neither until-full nor a load of more than 0 and at most 10, such as 1.3 or 130%"
        )
    return value


@contextmanager
def refused(output: str) -> Iterator[None]:
    """Ends the command for a bad experiment."""
    try:
        yield
    except BadExperiment as error:
        refuse(list(error.problems), output)


@contextmanager
def _opened(path: str, output: str) -> Iterator[Iterable[str]]:
    try:
        file: IO[str] = Path(path).open(encoding="utf-8-sig", newline="")  # noqa: SIM115 - closed by the with below
    except (OSError, ValueError) as error:
        refuse([f"{path}: {error.strerror if isinstance(error, OSError) else error}"], output)
    with file:
        yield file


def dumped_experiment(paths: Sequence[str], output: str) -> Experiment:
    """The pods of a dump, to be placed anew in the order of their creation. Claims that no such pod has keep their
    devices."""
    cluster = dumped_cluster(paths, output)
    with refused(output):
        return replayed(cluster, ", ".join(paths))
