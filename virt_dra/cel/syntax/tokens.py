r"""Tokens of a CEL expression.

FLOAT  : DIGIT+ "." DIGIT+ EXPONENT? | DIGIT+ EXPONENT | "." DIGIT+ EXPONENT?
INT    : DIGIT+ | "0x" HEX+                UINT : INT ("u" | "U")
STRING : ["r"] ( "…" | '…' | \"""…\""" | '''…''' )      BYTES : "b" STRING
IDENT  : [A-Za-z_][A-Za-z0-9_]*            ESCAPED : "`" [A-Za-z0-9_.\-/ ]+ "`"
white space and "//" comments separate tokens
"""

from __future__ import annotations

import re
from typing import NamedTuple

from virt_dra.cel.errors import Issue


class SyntaxFault(Exception):
    """A syntax error: its issues are rendered with their locations where the expression is compiled."""

    def __init__(self, *issues: Issue) -> None:
        self.issues = issues
        super().__init__("; ".join(issue.message for issue in issues))


class Token(NamedTuple):
    """``kind``: FLOAT, INT, UINT, STRING, BYTES, IDENT, ESCAPED, EOF, or for operators and keywords their text."""

    kind: str
    text: str
    offset: int


_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_QUOTED = (
    rf'"""(?:{_ESCAPE}|[^\\])*?"""',
    rf"'''(?:{_ESCAPE}|[^\\])*?'''",
    rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
    rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
)
_RAW = (r'[rR]"""(?s:.*?)"""', r"[rR]'''(?s:.*?)'''", r'[rR]"[^"\n\r]*"', r"[rR]'[^'\n\r]*'")
_STRING = "|".join(_RAW + _QUOTED)
_TOKEN = re.compile(
    rf"""(?P<SPACE>[\t\ \r\n\f]+|//[^\n]*)
    |(?P<BYTES>[bB](?:{_STRING}))
    |(?P<STRING>{_STRING})
    |(?P<FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<UINT>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    |(?P<INT>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<IDENT>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<ESCAPED>`[A-Za-z0-9_.\-/\ ]+`)
    |(?P<OPERATOR>==|!=|<=|>=|&&|\|\||[][<>{{}}().,\-!?:+*/%])
    """,
    re.VERBOSE,
)
KEYWORDS = frozenset(("in", "true", "false", "null"))


def tokenize(text: str) -> list[Token]:
    """All tokens, ending with EOF. Raises SyntaxFault."""
    tokens: list[Token] = []
    position, end = 0, len(text)
    match = _TOKEN.match
    while position < end:
        matched = match(text, position)
        if matched is None:
            shown = text[position : position + 20].split("\n")[0]
            raise SyntaxFault(Issue(position, f"Syntax error: token recognition error at: '{shown}'"))
        kind = matched.lastgroup
        piece = matched.group()
        if kind == "OPERATOR" or piece in KEYWORDS:
            tokens.append(Token(piece, piece, position))
        elif kind is not None and kind != "SPACE":
            tokens.append(Token(kind, piece, position))
        position += len(piece)
    tokens.append(Token("EOF", "<EOF>", end))
    return tokens


_SIMPLE_ESCAPES = dict(zip("abfnrtv\"'\\?`", b"\a\b\f\n\r\t\v\"'\\?`", strict=True))
_ONE_ESCAPE = re.compile(
    r"\\(?:([0-3][0-7][0-7])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)


def _body(text: str) -> tuple[str, bool]:
    """The text between the quotes with normalised line ends, and whether the literal is raw."""
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    width = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[width:-width], raw


def string_value(token: Token) -> str:
    """The value of a STRING token. Raises SyntaxFault for an escape that is no Unicode character."""
    body, raw = _body(token.text)
    if raw or "\\" not in body:
        return body

    def character(escape: re.Match[str]) -> str:
        octal, hexadecimal, short, long, simple = escape.groups()
        if simple is not None:
            return chr(_SIMPLE_ESCAPES[simple])
        code = int(octal, 8) if octal is not None else int(hexadecimal or short or long, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise SyntaxFault(Issue(token.offset, "invalid unicode code point"))
        return chr(code)

    return _ONE_ESCAPE.sub(character, body)


def bytes_value(token: Token) -> bytes:
    """The value of a BYTES token. Raises SyntaxFault for a Unicode escape, which bytes don't have."""
    body, raw = _body(token.text[1:])
    if raw or "\\" not in body:
        return body.encode()
    value = bytearray()
    position = 0
    for escape in _ONE_ESCAPE.finditer(body):
        value += body[position : escape.start()].encode()
        octal, hexadecimal, short, long, simple = escape.groups()
        if simple is not None:
            value.append(_SIMPLE_ESCAPES[simple])
        elif short is not None or long is not None:
            raise SyntaxFault(Issue(token.offset, "unable to unescape string"))
        else:
            value.append(int(octal, 8) if octal is not None else int(hexadecimal, 16))
        position = escape.end()
    value += body[position:].encode()
    return bytes(value)
