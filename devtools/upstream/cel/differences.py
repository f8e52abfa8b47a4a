"""The documented differences (docs/decisions/0004-cel.md), each recognised by as little as possible."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from devtools.cel.answers import Answer, Question
from virt_dra.api.quantity import Quantity

_BEYOND_INT64 = re.compile(
    r'quantity\("(8Ei|9223372036854775807)"\)|(?:quantity\(|capacity).*sub\(.*-9223372036854775808'
)

_QUANTITY = re.compile(r"(?<=kubernetes\.Quantity\()([^()]*)(?=\))")
MAP_ORDER = "order of a map's entries"
LARGE_QUANTITIES = "quantities beyond int64 are exact"
VARIES = "the reference answers differently each time (order of a map's entries)"


def _text(answer: Answer) -> str:
    text: str = answer.get("compile_error") or answer.get("error") or ""
    return text


def _both(kind: str, theirs: Answer, ours: Answer) -> bool:
    return kind in theirs and kind in ours


def _only(keys: tuple[str, ...], theirs: Answer, ours: Answer) -> bool:
    """Whether at most these members differ."""
    return all(theirs.get(key) == ours.get(key) for key in theirs.keys() | ours.keys() if key not in keys)


def _panic(question: Question, theirs: Answer, ours: Answer) -> bool:
    return _text(theirs).startswith("PANIC ")


def _failed_conversion(question: Question, theirs: Answer, ours: Answer) -> bool:
    failed = _text(theirs).startswith("internal error: interface conversion:") and "compile_error" not in ours
    return failed and _only(("error", "result", "cost"), theirs, ours)


def _decimal_quantity(question: Question, theirs: Answer, ours: Answer) -> bool:
    """Upstream divides what it holds in decimals by a power of ten, which is not the nearest double; ours is."""
    doubles = [_DOUBLE.fullmatch(str(answer.get("result"))) for answer in (theirs, ours)]
    if "asApproximateFloat" not in question["expression"] or doubles[0] is None or doubles[1] is None:
        return False
    return _only(("result",), theirs, ours) and abs(int(doubles[0][1], 16) - int(doubles[1][1], 16)) <= 2


_DOUBLE = re.compile(r"double\(([0-9a-f]{1,16})\)")


def _large_quantity(question: Question, theirs: Answer, ours: Answer) -> bool:
    """Any difference at run time; that it is about the large numbers is for :func:`control` to show."""
    large = _BEYOND_INT64.search(question["expression"]) is not None and "compile_error" not in theirs
    return large and _only(("error", "result", "cost"), theirs, ours)


_PLACE = re.compile(r"ERROR: <input>:\d+:\d+: Syntax error: ")


def _syntax(question: Question, theirs: Answer, ours: Answer) -> bool:
    """Our first syntax error stands where one of theirs does, or where theirs stop making sense of a text that doesn't
    end."""
    if not _both("compile_error", theirs, ours):
        return False
    places = [set(_PLACE.findall(_text(answer))) for answer in (theirs, ours)]
    return (
        len(places[1]) == 1
        and bool(places[0])
        and (places[1] <= places[0] or "token recognition error" in _text(theirs))
    )


def _type_variable(question: Question, theirs: Answer, ours: Answer) -> bool:
    """Where theirs names a type variable, ours has what it stands for."""
    if not _both("compile_error", theirs, ours) or "_var" not in _text(theirs):
        return False
    return re.fullmatch(r"[^']+?".join(map(re.escape, re.split(r"_var\d+", _text(theirs)))), _text(ours)) is not None


def _map_order(question: Question, theirs: Answer, ours: Answer) -> bool:
    """A list made of a map's keys or values, in whose order the reference varies from run to run (spec L-6.1)."""
    if "result" not in theirs or "result" not in ours or theirs["result"] == ours["result"]:
        return False
    texts = [json.dumps(answer["result"], ensure_ascii=False) for answer in (theirs, ours)]
    from_map = any(text in question["expression"] for text in ("{", "attributes", "capacity", "device"))
    return from_map and "[" in texts[0] and sorted(texts[0]) == sorted(texts[1])


_GO_CONTAINER = re.compile(r"(?<= )(?:\[\]|map\[).*")


def _container(question: Question, theirs: Answer, ours: Answer) -> bool:
    """What Go holds a list or map in, which the text shows for one that can't be an attribute."""
    texts = [_text(answer) for answer in (theirs, ours)]
    return (
        texts[0] != texts[1]
        and len({_GO_CONTAINER.sub("[]", text) for text in texts}) == 1
        and bool(question.get("derived"))
    )


