"""Reads a JSONPath template as ``k8s.io/client-go/util/jsonpath`` does, its leniences and its error texts included.

template = { text | "{" { step | " " | "@" | "$" } "}" }
step     = "." name | ".*" | ".." | "[" index "]" | "[?(" left [ operator right ] ")]" | quoted | number | word
index    = "*" | [first] [":" [last] [":" [step]]] | "'" name "'" | index "," index { "," index }
"""

from __future__ import annotations

import re
from typing import Final

from virt_dra.api.go_text import quoted
from virt_dra.cli.templates.nodes import (
    EXISTS,
    FieldStep,
    FilterStep,
    RecursiveStep,
    SliceStep,
    TemplateKeyword,
    TemplateLiteral,
    TemplatePart,
    TemplatePath,
    TemplateStep,
    UnionStep,
    WildcardStep,
)


class BadTemplate(ValueError):
    """A template that can't be read; the text is Kubernetes'."""


_TERMINATORS: Final = frozenset(" \t\r\n.,[]$@{}")
_KEY: Final = re.compile(r"'([^']*)'")
_SLICE: Final = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_FLOAT: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
_COMPARISON: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+?)", re.DOTALL)
_MOST: Final = 2**63
"""Go's integers are less."""


def parse_template(text: str) -> tuple[TemplatePart, ...]:
    """The parts of a template, in order. Raises BadTemplate."""
    parts: list[TemplatePart] = []
    position = 0
    while position < len(text):
        begin = text.find("{", position)
        if begin != position:
            parts.append(TemplateLiteral(text[position : begin if begin >= 0 else len(text)]))
        if begin < 0:
            break
        action = _ActionReader(text, begin + 1)
        parts.append(action.read())
        position = action.position
    return tuple(parts)


def _parse_action(text: str) -> TemplatePath:
    """The steps of a text that could stand in braces. What follows a brace in it is read and left out."""
    path = parse_template(f"{{{text}}}")[0]
    assert isinstance(path, tuple)
    return path


class _ActionReader:
    """Reads what a pair of braces holds. ``position``: behind the last character that was read."""

    def __init__(self, text: str, position: int) -> None:
        self._text = text
        self.position = position
        self._steps: list[TemplateStep] = []

    def read(self) -> TemplatePath:
        while not self._at("}"):
            self._read_step()
        self.position += 1
        return tuple(self._steps)

    def _at(self, prefix: str) -> bool:
        return self._text.startswith(prefix, self.position)

    def _peek(self) -> str:
        """The next character, "" at the end."""
        return self._text[self.position : self.position + 1]

    def _read_step(self) -> None:
        if self._at("[?("):
            self._read_filter()
            return
        if self._at(".."):
            self._read_recursive()
            return
        char = self._peek()
        if char in ("", "\r", "\n"):
            raise BadTemplate("unclosed action")
        if char in (" ", "@", "$"):
            self.position += 1
        elif char == "[":
            self._read_index()
        elif char in ('"', "'"):
            self._read_quoted(char)
        elif char == ".":
            self.position += 1
            self._read_field()
        elif char in "+-" or char.isdecimal():
            self._read_number()
        elif char == "_" or char.isalpha():
            self._read_word()
        else:
            shown = f" '{char}'" if char.isprintable() else ""
            raise BadTemplate(f"unrecognized character in action: U+{ord(char):04X}{shown}")

    def _read_word(self) -> None:
        begin = self.position
        while (char := self._peek()) and char not in _TERMINATORS:
            self.position += 1
        word = self._text[begin : self.position]
        self._steps.append(TemplateLiteral(word == "true") if word in ("true", "false") else TemplateKeyword(word))

    def _read_recursive(self) -> None:
        if self._steps and isinstance(self._steps[-1], RecursiveStep):
            raise BadTemplate("invalid multiple recursive descent")
        self.position += len("..")
        self._steps.append(RecursiveStep())
        char = self._peek()
        if char == "_" or char.isalpha() or char.isdecimal():
            self._read_field()

    def _read_field(self) -> None:
        begin = self.position
        while (char := self._peek()) and char not in _TERMINATORS:
            self.position += 2 if char == "\\" else 1
        self.position = min(self.position, len(self._text))
        name = self._text[begin : self.position]
        self._steps.append(WildcardStep() if name == "*" else FieldStep(name.replace("\\", "")))

    def _read_number(self) -> None:
        begin = self.position
        self.position += self._peek() in "+-"
        while (char := self._peek()) and (char == "." or char.isdecimal()):
            self.position += 1
        text = self._text[begin : self.position]
        if _INTEGER.fullmatch(text) and -_MOST <= int(text) < _MOST:
            self._steps.append(TemplateLiteral(int(text)))
        elif _FLOAT.fullmatch(text) and abs(float(text)) != float("inf"):
            self._steps.append(TemplateLiteral(float(text)))
        else:
            raise BadTemplate(f"cannot parse number {text}")

    def _read_quoted(self, quote: str) -> None:
        begin = self.position
        self.position += 1
        while (char := self._peek()) != quote or self._text[self.position - 1] == "\\":
            if char in ("", "\n"):
                raise BadTemplate("unterminated quoted string")
            self.position += 1
        self.position += 1
        literal = self._text[begin : self.position]
        self._steps.append(TemplateLiteral(_unquoted(literal, quote)))

    def _read_index(self) -> None:
        end = self._text.find("]", self.position)
        line = self._text.find("\n", self.position)
        if end < 0 or 0 <= line < end:
            raise BadTemplate("unterminated array")
        index = self._text[self.position + 1 : end]
        self.position = end + 1
        if "," in index:
            paths = (_parse_action(f"[{part.strip(' ')}]") for part in index.split(","))
            self._steps.append(UnionStep(tuple(paths)))
        elif key := _KEY.fullmatch(index):
            self._steps += _parse_action(f".{key[1]}")
        else:
            self._steps.append(_slice(":" if index == "*" else index))

    def _read_filter(self) -> None:
        self.position += len("[?(")
        begin, quote, closed = self.position, "", False
        while True:
            char = self._peek()
            if char in ("", "\n"):
                raise BadTemplate("unterminated filter")
            self.position += 1
            if char in ('"', "'"):
                if not quote:
                    quote = char
                elif char == quote and self._text[self.position - 2] != "\\":
                    closed = True
            elif char == ")" and bool(quote) == closed:
                break
        if self._peek() != "]":
            raise BadTemplate("unclosed array expect ]")
        text = self._text[begin : self.position - 1]
        self.position += 1
        if comparison := _COMPARISON.fullmatch(text):
            left, operator, right = comparison.groups()
            self._steps.append(FilterStep(_parse_action(left), operator, _parse_action(right)))
        else:
            self._steps.append(FilterStep(_parse_action(text), EXISTS, ()))


