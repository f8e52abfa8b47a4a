"""Kubernetes' url library (L-2.8): URLs, their parts, and error messages as of Go's ``net/url``.

Inside, text is Latin-1 over the bytes of UTF-8, because escapes stand for bytes.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass, field
from typing import ClassVar

from virt_dra.api.go_text import quoted
from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.functions.addresses import InvalidAddress, parse_address
from virt_dra.cel.functions.registry import Library
from virt_dra.cel.values import Value

library = Library()

_PLAIN = string.ascii_letters + string.digits + "-_.~"
_USER = frozenset(_PLAIN + "$&+,;=")
_PATH = frozenset(_PLAIN + "$&+,;=:@/")
_HOST = frozenset(_PLAIN + "!$&'()*+,;=:[]<>\"")
_FRAGMENT = frozenset(_PLAIN + "$&+,;=:@/?!()*")
_AS_IT_IS = frozenset("!$&'()*+,;=:@[]%")
"""Characters, besides the safe ones, that Go leaves unescaped in a path or fragment if they were written so."""
_USERINFO = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_PORT = re.compile(r"(?::[0-9]*)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})?")
_MOST_PARAMETERS = 10000


class InvalidURL(ValueError):
    """A text that is no URL; the message is Go's without `parse "…": `."""


@dataclass(frozen=True, slots=True)
class URL:
    """A value of type ``kubernetes.URL``, compared by its text."""

    CEL_TYPE: ClassVar[str] = "kubernetes.URL"
    GO_TYPE: ClassVar[str] = "cel.URL"

    scheme: str = field(default="", compare=False)
    opaque: str = field(default="", compare=False)
    user: str | None = field(default=None, compare=False)
    host: str = field(default="", compare=False)
    path: str = field(default="", compare=False)
    """The path as written, with every character escaped that must be."""
    query: str = field(default="", compare=False)
    text: str = ""

    def __str__(self) -> str:
        return _decoded(self.text)


