"""The objects of files; a file that can't be read ends the command."""

from __future__ import annotations

from collections.abc import Sequence

from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import Sourced
from virt_dra.cli.shared.output import refuse
from virt_dra.cluster.files import read_inputs


def sourced_of_files(paths: Sequence[str], output: str) -> tuple[Sourced[TypedObject], ...]:
    """The objects with the places where they are written."""
    loaded = read_inputs(paths)
    if loaded.problems:
        refuse([str(problem) for problem in loaded.problems], output)
    return loaded.objects


def objects_of_files(paths: Sequence[str], output: str) -> tuple[TypedObject, ...]:
    return tuple(sourced.object for sourced in sourced_of_files(paths, output))
