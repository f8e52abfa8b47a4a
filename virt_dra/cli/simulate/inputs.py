"""The inputs of ``virt-dra simulate``: descriptions, dumps and traces, read to workloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from virt_dra.api.reading.documents import DocumentError, read_documents
from virt_dra.cli.shared.file_input import accepted_of_files, content_of_file
from virt_dra.cli.shared.options import DEFAULT_NAMESPACE
from virt_dra.cli.shared.output import refuse, refusing
from virt_dra.cluster.files import STDIN
from virt_dra.simulator.experiment.added_nodes import NodeFile
from virt_dra.simulator.experiment.description import KIND, Description, read_description
from virt_dra.simulator.experiment.dump import cluster_of
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.sweep import SizeRange
from virt_dra.simulator.experiment.trace import FULL_LOAD
from virt_dra.simulator.experiment.workloads import DescribedWorkload, DumpedWorkload, TracedWorkload


def description_in(paths: Sequence[str], output: str) -> tuple[Description, str] | None:
    """The description, and the name of its file; None if the files are a dump of a cluster. Ends the command for what
    can't be read."""
    if len(paths) != 1 or (paths[0] != "-" and not Path(paths[0]).exists()) or Path(paths[0]).is_dir():
        return None
    path = paths[0]
    with refusing(output, DocumentError):
        text = content_of_file(path, output)
        if f"kind: {KIND}".encode() not in text and f'"{KIND}"'.encode() not in text:
            if path == "-":
                refuse([f"standard input: no object of kind {KIND}; give a dump of a cluster as a file"], output)
            return None
        source = "standard input" if path == "-" else path
        documents = list(read_documents(text, source))
    kinds = [document.raw.get("kind") if isinstance(document.raw, dict) else None for document in documents]
    if KIND not in kinds:
        return None
    if len(documents) != 1:
        is_one = "a description is one, and names other files under cluster.files"
        refuse([f"{source}: has {len(documents)} documents; {is_one}"], output)
    with refused(output):
        return read_description(documents[0].raw, source), source


def described_workload(
    description: Description, source: str, sizes: SizeRange | None, output: str
) -> DescribedWorkload:
    """Files that the description names are found beside it."""
    base = Path(source).parent if source != "standard input" else Path()
    files = [_beside(base, file) for file in description.cluster.files]
    objects = accepted_of_files(files, output, DEFAULT_NAMESPACE, by_file=True) if files else ()
    arrivals = None
    if description.arrivals is not None:
        path = _beside(base, description.arrivals)
        arrivals = path, content_of_file(path, output, by_file=True)
    varied: str | NodeFile | None = None
    if sizes is not None:
        is_part = sizes.part in {part.name for part in description.cluster.nodes}
        varied = sizes.part if is_part or not _is_file(sizes.part) else _node_file(sizes.part, output)
    return DescribedWorkload(description, source, objects, arrivals, varied)


def _beside(folder: Path, file: str) -> str:
    """A path that is neither standard input nor an address, whatever the name."""
    path = str(folder / file)
    return f"./{path}" if path == STDIN else path


def traced_workload(nodes: str, pods: str, inflate: float | None, output: str) -> TracedWorkload:
    return TracedWorkload(content_of_file(nodes, output), content_of_file(pods, output), nodes, pods, inflate)


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


def _is_file(name: str) -> bool:
    return name.endswith((".yaml", ".yml", ".json"))


def _node_file(path: str, output: str) -> NodeFile:
    return NodeFile(path, accepted_of_files([path], output, DEFAULT_NAMESPACE))


def dumped_workload(paths: Sequence[str], sizes: SizeRange | None, output: str) -> DumpedWorkload:
    """The pods of a dump, to be placed anew in the order of their creation. Claims that no such pod has keep their
    devices."""
    objects = accepted_of_files(paths, output, DEFAULT_NAMESPACE)
    if not cluster_of(objects).model.nodes:
        dump = "a dump is what kubectl get nodes,pods,… -A -o yaml writes"
        refuse([f"{', '.join(paths)}: no Node; {dump}, a description has kind: {KIND}"], output)
    varied = None if sizes is None else _node_file(sizes.part, output)
    return DumpedWorkload(objects, ", ".join(paths), varied)