def _spelling(question: Question, theirs: Answer, ours: Answer) -> bool:
    """The same amounts, written otherwise, alone or within other values."""
    if not _both("result", theirs, ours) or not _only(("result",), theirs, ours):
        return False
    first, two = (
        _QUANTITY.sub(lambda amount: str(Quantity(amount[1]).nano), str(answer["result"])) for answer in (theirs, ours)
    )
    return first == two


def _failure_as_value(question: Question, theirs: Answer, ours: Answer) -> bool:
    """Upstream looks up the entries that transformMapEntry adds; not-a-number isn't found, and the failure becomes the
    entry's value."""
    lost = any("no such key: NaN" in str(theirs.get(kind, "")) for kind in ("result", "error"))
    return lost and "transformMapEntry" in question["expression"] and _only(("error", "result", "cost"), theirs, ours)


_UNDEFINED = re.compile(r"program instantiation failed: reference to undefined type: (\w+).*")


def _type_name(question: Question, theirs: Answer, ours: Answer) -> bool:
    undefined = _UNDEFINED.fullmatch(_text(theirs))
    return undefined is not None and f"undeclared reference to '{undefined[1]}'" in ours.get("compile_error", "")


def _semver(question: Question, theirs: Answer, ours: Answer) -> bool:
    return _both("error", theirs, ours) and all(
        _text(answer).startswith("Invalid character(s) found in ") for answer in (theirs, ours)
    )


def _pattern(question: Question, theirs: Answer, ours: Answer) -> bool:
    return "error parsing regexp: " in _text(theirs) and "error parsing regexp: " in _text(ours)


def _zone(question: Question, theirs: Answer, ours: Answer) -> bool:
    return _both("error", theirs, ours) and _text(ours).startswith("unknown time zone ")


def _precision(question: Question, theirs: Answer, ours: Answer) -> bool:
    return "exceeds maximum allowed precision 200" in _text(ours)


def _not_ascii(question: Question, theirs: Answer, ours: Answer) -> bool:
    return "unrecognized formatting clause" in _text(theirs) and "unrecognized formatting clause" in _text(ours)


def _message(question: Question, theirs: Answer, ours: Answer) -> bool:
    return "message literals (google.protobuf." in ours.get("compile_error", "")


_FORMAT = re.compile(r"\{\w+ 0x[0-9a-f]+ \d+\}")


def _named_format(question: Question, theirs: Answer, ours: Answer) -> bool:
    """A named format in a message, which there shows an address."""
    return _FORMAT.search(_text(theirs)) is not None and "NamedFormat" in _text(ours)


_REASONS: dict[str, Callable[[Question, Answer, Answer], bool]] = {
    "the reference panics": _panic,
    "the reference fails on its own error": _failed_conversion,
    MAP_ORDER: _map_order,
    "wording: the Go type of a list or map": _container,
    "spelling of a quantity": _spelling,
    "a failure as a map's value": _failure_as_value,
    LARGE_QUANTITIES: _large_quantity,
    "a quantity in decimals as a double is the nearest": _decimal_quantity,
    "wording of a syntax error": _syntax,
    "name of a type variable": _type_variable,
    "a type that Kubernetes knows and cannot use": _type_name,
    "wording: semver": _semver,
    "wording: pattern": _pattern,
    "wording: time zone": _zone,
    "wording: format": _not_ascii,
    "precisions above 200": _precision,
    "wording: a named format": _named_format,
    "message literals": _message,
}


_WORDING = frozenset(name for name in _REASONS if name.startswith("wording") or name == "name of a type variable")


def reason(question: Question, theirs: Answer, ours: Answer) -> str | None:
    """The documented difference that this is; None for others."""
    same = _without_text(theirs) == _without_text(ours)
    return next(
        (
            name
            for name, applies in _REASONS.items()
            if (same or name not in _WORDING) and applies(question, theirs, ours)
        ),
        None,
    )


_LARGE_NUMBERS = (('quantity("8Ei")', 'quantity("8")'), ("9223372036854775807", "9"), ("9223372036854775808", "9"))


def control(why: str, question: Question) -> Question | None:
    """Where a reason says only what a difference may come from: the question without that, to which both must give the
    same answer."""
    if why != LARGE_QUANTITIES:
        return None
    text = question["expression"]
    for large, small in _LARGE_NUMBERS:
        text = text.replace(large, small)
    return {**question, "expression": text}


def _without_text(answer: Answer) -> Answer:
    """The answer but for the text of its error."""
    return {**answer, "error": "error" in answer, "compile_error": "compile_error" in answer}
