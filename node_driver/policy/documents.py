"""Policies as text: a manifest of a cluster, or a file on a node without one."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.api.nearest import did_you_mean
from virt_dra.api.policies.node_policy_v1alpha1 import VirtDraNodePolicy
from virt_dra.api.reading.documents import DocumentError, read_documents
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
    problems = tuple(f"{document.source}: {problem}" for document in documents for problem in _problems(document.raw))
    if not documents:
        problems = (f"{name}: it has no VirtDraNodePolicy",)
    if problems:
        raise InvalidPolicies(problems)
    return tuple(VirtDraNodePolicy.from_wire(document.raw) for document in documents)


def _problems(raw: object) -> Iterator[str]:
    if not isinstance(raw, dict):
        yield "it isn't an object"
        return
    kind, metadata = str(raw.get("kind")), raw.get("metadata")
    if kind != VirtDraNodePolicy.KIND:
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        hint = did_you_mean(kind, [VirtDraNodePolicy.KIND])
        yield f"{f'{kind} {name}'.strip()} is no {VirtDraNodePolicy.KIND}{hint}"
        return
    if raw.get("apiVersion") != VirtDraNodePolicy.API_VERSION:
        yield f"apiVersion: must be {VirtDraNodePolicy.API_VERSION}"
        return
    yield from (f"{field.path}: {field.message}" for field in unknown_fields(raw))
    try:
        policy = VirtDraNodePolicy.from_wire(raw)
    except WireError as error:
        yield from (f"{path}: {message}" for path, message in error.problems)
        return
    yield from map(str, validate_create(policy))
