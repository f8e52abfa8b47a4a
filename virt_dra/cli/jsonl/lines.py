"""JSON lines in, JSON lines out: one answer per line, in order. No line ends the run."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final, NoReturn

import click

from virt_dra.api.counting import counted
from virt_dra.api.go_text import quoted
from virt_dra.api.nearest import listed, nearest
from virt_dra.api.reading.json_members import ConvertItem, decode_object
from virt_dra.api.wire import Json, WireError
from virt_dra.cli.documents.heads import output_document
from virt_dra.cli.jsonl.members import BadLine, found_type
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.output import json_text, refuse

AnswerMembers = Mapping[str, Any]
"""An answer without its ``id``."""
AnswerFunction = Callable[[Json], AnswerMembers]
"""Takes the request object of one line, returns the answer without its ``id``. Raises :class:`BadLine` or WireError."""


def answer_lines(
    lines: Iterable[bytes],
    out: IO[str],
    kind: str,
    answer: AnswerFunction,
    refusal: AnswerMembers,
    members: Collection[str] = (),
) -> None:
    """Answer each non-empty line. A line that can't be understood gets ``refusal`` and ``error``, and the next one is
    read.

    ``kind``: of the answers. ``members``: the known members of a request besides ``id``; the answer's ``warnings``
    name unknown ones. () for any.

    Each answer is written and flushed before the next line is read, so that a program at the other end can wait for it.
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            out.write(_answer_line(number, line, kind, answer, refusal, members) + "\n")
            out.flush()


def _answer_line(
    number: int, line: bytes, kind: str, answer: AnswerFunction, refusal: AnswerMembers, members: Collection[str]
) -> str:
    identity: object = None
    unknown: list[str] = []
    try:
        request = parse_request(line)
        identity = request.get("id")
        if members:
            unknown = unknown_members(request, members)
        given = answer(request)
    except RecursionError:
        identity = identity if isinstance(identity, str | int | float) else None
        given = {**refusal, "error": f"line {number}: the JSON is nested too deeply"}
    except (BadLine, WireError) as error:
        given = {**refusal, "error": f"line {number}: {error}"}
    if unknown:
        given = {**given, "warnings": [*given.get("warnings", ()), *unknown]}
    return json_text(output_document(kind, {"id": identity, **given}))


MAX_NAMED: Final = 20
"""Unknown members of one request that are named."""
MAX_SHOWN: Final = 100
"""Characters of a member's name that are shown."""


def unknown_members(request: Json, members: Collection[str]) -> list[str]:
    """A warning for each unknown member of a request, with the name that was probably meant."""
    unknown = [name for name in request if name not in members and name != "id"]
    warnings = [
        f"{_short(name)}: unknown member of the request; {_suggestion(name, members)}" for name in unknown[:MAX_NAMED]
    ]
    if len(unknown) > MAX_NAMED:
        warnings.append(f"{counted(len(unknown) - MAX_NAMED, 'more unknown member')} of the request")
    return warnings


def _suggestion(name: str, members: Collection[str]) -> str:
    meant = nearest(name, members)
    return f"it has {listed(members)}" if meant is None else f"did you mean {quoted(meant)}?"


def _short(name: str) -> str:
    return name if len(name) <= MAX_SHOWN else f"{name[: MAX_SHOWN - 3]}..."


def parse_request(line: bytes, convert: Mapping[str, ConvertItem] = MappingProxyType({})) -> Json:
    """One line of UTF-8 (a byte order mark is fine) -> its JSON object. Raises :class:`BadLine`; RecursionError if too
    deep.

    ``convert``: the items of lists of that name are what it returns for them, and are never all in memory as JSON.
    """
    try:
        text = line.decode("utf-8-sig")
        del line  # the caller may have kept no other reference, and it may be large
        request = decode_object(text, _DECODER, convert)
    except UnicodeDecodeError as error:
        raise BadLine(f"not UTF-8: {error}") from None
    except json.JSONDecodeError as error:
        raise BadLine(f"not JSON: {error}") from None
    except (BadLine, WireError):
        raise
    except ValueError:  # Python limits the digits of an integer
        raise BadLine(f"not JSON: a number has more than {sys.get_int_max_str_digits()} digits") from None
    if not isinstance(request, dict):
        raise BadLine(f"a request must be a JSON object, not {found_type(request)}")
    return request


def _no_constant(name: str) -> NoReturn:
    raise BadLine(f"not JSON: {name} is no JSON value")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise BadLine(f"not JSON: the number {text} is too large")
    return value


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def answer_stream(
    requests: IO[bytes], kind: str, answer: AnswerFunction, refusal: AnswerMembers, members: Collection[str]
) -> None:
    """Answer a stream of requests on standard output. Ends the process if the requests can't be read. Raises OSError of
    the output."""
    out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n")
    answer_lines(readable(requests), out, kind, answer, refusal, members)
    out.detach()  # so that standard output stays open


def opened_requests(path: str) -> IO[bytes]:
    """A file, or standard input for ``-``. Ends the command if it can't be opened."""
    try:
        return sys.stdin.buffer if path == "-" else Path(path).open("rb")
    except (OSError, ValueError) as error:
        refuse([f"{path}: {(error.strerror if isinstance(error, OSError) else None) or error}"], "text")


def readable(requests: IO[bytes], noun: str = "requests") -> Iterator[bytes]:
    """The lines. Ends the command if they can't be read."""
    try:
        yield from requests
    except OSError as error:
        refuse([f"cannot read the {noun}: {error.strerror}"], "text")


_EXIT_CODES: Final = (
    "\n\b\nExit codes: 0 every line has its answer (which may be an error "
    "of that line), 2 bad usage or unreadable input.\n"
)


def jsonl_command(
    name: str,
    kind: str,
    answer: AnswerFunction,
    refusal: AnswerMembers,
    help_text: str,
    epilog: str,
    members: Collection[str] = (),
) -> click.Command:
    """A subcommand ``NAME --jsonl [FILE]`` around one answer function, whose requests have these members, and whose
    answers are of the kind."""

    @click.command(name=name, help=help_text, epilog=f"{epilog}{_EXIT_CODES}")
    @shared("--jsonl", required=True)
    @click.argument("requests", type=click.File("rb"), default="-")
    def run(jsonl: bool, requests: IO[bytes]) -> None:
        answer_stream(requests, kind, answer, refusal, members)

    return run
