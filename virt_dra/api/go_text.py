"""Text as Go writes it, for messages that must read as Kubernetes' and KubeVirt's own."""

from __future__ import annotations

ESCAPES = dict(zip('\a\b\f\n\r\t\v\\"', map("\\{}".format, 'abfnrtv\\"'), strict=True))


def quoted(text: str) -> str:
    """A Go string literal (``%q``): control and other unprintable characters are escaped.

    >>> print(quoted('a"b'))
    "a\\"b"
    """
    return f'"{"".join(map(_escaped, text))}"' if not text.isprintable() or '"' in text or "\\" in text else f'"{text}"'


def _escaped(char: str) -> str:
    if char in ESCAPES:
        return ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible(text: str) -> str:
    """The text on one line, control and other unprintable characters as escapes: names are whatever a user wrote.

    >>> print(visible("a\\x1b[31m\\n"))
    a\\x1b[31m\\n
    """
    return text if text.isprintable() else "".join(char if char.isprintable() else _escaped(char) for char in text)


def printable(text: str) -> str:
    """The text with lone surrogates, which JSON can smuggle in and UTF-8 can't carry, written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()
