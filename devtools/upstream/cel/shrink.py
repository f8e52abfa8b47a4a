"""Making a question smaller while something about it stays true."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from devtools.cel.answers import Question

FirstOf = Callable[[Sequence[Question]], "Question | None"]
"""Of the candidates the first of which it is still true."""

_TOKEN = re.compile(
    r"""\s+|[A-Za-z_]\w*|0x[0-9A-Fa-f]+u?|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?u?|[rb]?"(?:[^"\\]|\\.)*"|[rb]?'(?:[^'\\]|\\.)*'|&&|\|\||[=!<>]=|."""
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_LEAVES = ("1", "true", '"a"', "[]", "{}", "dyn(1)")
_BATCH = 400


def shrunk(question: Question, first_of: FirstOf) -> Question:
    """The smallest question that can be reached by dropping and replacing parts of the text, of the device and of the
    rest."""
    while True:
        smaller = _first(sorted(_candidates(question), key=_size), first_of)
        if smaller is None:
            return question
        question = smaller


def _first(candidates: list[Question], first_of: FirstOf) -> Question | None:
    for start in range(0, len(candidates), _BATCH):
        smaller = first_of(candidates[start : start + _BATCH])
        if smaller is not None:
            return smaller
    return None


def _size(question: Question) -> tuple[int, int]:
    text: str = question["expression"]
    return len(_TOKEN.findall(text)), len(str(question))


def _candidates(question: Question) -> Iterator[Question]:
    seen = {question["expression"]}
    for text in _texts(question["expression"]):
        if text not in seen:
            seen.add(text)
            yield {**question, "expression": text}
    for key in ("new", "features", "derived", "device"):
        if key in question:
            yield {name: value for name, value in question.items() if name != key}
    device = question.get("device", {})
    for name in device:
        if name != "driver":
            yield {**question, "device": {key: value for key, value in device.items() if key != name}}
    for part in ("attributes", "capacity"):
        for name in device.get(part, {}):
            left = {key: value for key, value in device[part].items() if key != name}
            yield {**question, "device": {**device, part: left}}


def _texts(text: str) -> Iterator[str]:
    """The text with a run of tokens left out, with a bracket replaced by what is in it, or with a run replaced by a
    small value."""
    tokens: list[str] = [token for token in _TOKEN.findall(text) if token.strip()]
    for start in range(len(tokens)):
        for end in range(start + 1, len(tokens) + 1):
            if not _balanced(tokens[start:end]):
                continue
            yield _joined(tokens[:start] + tokens[end:])
            if end - start > 1 or tokens[start] not in _LEAVES:
                for leaf in _LEAVES:
                    shorter = len(_TOKEN.findall(leaf)) < end - start or (
                        end - start == 1 and len(leaf) < len(tokens[start])
                    )
                    if shorter:
                        yield _joined([*tokens[:start], leaf, *tokens[end:]])
            if tokens[start] in _CLOSING:
                yield _joined(tokens[:start] + tokens[start + 1 : end - 1] + tokens[end:])
            yield _joined(tokens[start:end])


def _balanced(tokens: Sequence[str]) -> bool:
    waiting: list[str] = []
    for token in tokens:
        if token in _CLOSING:
            waiting.append(_CLOSING[token])
        elif token in (")", "]", "}") and (not waiting or waiting.pop() != token):
            return False
    return not waiting


def _joined(tokens: Sequence[str]) -> str:
    text = ""
    for token in tokens:
        if text and (text[-1].isalnum() or text[-1] == "_") and (token[0].isalnum() or token[0] == "_"):
            text += " "
        text += token
    return text
