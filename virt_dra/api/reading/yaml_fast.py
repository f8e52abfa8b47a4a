"""YAML text -> JSON values, fast: unambiguous documents go through a fast parser, others through ``yaml_text``.

Large inputs (a cluster's ResourceSlices) are written by programs and use a small part of YAML. A document of which
*every line* is of the forms below means the same to YAML 1.1 and 1.2, to go-yaml and to yaml-rs. Nothing else is handed
to yaml-rs, and whatever it refuses is read again exactly, which then words the error. Why two readers:
docs/decisions/0003-yaml.md.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

import yaml_rs

from virt_dra.api.reading import yaml_text
from virt_dra.api.reading.document_error import DocumentError, Parsed

MIN_LENGTH = 64 * 1024
"""The shortest text for the fast parser; for shorter ones there is nothing to gain."""
_MIN_CHUNK = 64
"""The shortest document for the fast parser; shorter neighbours are read exactly together: starting costs more."""
_ANCHORED_LINE = 256
"""The longest line beside anchors for the fast parser: it limits the number of aliased nodes, but not their length."""

# Words that are booleans or null to some reader. "true", "false" and "null" as values are the same to all.
_RESERVED = (
    r"(?!(?:[yYnN]|[yY]es|YES|[nN]o|NO|[oO]n|ON|[oO]ff|OFF|[tT]rue|TRUE|[fF]alse|FALSE|[nN]ull|NULL)(?:[ :,}\]]|$))"
)
_SINGLE = r"'(?:[^'\n]|'')*+'"
_DOUBLE = r'"(?:[^"\\\n]|\\["\\nt])*+"'
_KEY = rf"(?:{_RESERVED}[A-Za-z_][A-Za-z0-9_./-]{{0,250}}+|'[^'\n]{{0,250}}'|\"[^\"\\\n]{{0,250}}\")"
_WORD = r"[A-Za-z0-9_./@%+=~()-]++(?::[A-Za-z0-9_./@%+=~()-]++)*+"
_TEXT = rf"{_RESERVED}[A-Za-z_/](?:[A-Za-z0-9_./@%+=~()-]++)?(?::[A-Za-z0-9_./@%+=~()-]++)*+(?: {_WORD})*+"
_INTEGER = r"-?(?:0|[1-9][0-9]{0,17})"
_DECIMAL = r"-?(?:0|[1-9][0-9]{0,8})\.[0-9]{0,6}[1-9]"
# Begins with a digit and can't be a number: contains a character that no number has, or two hyphens or dots (versions,
# dates, PCI addresses).
_NO_NUMBER = (
    r"[0-9](?=[0-9A-Za-z_./:-]*?(?:[:/g-np-wyzG-NP-WYZ]|-[0-9A-Za-z_]*-|\.[0-9A-Za-z_]*\.))"
    r"[0-9A-Za-z_./-]*+(?::[0-9A-Za-z_./-]++)*+"
)
_FLOW_TEXT = rf"{_RESERVED}[A-Za-z_/][A-Za-z0-9_./-]*+(?: [A-Za-z0-9_./-]++)*+"
_FLOW_NO_NUMBER = (
    r"[0-9](?=[0-9A-Za-z_./-]*?(?:[/g-np-wyzG-NP-WYZ]|-[0-9A-Za-z_]*-|\.[0-9A-Za-z_]*\.))[0-9A-Za-z_./-]*+"
)
_ENDS = r"(?=[,}\]])"
_FLOW_VALUE = (
    rf"(?:{_FLOW_TEXT}|(?:true|false|null|{_INTEGER}|{_DECIMAL}|{_FLOW_NO_NUMBER}){_ENDS}|{_SINGLE}|{_DOUBLE})"
)
_FLOW_ENTRY = rf"{_KEY}: {_FLOW_VALUE}"
_FLOW = rf"(?:\{{(?:{_FLOW_ENTRY}(?:, {_FLOW_ENTRY})*+)?\}}|\[(?:{_FLOW_VALUE}(?:, {_FLOW_VALUE})*+)?\])"
_VALUE = rf"(?:(?:{_TEXT}|true|false|null|{_INTEGER}|{_DECIMAL}|{_NO_NUMBER})(?=$)|{_SINGLE}|{_DOUBLE}|{_FLOW})"
_REFERENCE = r"[&*][A-Za-z0-9]{1,40}(?=$)"  # an anchor of what follows on the next lines, or an alias
# of a line without the spaces at its end, and written so that it is read once: no two repetitions may share a text
_LINE = re.compile(
    rf"(?: {{0,60}}(?:- ){{0,4}}(?:{_KEY}:(?: (?:{_VALUE}|{_REFERENCE}))?|(?<=- "
    rf")(?:{_VALUE}|{_REFERENCE}))| {{0,60}}#[ -~]*+|---|)"
)
_ANCHOR = re.compile(r"^( *+(?:- )*+)([^ #\n][^\n]*: |)&([A-Za-z0-9]+) *$", re.MULTILINE)
_ALIAS = re.compile(r"\*([A-Za-z0-9]+)")

_SEPARATOR = re.compile(r"^(?=---(?:[ \t\r]|$))", re.MULTILINE)
_DIRECTIVE = re.compile(r"^(?:%|\.\.\.)", re.MULTILINE)
_ITEMS = re.compile(r"^items:\n( *)- ", re.MULTILINE)


def is_unambiguous(line: str) -> bool:
    """True if a line (without line break) has a form that every YAML reader reads alike."""
    return line.isascii() and _LINE.fullmatch(line.rstrip(" ")) is not None


def parse(text: str, name: str, min_length: int = MIN_LENGTH) -> Iterator[Parsed]:
    """Every document of a YAML stream. Raises :class:`DocumentError`."""
    if len(text) < min_length or "\r" in text or _DIRECTIVE.search(text):
        return yaml_text.parse(text, name)
    return _parse_large(text, name)


def _parse_large(text: str, name: str) -> Iterator[Parsed]:
    verdicts: dict[str, bool] = {}
    line = number = 1
    for part, alone in _parts(text, verdicts):
        fast = None
        if alone:
            fast = read_unambiguous(part, line, number, verdicts) or read_by_items(part, name, line, number, verdicts)
        if fast is None:
            for parsed in yaml_text.parse(part, name, line, number):
                yield parsed
                number = parsed.document + 1
        elif fast.value is not None or part.startswith("---"):
            yield fast
            number += 1
        line += part.count("\n")


def _parts(text: str, verdicts: dict[str, bool]) -> Iterator[tuple[str, bool]]:
    """The text in parts: a document for the fast parser alone (true), or a run of other documents (false)."""
    odd: list[str] = []
    for chunk in chunks(text):
        if len(chunk) < _MIN_CHUNK or not (_is_clear(chunk, verdicts) or _ITEMS.search(chunk)):
            odd.append(chunk)
            continue
        if odd:
            yield "".join(odd), False
            odd = []
        yield chunk, True
    if odd:
        yield "".join(odd), False


def chunks(text: str) -> list[str]:
    """The text cut before each line ``---``, which nothing in YAML can contain otherwise."""
    return [chunk for chunk in _SEPARATOR.split(text) if chunk]


def read_unambiguous(chunk: str, line: int, number: int, verdicts: dict[str, bool]) -> Parsed | None:
    """The document, or None if it must be read exactly. ``verdicts`` remembers lines: they repeat a lot."""
    if not _is_clear(chunk, verdicts):
        return None
    anchors = "&" in chunk
    if anchors and _may_contain_itself(chunk):
        return None
    limit = yaml_text.MAX_ALIAS_NODES + 5 * chunk.count("\n")
    try:
        value: object = yaml_rs.loads(
            chunk, parse_datetime=False, alias_limits=yaml_rs.AliasLimits(max_total_replayed_events=limit)
        )
    except yaml_rs.YAMLDecodeError:
        return None
    return Parsed(value, line + _blank_lines(chunk), number, len(chunk), anchors, _item_lines(chunk, line))


def read_by_items(chunk: str, name: str, line: int, number: int, verdicts: dict[str, bool]) -> Parsed | None:
    """A document with a large top-level list ``items``, read entry by entry, so that one ambiguous entry doesn't slow
    down all of them.

    None where entries can't be separated safely: with anchors, or when a part can't be read alone (a quoted text across
    entries, say).
    """
    starts = _item_lines(chunk, line)
    if len(starts) < 2 or "&" in chunk or "*" in chunk:
        return None
    lines = chunk.split("\n")
    bounds = [start - line for start in starts]
    indent = len(lines[bounds[0]]) - len(lines[bounds[0]].lstrip(" "))
    further = re.compile(rf" {{{indent + 1}}}| {{{indent}}}-(?: |$)| *(?:#|$)")
    end = next((at for at in range(bounds[0], len(lines)) if not further.match(lines[at])), len(lines))
    if end < bounds[-1]:
        return None
    bounds.append(end)
    values: list[object] = []
    try:
        around = "\n".join([*lines[: bounds[0] - 1], "items: []", *lines[end:]])
        (frame,) = yaml_text.parse(around, name, line, number)
        for clear, first, last in _runs(lines, bounds, verdicts):
            text = "\n".join(lines[first:last]) + "\n"
            read = read_unambiguous(text, line + first, number, verdicts) if clear else None
            parsed = read or next(yaml_text.parse(text, name, line + first, number))
            if not isinstance(parsed.value, list):
                return None
            values += parsed.value
    except DocumentError:
        return None  # read as a whole, it is refused with its place
    if not isinstance(frame.value, dict) or frame.value.get("items") != [] or len(values) != len(starts):
        return None
    frame.value["items"] = values
    return Parsed(frame.value, frame.line, number, len(chunk), False, starts)


def _runs(lines: list[str], bounds: list[int], verdicts: dict[str, bool]) -> Iterator[tuple[bool, int, int]]:
    """Entries as ranges of lines: neighbouring unambiguous ones together (true), each other one alone."""
    start = bounds[0]
    for first, last in pairwise(bounds):
        if all(_remembered(written, verdicts) for written in lines[first:last]):
            continue
        if start < first:
            yield True, start, first
        yield False, first, last
        start = last
    if start < bounds[-1]:
        yield True, start, bounds[-1]


def _is_clear(chunk: str, verdicts: dict[str, bool]) -> bool:
    lines = set(chunk.split("\n"))
    return all(_remembered(written, verdicts) for written in lines) and (
        "&" not in chunk or max(map(len, lines)) <= _ANCHORED_LINE
    )


def _remembered(written: str, verdicts: dict[str, bool]) -> bool:
    verdict = verdicts.get(written)
    if verdict is None:
        verdict = verdicts[written] = is_unambiguous(written)
    return verdict


def _may_contain_itself(chunk: str) -> bool:
    """Whether an alias may be inside the node that it names (null to yaml-rs), or an anchor is given twice."""
    names: set[str] = set()
    aliases: dict[str, list[int]] = {}
    for alias in _ALIAS.finditer(chunk):
        aliases.setdefault(alias[1], []).append(alias.start())
    for anchor in _ANCHOR.finditer(chunk):
        prefix, key, name = anchor.groups()
        if name in names:
            return True
        names.add(name)
        end = _node_end(len(prefix) if key else len(prefix) - 2, bool(key)).search(chunk, anchor.end())
        uses = aliases.get(name, [])
        following = bisect_left(uses, anchor.end())
        if following < len(uses) and (end is None or uses[following] < end.start()):
            return True
    return False


@lru_cache(maxsize=256)
def _node_end(column: int, keyed: bool) -> re.Pattern[str]:
    """Finds the line break after a node whose key or dash stands at a column: the next line is not further in.

    The dashes of a list may stand under its key.
    """
    if not keyed:
        return re.compile(rf"\n {{0,{column}}}(?=[^ \n#])")
    shallower = rf" {{0,{column - 1}}}(?=[^ \n#])|" if column else ""
    return re.compile(rf"\n(?:{shallower} {{{column}}}(?=[^ \n#-]))")


_CONTENT = re.compile(r"^(?!---) *[^ #\n]", re.MULTILINE)


def _blank_lines(chunk: str) -> int:
    content = _CONTENT.search(chunk)
    return chunk.count("\n", 0, content.start()) if content else 0


def _item_lines(chunk: str, line: int) -> tuple[int, ...]:
    """The lines of the entries of a top-level ``items`` list."""
    items = _ITEMS.search(chunk)
    if items is None:
        return ()
    entry = re.compile(rf"^{items[1]}- ", re.MULTILINE)
    lines: list[int] = []
    position = 0
    for match in entry.finditer(chunk, items.start()):
        line += chunk.count("\n", position, match.start())
        position = match.start()
        lines.append(line)
    return tuple(lines)
