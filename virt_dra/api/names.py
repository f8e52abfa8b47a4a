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
from typing import Literal

Unit = Literal["characters", "bytes"]

LABEL_MAX = 63
SUBDOMAIN_MAX = 253

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"

_label = re.compile(_LABEL)
_subdomain = re.compile(_SUBDOMAIN)
_caseless_subdomain = re.compile(_SUBDOMAIN.replace("a-z", "a-zA-Z"))
_label_1035 = re.compile(_LABEL_1035)
_key = re.compile(_KEY)
_value = re.compile(_VALUE)
_identifier = re.compile(_IDENTIFIER)

_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_CASELESS_SUBDOMAIN_RULE = (
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_KEY_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_IDENTIFIER_RULE = (
    "a valid C identifier must start with alphabetic character or '_', "
    "followed by a string of alphanumeric characters or '_'"
)


def byte_length(text: str) -> int:
    """The length Kubernetes counts: bytes of UTF-8. Lone surrogates, which JSON can smuggle in, count three."""
    return len(text.encode("utf-8", "surrogatepass"))


def dns1123_label(text: str, unit: Unit = "characters") -> tuple[str, ...]:
    """A DNS-1123 label, e.g. a request's name or a namespace."""
    faults = _too_long(text, LABEL_MAX, unit)
    if _label.fullmatch(text):
        return faults
    if _subdomain.fullmatch(text):
        return (*faults, "must not contain dots")
    return (*faults, _broken_rule(_LABEL_RULE, _LABEL, "my-name", "123-abc"))


def dns1123_subdomain(text: str, unit: Unit = "characters") -> tuple[str, ...]:
    """A DNS-1123 subdomain, e.g. the name of most objects."""
    faults = _too_long(text, SUBDOMAIN_MAX, unit)
    return faults if _subdomain.fullmatch(text) else (*faults, _broken_rule(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))


def dns1123_subdomain_caseless(text: str) -> tuple[str, ...]:
    """A DNS-1123 subdomain in which upper case is tolerated. (The message shows the strict pattern, as upstream's
    does.)"""
    faults = _too_long(text, SUBDOMAIN_MAX, "bytes")
    if _caseless_subdomain.fullmatch(text):
        return faults
    return (*faults, _broken_rule(_CASELESS_SUBDOMAIN_RULE, _SUBDOMAIN, "Example.com"))


def dns1035_label(text: str) -> tuple[str, ...]:
    """A DNS-1035 label: as DNS-1123, but starting with a letter."""
    faults = _too_long(text, LABEL_MAX, "characters")
    return (
        faults
        if _label_1035.fullmatch(text)
        else (*faults, _broken_rule(_LABEL_1035_RULE, _LABEL_1035, "my-name", "abc-123"))
    )


def label_key(text: str) -> tuple[str, ...]:
    """A label key ("qualified name"): also finalizers, taint keys and, in lower case, annotation keys."""
    parts = text.split("/")
    if len(parts) > 2:
        rule = _broken_rule(f"a valid label key {_KEY_RULE}", _KEY, "MyName", "my.name", "123-abc")
        return (f"{rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    faults: tuple[str, ...] = ()
    name = parts[-1]
    if len(parts) == 2:
        prefix_faults = dns1123_subdomain(parts[0], "bytes") if parts[0] else ("must be non-empty",)
        faults = tuple(f"prefix part {fault}" for fault in prefix_faults)
    if not name:
        faults += ("name part must be non-empty",)
    faults += tuple(f"name part {fault}" for fault in _too_long(name, LABEL_MAX, "bytes"))
    if not _key.fullmatch(name):
        faults += (f"name part {_broken_rule(_KEY_RULE, _KEY, 'MyName', 'my.name', '123-abc')}",)
    return faults


def label_value(text: str) -> tuple[str, ...]:
    """A label value; may be empty."""
    faults = _too_long(text, LABEL_MAX, "bytes")
    return (
        faults
        if _value.fullmatch(text)
        else (*faults, _broken_rule(_VALUE_RULE, _VALUE, "MyValue", "my_value", "12345"))
    )


def c_identifier(text: str) -> tuple[str, ...]:
    """An identifier as in C; its length is the caller's rule."""
    return (
        ()
        if _identifier.fullmatch(text)
        else (_broken_rule(_IDENTIFIER_RULE, _IDENTIFIER, "my_name", "MY_NAME", "MyName"),)
    )


def without_trailing_dash(prefix: str) -> str:
    """A ``generateName`` as its syntax is checked: a final dash is fine because something follows it.

    As upstream, the character before that dash is not checked.
    """
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def _too_long(text: str, limit: int, unit: Unit) -> tuple[str, ...]:
    return (f"must be no more than {limit} {unit}",) if byte_length(text) > limit else ()


def _broken_rule(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"