def _encoded(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _decoded(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "replace")


def _shown(text: str) -> str:
    return quoted(_decoded(text))


def _unescape(text: str, *, host: frozenset[str] | None = None, zone: bool = False, plus: str = "+") -> str:
    """The text with escapes resolved. A host allows only its own characters and escapes of non-ASCII bytes, a zone also
    escapes of ``host``."""

    def character(escape: re.Match[str]) -> str:
        digits = escape[1]
        if digits is None:
            raise InvalidURL(f"invalid URL escape {_shown(text[escape.start() : escape.start() + 3])}")
        code = int(digits, 16)
        if (
            host is not None
            and digits != "25"
            and not (zone and (chr(code) in host or code == 32))
            and (zone or code < 0x80)
        ):
            raise InvalidURL(f"invalid URL escape {quoted(escape.group())}")
        return chr(code)

    if host is not None:
        for place, letter in enumerate(text):
            if letter == "%" and _ESCAPE.match(text, place)[1] is None:  # type: ignore[index]  # it matches wherever there is a "%"
                break
            if letter < "\x80" and letter != "%" and letter not in host:
                raise InvalidURL(f"invalid character {quoted(letter)} in host name")
    if "%" not in text:
        return text.replace("+", plus)
    return _ESCAPE.sub(character, text.replace("+", plus))


def _escape(text: str, safe: frozenset[str]) -> str:
    return "".join(character if character in safe else f"%{ord(character):02X}" for character in text)


def _written(raw: str, unescaped: str, safe: frozenset[str]) -> str:
    """A path or fragment for output: as written if that is valid, else escaped anew."""
    if all(character in safe or character in _AS_IT_IS for character in raw):
        return raw
    return unescaped if unescaped == "*" and safe is _PATH else _escape(unescaped, safe)


def _scheme(text: str) -> tuple[str, str]:
    match = _SCHEME.match(text)
    if match is not None:
        return match[1].lower(), text[match.end() :]
    if text.startswith(":"):
        raise InvalidURL("missing protocol scheme")
    return "", text


def _host(scheme: str, text: str) -> str:
    opening = text.rfind("[")
    if opening > 0:
        raise InvalidURL("invalid IP-literal")
    if opening == 0:
        return _literal_host(text)
    first, last = text.find(":"), text.rfind(":")
    if first >= 0:
        port = text[first if scheme in ("http", "https") else last :]
        _check_port(port)
    return _unescape(text, host=_HOST)


def _check_port(text: str) -> None:
    if _PORT.fullmatch(text) is None:
        raise InvalidURL(f"invalid port {_shown(text)} after host")


def _literal_host(text: str) -> str:
    """The host of a URL that is written ``[IPv6]:port``."""
    closing = text.rfind("]")
    if closing < 0:
        raise InvalidURL("missing ']' in host")
    name, port = text[1:closing], text[closing + 1 :]
    _check_port(port)
    zone = name.find("%25")
    plain, scoped = (name, "") if zone < 0 else (name[:zone], name[zone:])
    name = _unescape(plain, host=_HOST) + _unescape(scoped, host=_HOST, zone=True)
    try:
        address, _ = parse_address(_decoded(name))
    except InvalidAddress as error:
        raise InvalidURL(f"invalid host: {error}") from None
    if address.version == 4:
        raise InvalidURL("invalid IP-literal")
    return f"[{name}]{port}"


def _authority(scheme: str, text: str) -> tuple[str | None, str]:
    userinfo, at, rest = text.rpartition("@")
    host = _host(scheme, rest)
    if not at:
        return None, host
    if _USERINFO.fullmatch(userinfo) is None:
        raise InvalidURL("net/url: invalid userinfo")
    name, colon, password = userinfo.partition(":")
    return _escape(_unescape(name), _USER) + colon + _escape(_unescape(password), _USER), host


def _parse(text: str, fragment: str, *, request: bool) -> URL:
    """The parts of a URL without its fragment; ``request``: an absolute URL or path, in which "#" has no meaning."""
    if _CONTROL.search(text):
        raise InvalidURL("net/url: invalid control character in URL")
    if not text and request:
        raise InvalidURL("empty url")
    if text == "*":
        return URL(path="*", text="*" + fragment)
    scheme, rest = _scheme(text)
    rest, mark, query = rest.partition("?")
    tail = mark + query + fragment
    if not rest.startswith("/"):
        if scheme:
            return URL(scheme, rest, query=query, text=f"{scheme}:{rest}{tail}")
        if request:
            raise InvalidURL("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise InvalidURL("first path segment in URL cannot contain colon")
    user: str | None = None
    host = start = ""
    if rest.startswith("//") and (scheme or not (request or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _authority(scheme, authority)
        named = (f"{user}@" if user is not None else "") + _escape(host, _HOST)
        start = f"//{named}" if named or rest else ""
    path = _written(rest, _unescape(rest), _PATH)
    return URL(scheme, "", user, host, path, query, (f"{scheme}:" if scheme else "") + start + path + tail)


def parse_url(text: str) -> URL:
    """Read an absolute URL or path. Raises InvalidURL with Go's whole message."""
    encoded = _encoded(text)
    shown = encoded
    try:
        _parse(encoded, "", request=True)
        before, mark, raw = encoded.partition("#")
        shown = before
        fragment = ""
        if raw:
            _parse(before, "", request=False)
            shown = encoded
            fragment = mark + _written(raw, _unescape(raw), _FRAGMENT)
            shown = before
        return _parse(before, fragment, request=False)
    except InvalidURL as error:
        raise InvalidURL(f"parse {_shown(shown)}: {error}") from None


def check_url(text: str) -> str:
    """The fault of a text as an absolute URL or path; empty if it is one."""
    encoded = _encoded(text)
    try:
        _parse(encoded, "", request=True)
    except InvalidURL as error:
        return f"parse {_shown(encoded)}: {error}"
    return ""


@library.function("url(string) -> kubernetes.URL", per_character=2.0, per_call=50.0)
def url(text: str) -> URL:
    try:
        return parse_url(text)
    except InvalidURL as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


@library.function("isURL(string) -> bool", per_character=2.0, per_call=50.0)
def is_url(text: str) -> bool:
    return not check_url(text)


def _host_and_port(value: URL) -> tuple[str, str]:
    name, colon, port = value.host.rpartition(":")
    if not colon or _PORT.fullmatch(f":{port}") is None:
        name, port = value.host, ""
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name, port


library.define(
    {
        "kubernetes.URL::getScheme() -> string": lambda value: value.scheme,
        "kubernetes.URL::getHost() -> string": lambda value: _decoded(value.host),
        "kubernetes.URL::getHostname() -> string": lambda value: _decoded(_host_and_port(value)[0]),
        "kubernetes.URL::getPort() -> string": lambda value: _host_and_port(value)[1],
        "kubernetes.URL::getEscapedPath() -> string": lambda value: _decoded(value.path),
    }
)


@library.function("kubernetes.URL::getQuery() -> map(string, list(string))")
def query(value: URL) -> dict[str, list[Value]]:
    parameters: dict[str, list[Value]] = {}
    parts = value.query.split("&")
    if len(parts) > _MOST_PARAMETERS:
        return parameters
    for part in parts:
        if not part or ";" in part:
            continue
        name, _, given = part.partition("=")
        try:
            name, given = _unescape(name, plus=" "), _unescape(given, plus=" ")
        except InvalidURL:
            continue  # as in Go, parameters that can't be parsed are left out
        parameters.setdefault(_decoded(name), []).append(_decoded(given))
    return parameters
