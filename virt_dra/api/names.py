"""The syntax of names in Kubernetes: DNS labels and subdomains, label keys and values, C identifiers.

Every function returns what is wrong with a text, in apimachinery's words, and nothing when it is fine:

    >>> dns1123_label("my.name")
    ('must not contain dots',)

Grammar (RE2/POSIX notation; lengths are bytes of UTF-8):

    label      [a-z0-9]([-a-z0-9]*[a-z0-9])?                       at most 63
    subdomain  label(.label)*                                      at most 253
    key        [subdomain/]([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]  the part behind the slash at most 63
    value      empty, or as a key's name part                      at most 63
    identifier [A-Za-z_][A-Za-z0-9_]*

apimachinery words the length of DNS names in two ways: "characters" in its older functions (object names and every
hand-written check) and "bytes" in its newer ones (declarative checks); ``unit`` chooses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

Unit = Literal["characters", "bytes"]

LABEL_MAX = 63
SUBDOMAIN_MAX = 253


@dataclass(frozen=True)
class _Syntax:
    """A syntax in apimachinery's words. ``accepted``: what is really accepted, where that isn't the shown pattern."""

    rule: str
    shown: str
    examples: tuple[str, ...]
    accepted: re.Pattern[str]

    def broken(self) -> str:
        examples = " or ".join(f"'{example}', " for example in self.examples)
        return f"{self.rule} (e.g. {examples}regex used for validation is '{self.shown}')"

    def faults(self, text: str) -> tuple[str, ...]:
        return () if self.accepted.fullmatch(text) else (self.broken(),)


def _syntax(rule: str, shown: str, examples: tuple[str, ...]) -> _Syntax:
    return _Syntax(rule, shown, examples, re.compile(shown))


_ENDS: Final = "and must start and end with an alphanumeric character"
_LABEL: Final = _syntax(
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}",
    "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    ("my-name", "123-abc"),
)
_SUBDOMAIN: Final = _syntax(
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}",
    rf"{_LABEL.shown}(\.{_LABEL.shown})*",
    ("example.com",),
)
_CASELESS_SUBDOMAIN: Final = _Syntax(
    f"an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', {_ENDS}",
    _SUBDOMAIN.shown,
    ("Example.com",),
    re.compile(_SUBDOMAIN.shown.replace("a-z", "a-zA-Z")),
)
_LABEL_1035: Final = _syntax(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    ("my-name", "abc-123"),
)
_KEY: Final = _syntax(
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}",
    "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
    ("MyName", "my.name", "123-abc"),
)
_VALUE: Final = _syntax(
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS}",
    f"({_KEY.shown})?",
    ("MyValue", "my_value", "12345"),
)
_IDENTIFIER: Final = _syntax(
    "a valid C identifier must start with alphabetic character or '_', "
    "followed by a string of alphanumeric characters or '_'",
    "[A-Za-z_][A-Za-z0-9_]*",
    ("my_name", "MY_NAME", "MyName"),
)


def byte_length(text: str) -> int:
    """The length Kubernetes counts: bytes of UTF-8. Lone surrogates, which JSON can smuggle in, count three."""
    return len(text.encode("utf-8", "surrogatepass"))


def dns1123_label(text: str, unit: Unit = "characters") -> tuple[str, ...]:
    """A DNS-1123 label, e.g. a request's name or a namespace."""
    dotted = "." in text and _SUBDOMAIN.accepted.fullmatch(text)
    faults = ("must not contain dots",) if dotted else _LABEL.faults(text)
    return _too_long(text, LABEL_MAX, unit) + faults


def dns1123_subdomain(text: str, unit: Unit = "characters") -> tuple[str, ...]:
    """A DNS-1123 subdomain, e.g. the name of most objects."""
    return _too_long(text, SUBDOMAIN_MAX, unit) + _SUBDOMAIN.faults(text)


def dns1123_subdomain_caseless(text: str) -> tuple[str, ...]:
    """A DNS-1123 subdomain in which upper case is tolerated. (The message shows the strict pattern, as upstream's.)"""
    return _too_long(text, SUBDOMAIN_MAX, "bytes") + _CASELESS_SUBDOMAIN.faults(text)


def dns1035_label(text: str) -> tuple[str, ...]:
    """A DNS-1035 label: as DNS-1123, but starting with a letter."""
    return _too_long(text, LABEL_MAX, "characters") + _LABEL_1035.faults(text)


def label_key(text: str) -> tuple[str, ...]:
    """A label key ("qualified name"): also finalizers, taint keys and, in lower case, annotation keys."""
    *prefixes, name = text.split("/")
    if len(prefixes) > 1:
        prefixed = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {_KEY.broken()} {prefixed}",)
    faults: list[str] = []
    for prefix in prefixes:
        prefix_faults = dns1123_subdomain(prefix, "bytes") if prefix else ("must be non-empty",)
        faults += (f"prefix part {fault}" for fault in prefix_faults)
    empty = () if name else ("must be non-empty",)
    faults += (f"name part {fault}" for fault in empty + _too_long(name, LABEL_MAX, "bytes") + _KEY.faults(name))
    return tuple(faults)


def label_value(text: str) -> tuple[str, ...]:
    """A label value; may be empty."""
    return _too_long(text, LABEL_MAX, "bytes") + _VALUE.faults(text)


def c_identifier(text: str) -> tuple[str, ...]:
    """An identifier as in C; its length is the caller's rule."""
    return _IDENTIFIER.faults(text)


def without_trailing_dash(prefix: str) -> str:
    """A ``generateName`` as its syntax is checked: a final dash is fine because something follows it.

    As upstream, the character before that dash is not checked.
    """
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def _too_long(text: str, limit: int, unit: Unit) -> tuple[str, ...]:
    return (f"must be no more than {limit} {unit}",) if byte_length(text) > limit else ()
