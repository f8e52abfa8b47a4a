"""JSON lines in, JSON lines out: one answer per line, in order, and no line that ends the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any

import click

from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import NEWEST, Gates, KubeVirtVersion
from virt_dra.api.wire import Json, WireError

Answer = Callable[[Json], Json]
"""Takes the request object of one line, gives the answer without its ``id``. Raises :class:`BadLine` or WireError."""


class BadLine(ValueError):
    """A request that can't be understood. The message says which member is wrong and what is expected."""


def answer_lines(lines: Iterable[bytes], out: IO[str], answer: Answer, refusal: Json) -> None:
    """Answer each non-empty line. A line that can't be understood gets ``refusal`` and ``error``, and the next one is read."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        out.write(json.dumps(_answer_line(number, line, answer, refusal), ensure_ascii=False) + "\n")
        out.flush()


def _answer_line(number: int, line: bytes, answer: Answer, refusal: Json) -> Json:
    identity: object = None
    try:
        request = json.loads(line)
        if not isinstance(request, dict):
            raise BadLine(f"a request must be a JSON object, not {type(request).__name__}")
        identity = request.get("id")
        return {"id": identity, **answer(request)}
    except RecursionError:
        reason = "the JSON is nested too deeply"
    except UnicodeDecodeError as error:
        reason = f"not UTF-8: {error}"
    except json.JSONDecodeError as error:
        reason = f"not JSON: {error}"
    except (BadLine, WireError) as error:
        reason = str(error)
    return {"id": identity, **refusal, "error": f"line {number}: {reason}"}


def member(request: Json, name: str, kind: type, default: Any = None) -> Any:
    """A member of the request with its JSON type checked; ``null`` counts as absent. Raises :class:`BadLine`."""
    value: object = request.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise BadLine(f"{name}: must be {_NAMES[kind]}")
    return value


_NAMES: Mapping[type, str] = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "an integer"}


def gates_of(request: Json) -> Gates:
    """The members ``kubevirt`` (a version; absent: the newest) and ``gates`` (name -> bool; absent: the version's default)."""
    text = member(request, "kubevirt", str)
    try:
        version = KubeVirtVersion.parse(text) if text else NEWEST
    except ValueError as error:
        raise BadLine(f"kubevirt: {error}") from None
    choices = member(request, "gates", dict, {})
    for gate, value in choices.items():
        if not isinstance(value, bool):
            raise BadLine(f"gates.{gate}: must be a boolean")
    return Gates.of(version, choices)


def vmi_of(request: Json, name: str = "vmi") -> VirtualMachineInstance | VirtualMachine | None:
    """The VMI (or VM, told by its kind) in a member of the request. Raises WireError with the member's name in the path."""
    raw = member(request, name, dict)
    if raw is None:
        return None
    kind: type[VirtualMachineInstance | VirtualMachine]
    kind = VirtualMachine if raw.get("kind") == VirtualMachine.KIND else VirtualMachineInstance
    try:
        return kind.from_wire(raw)
    except WireError as error:
        raise WireError(error.kind, tuple((f"{name}.{path}", message) for path, message in error.problems)) from None


def jsonl_command(name: str, answer: Answer, refusal: Json, help_text: str, epilog: str) -> click.Command:
    """A subcommand ``NAME --jsonl [FILE]`` around one answer function."""

    @click.command(name=name, help=help_text, epilog=epilog)
    @click.option("--jsonl", is_flag=True, required=True, help="Read one JSON request per line, write one JSON answer per line.")
    @click.argument("requests", type=click.File("rb"), default="-")
    def command(jsonl: bool, requests: IO[bytes]) -> None:
        answer_lines(requests, click.get_text_stream("stdout", encoding="utf-8"), answer, refusal)

    return command
