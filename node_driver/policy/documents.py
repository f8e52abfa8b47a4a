"""Policies as text: a manifest of a cluster, or a file on a node without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from virt_dra.api.nearest import did_you_mean
from virt_dra.api.policies.node_policy_v1alpha1 import VirtDraNodePolicy
from virt_dra.api.reading.documents import DocumentError, DocumentSource, read_documents
from virt_dra.api.reading.positions import SourceText
from virt_dra.api.schemas.unknown_fields import unknown_fields
from virt_dra.api.validation import validate_create
from virt_dra.api.wire import WireError


class InvalidPolicies(ValueError):
    """Policies that can't be used. ``problems``: all that is wrong, each with its place and field."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def read_policies(text: bytes, name: str) -> tuple[VirtDraNodePolicy, ...]:
    """The policies of a YAML or JSON text. ``name`` says where it comes from. Raises :class:`InvalidPolicies`."""
    try:
        documents = read_documents(text, name)
    except DocumentError as error:
        raise InvalidPolicies((str(error),)) from None
    written = SourceText(text)
    problems = tuple(
        f"{_place(written, document.source, problem)}: {problem}"
        for document in documents
        for problem in _problems(document.raw)
    )
    if not documents:
        problems = (f"{name}: it has no VirtDraNodePolicy",)
    if problems:
        raise InvalidPolicies(problems)
    return tuple(VirtDraNodePolicy.from_wire(document.raw) for document in documents)


@dataclass(frozen=True)
class _Problem:
    """``field``: "" for the object; ``of_name``: that the field's name is wrong, not its value."""

    field: str
    message: str
    of_name: bool = False

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def _place(text: SourceText, source: DocumentSource, problem: _Problem) -> str:
    """The file and the line of the field, as far as it is there; of the document where that isn't known."""
    at = text.position(source, problem.field, of_name=problem.of_name) if problem.field else None
    return f"{source.name}:{at.line}" if at is not None else str(source)


def _problems(raw: object) -> Iterator[_Problem]:
    if not isinstance(raw, dict):
        yield _Problem("", "it isn't an object")
        return
    kind, metadata = str(raw.get("kind")), raw.get("metadata")
    if kind != VirtDraNodePolicy.KIND:
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        hint = did_you_mean(kind, [VirtDraNodePolicy.KIND])
        yield _Problem("", f"{f'{kind} {name}'.strip()} is no {VirtDraNodePolicy.KIND}{hint}")
        return
    if raw.get("apiVersion") != VirtDraNodePolicy.API_VERSION:
        yield _Problem("apiVersion", f"must be {VirtDraNodePolicy.API_VERSION}")
        return
    yield from (_Problem(field.path, field.message, of_name=True) for field in unknown_fields(raw))
    try:
        policy = VirtDraNodePolicy.from_wire(raw)
    except WireError as error:
        yield from (_Problem(path, message) for path, message in error.problems)
        return
    yield from (_Problem(error.field, error.message) for error in validate_create(policy))
