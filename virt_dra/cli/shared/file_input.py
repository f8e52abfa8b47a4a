"""The objects of files; a file that can't be read ends the command."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.design_form import as_kubevirt_stores
from virt_dra.api.reading.documents import Document, ReadProblem, Sourced, read_document
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.output import refuse
from virt_dra.cluster.files import read_file, read_inputs


def sourced_of_files(
    paths: Sequence[str], output: str, *, own_crds: bool = False, by_file: bool = False
) -> tuple[Sourced[TypedObject], ...]:
    """The objects with the places where they are written. ``own_crds``: VMs are of virt-dra's own CRDs, which have the
    design's form of a claim reference, too; else it is dropped as by KubeVirt's (K-1.9). ``by_file``: another file
    names the paths, and not the user."""
    loaded = (
        read_inputs(paths, by_file=by_file)
        if own_crds
        else read_inputs(paths, stored=as_kubevirt_stores, by_file=by_file)
    )
    if loaded.problems:
        refuse([str(problem) for problem in loaded.problems], output)
    return loaded.objects


def sourced_of_documents(documents: Iterable[Document], output: str) -> tuple[Sourced[TypedObject], ...]:
    """The objects of documents that were read already. Ends the command as for files."""
    read = [read_document(as_kubevirt_stores(document)) for document in documents]
    problems = [str(problem) for obj in read if not isinstance(obj, Sourced) for problem in obj]
    if problems:
        refuse(problems, output)
    return tuple(obj for obj in read if isinstance(obj, Sourced))


def content_of_file(path: str, output: str, *, by_file: bool = False) -> bytes:
    """Of a file of another kind, or standard input for ``-``. ``by_file``: as for :func:`sourced_of_files`."""
    content = read_file(path, by_file=by_file)
    if isinstance(content, ReadProblem):
        refuse([str(content)], output)
    return content


def objects_of_files(paths: Sequence[str], output: str) -> tuple[TypedObject, ...]:
    return tuple(sourced.object for sourced in sourced_of_files(paths, output))


def accepted_of_files(
    paths: Sequence[str], output: str, namespace: str, *, own_crds: bool = False, by_file: bool = False
) -> tuple[TypedObject, ...]:
    """The objects as a cluster has them: without those that its API server would refuse. ``own_crds``, ``by_file``: as
    for :func:`sourced_of_files`."""
    return accepted_objects(sourced_of_files(paths, output, own_crds=own_crds, by_file=by_file), namespace)


def accepted_objects(objects: Iterable[Sourced[TypedObject]], namespace: str) -> tuple[TypedObject, ...]:
    """The objects that an API server would accept; the others are said on standard error."""
    from virt_dra.cluster.accepting import judge_as_written
    from virt_dra.cluster.memory.rules import KindRules  # here, since not every command that reads files needs them

    accepted, refused = judge_as_written(objects, namespace, KindRules())
    for refusal in refused:
        say(str(refusal), err=True)
    return accepted