def _slice(text: str) -> SliceStep:
    parts = _SLICE.fullmatch(text)
    if parts is None:
        raise BadTemplate(f"invalid array index {text}")
    first, last, step = parts.groups()
    start = _position(first) if first else None
    if last is None:
        return SliceStep(start, (start or 0) + 1, None, index=True)
    return SliceStep(start, _position(last[1:]), _position(step[1:]) if step else None)


def _position(text: str) -> int | None:
    if not text:
        return None
    if text == "-" or not -_MOST <= int(text) < _MOST:
        raise BadTemplate(f"array index {text} is not a number")
    return int(text)


_ESCAPE: Final = re.compile(
    r"\\(?:(?P<char>[abfnrtv\\'\"])|x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})|(?P<octal>[0-7]{3}))"
)
_CHARACTERS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}


def _unquoted(literal: str, quote: str) -> str:
    """A string of Go without its quotes, which may be single ones. Raises BadTemplate."""
    text = literal[1:-1]
    refused = BadTemplate(f"unquote string {literal} error invalid syntax")
    written = bytearray()
    position = 0
    while position < len(text):
        char = text[position]
        if char == quote:
            raise refused
        if char != "\\":
            written += char.encode()
            position += 1
            continue
        escape = _ESCAPE.match(text, position)
        if escape is None:
            raise refused
        position = escape.end()
        if named := escape["char"]:
            if named in "'\"" and named != quote:
                raise refused
            written += _CHARACTERS.get(named, named).encode()
            continue
        code = int(escape["x"] or escape["u"] or escape["U"] or escape["octal"], 8 if escape["octal"] else 16)
        if escape["x"] or escape["octal"]:
            if code > 0xFF:
                raise refused
            written.append(code)
        elif code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise refused
        else:
            written += chr(code).encode()
    return written.decode("utf-8", "replace")


def relaxed(path: str) -> str:
    """A path of a column or an order as a template: ``a.b``, ``.a.b``, ``{a.b}`` and ``{.a.b}`` are the same.

    Raises BadTemplate.
    """
    inner = _RELAXED.fullmatch(path)
    if inner is None:
        raise BadTemplate(
            f"{quoted(path)} is no path; expected 'name1.name2' or '.name1.name2' or '{{name1.name2}}' or "
            "'{.name1.name2}'"
        )
    return f"{{.{inner[1] or inner[2]}}}"


_RELAXED: Final = re.compile(r"\{\.?([^{}]+)\}|\.?([^{}]+)")
