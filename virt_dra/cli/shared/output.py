"""Output besides the reports of the commands: documents, and errors that end a command."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

from virt_dra.cli.documents.heads import ErrorJson, ProblemJson, output_document
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.workflow_log import in_workflow, neutral

OutputValue = Mapping[str, Any] | Sequence[Mapping[str, Any]]

BAD_INPUT = 2
"""The exit code for bad usage or input."""


def json_text(document: OutputValue, indent: int | None = None) -> str:
    """JSON for programs and people: letters of all scripts as they are; all as JSON's escapes where something is
    unprintable."""
    text = json.dumps(document, ensure_ascii=False) if indent is None else _indented(document, indent)
    return text if text.replace("\n", "").isprintable() else json.dumps(document, indent=indent)


def _indented(document: OutputValue, indent: int) -> str:
    """As ``json.dumps`` writes it, which before Python 3.14 takes a second for the devices of 5,000 nodes."""
    from pydantic_core import PydanticSerializationError, to_json  # not by every command

    try:
        return to_json(document, indent=indent).decode()
    except PydanticSerializationError:  # half a surrogate pair, or nested more deeply than pydantic goes
        return json.dumps(document, indent=indent, ensure_ascii=False)


def document_text(document: OutputValue, output: str) -> str:
    """``output``: json or yaml; in a GitHub workflow YAML is JSON's if a text in it needs escapes."""
    if output == "yaml":
        # Only here: YAML takes 5 MiB, which commands that run for long do without.
        from virt_dra.api.reading.yaml_writing import write_yaml

        written = write_yaml(document)
        if not (in_workflow() and neutral(encoded := written.encode()) != encoded):
            return written
    return json_text(document, indent=2) + "\n"


def print_document(document: OutputValue, output: str) -> None:
    click.echo(document_text(document, output), nl=False)


def print_output(kind: str, members: Mapping[str, Any], output: str) -> None:
    """Prints the members as a document of a kind."""
    print_document(output_document(kind, members), output)


def write_output(path: Path, content: bytes, output: str) -> None:
    """Writes a file that an option names. Ends the command if it can't be written."""
    try:
        path.write_bytes(content)
    except OSError as error:
        refuse([f"{path}: {error.strerror or error}"], output)


def refuse(sentences: Sequence[str], output: str, problems: Iterable[ProblemJson | str] | None = None) -> NoReturn:
    """End the command with an error: a document for ``-o json`` and ``yaml``, else lines on standard error.

    ``problems``: listed in the document in place of the sentences.
    """
    if output in ("json", "yaml"):
        listed = list(sentences if problems is None else problems)
        members: ErrorJson = {"error": "; ".join(sentences), "problems": listed}
        print_output("Error", members, output)
    else:
        for sentence in sentences:
            say(f"error: {sentence}", err=True)
    sys.exit(BAD_INPUT)


@contextmanager
def refusing(output: str, *errors: type[Exception]) -> Iterator[None]:
    """A context in which these errors end the command, as :func:`refuse` does with their texts."""
    try:
        yield
    except errors as error:
        refuse([str(error)], output)
