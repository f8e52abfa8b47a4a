"""Parser for IP addresses and prefixes, with the grammar and the error messages of Go's ``net/netip``.

IPv4   : octet "." octet "." octet "." octet              octets without leading zeros
IPv6   : group (":" group)* ["%" zone]                    one "::" for one or more groups of zeros, the last two groups
                                                          may be an IPv4 address
prefix : address "/" length
"""

from __future__ import annotations

import ipaddress
import re
from typing import NoReturn

from virt_dra.api.go_text import quoted

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_GROUP = re.compile(r"[0-9a-fA-F]*")
_LENGTH = re.compile(r"[0-9]|[1-9][0-9]+")
_GROUPS = 8


class InvalidAddress(ValueError):
    """A text that is not an address or prefix; the message is Go's."""


def parse_address(text: str) -> tuple[IPAddress, str]:
    """The address and its zone, empty if it has none. Raises InvalidAddress."""
    first = next((character for character in text if character in ".:%"), "")
    if first == ".":
        return ipaddress.IPv4Address(bytes(_octets(text, text))), ""
    if first != ":":
        _fail(text, "missing IPv6 address" if first else "unable to parse IP")
    return _ipv6(text)


def parse_prefix(text: str) -> tuple[IPAddress, int]:
    """The address and the length of the prefix. Raises InvalidAddress."""
    where = f"netip.ParsePrefix({quoted(text)}): "
    head, slash, length = text.rpartition("/")
    if not slash:
        raise InvalidAddress(f"{where}no '/'")
    try:
        address, zone = parse_address(head)
    except InvalidAddress as error:
        raise InvalidAddress(f"{where}{error}") from None
    if zone:
        raise InvalidAddress(f"{where}IPv6 zones cannot be present in a prefix")
    if _LENGTH.fullmatch(length) is None or len(length) > 18:
        raise InvalidAddress(f"{where}bad bits after slash: {quoted(length)}")
    if int(length) > address.max_prefixlen:
        raise InvalidAddress(f"{where}prefix length out of range")
    return address, int(length)


def _fail(text: str, message: str, at: str = "") -> NoReturn:
    raise InvalidAddress(f"ParseAddr({quoted(text)}): {message}" + (f" (at {quoted(at)})" if at else ""))


def _octets(whole: str, text: str) -> list[int]:
    """The four numbers of an IPv4 address, which is the end of ``whole``."""
    octets: list[int] = []
    digits = ""
    for place, character in enumerate(text):
        if "0" <= character <= "9":
            if digits == "0":
                _fail(whole, "IPv4 field has octet with leading zero")
            digits += character
            if int(digits) > 255:
                _fail(whole, "IPv4 field has value >255")
        elif character == ".":
            if not digits or place == len(text) - 1:
                _fail(whole, "IPv4 field must have at least one digit", text[place:])
            if len(octets) == 3:
                _fail(whole, "IPv4 address too long")
            octets.append(int(digits))
            digits = ""
        else:
            _fail(whole, "unexpected character", text[place:])
    if len(octets) < 3:
        _fail(whole, "IPv4 address too short")
    return [*octets, int(digits)]


def _ipv6(text: str) -> tuple[IPAddress, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        _fail(text, "zone must be a non-empty string")
    groups: list[int] = []
    gap: int | None = None
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
    while rest and len(groups) < _GROUPS:
        match = _GROUP.match(rest)
        digits = match.group() if match is not None else ""
        if len(digits) > 4:
            _fail(text, "each group must have 4 or less digits", rest)
        if not digits:
            _fail(text, "each colon-separated field must have at least one digit", rest)
        if rest[len(digits) :].startswith("."):
            groups += _embedded(text, rest, len(groups), gap)
            rest = ""
            break
        groups.append(int(digits, 16))
        rest = rest[len(digits) :]
        if not rest:
            break
        if rest[0] != ":":
            _fail(text, "unexpected character, want colon", rest)
        if rest == ":":
            _fail(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if gap is not None:
                _fail(text, "multiple :: in address", rest)
            gap, rest = len(groups), rest[1:]
    if rest:
        _fail(text, "trailing garbage after address", rest)
    if len(groups) < _GROUPS:
        if gap is None:
            _fail(text, "address string too short")
        groups[gap:gap] = [0] * (_GROUPS - len(groups))
    elif gap is not None:
        _fail(text, "the :: must expand to at least one field of zeros")
    return ipaddress.IPv6Address(b"".join(group.to_bytes(2, "big") for group in groups)), zone


def _embedded(text: str, rest: str, before: int, gap: int | None) -> list[int]:
    """The two groups that an IPv4 address at the end stands for."""
    if gap is None and before != _GROUPS - 2:
        _fail(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if before > _GROUPS - 2:
        _fail(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    first, second, third, fourth = _octets(text, rest)
    return [first << 8 | second, third << 8 | fourth]
