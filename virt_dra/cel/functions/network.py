"""Kubernetes' ip and cidr libraries (L-2.8)."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from virt_dra.api.go_text import quoted
from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.functions.addresses import InvalidAddress, IPAddress, parse_address, parse_prefix
from virt_dra.cel.functions.registry import Library

library = Library()


@dataclass(frozen=True, slots=True)
class IP:
    """A value of type ``net.IP``: an address."""

    CEL_TYPE: ClassVar[str] = "net.IP"
    GO_TYPE: ClassVar[str] = "cel.IP"

    address: IPAddress

    def __str__(self) -> str:
        return str(self.address)

    def size(self) -> int:
        """Bytes of the address, for costs."""
        return self.address.max_prefixlen // 8


@dataclass(frozen=True, slots=True)
class CIDR:
    """``net.CIDR``: an address and how many of its leading bits count."""

    CEL_TYPE: ClassVar[str] = "net.CIDR"
    GO_TYPE: ClassVar[str] = "cel.CIDR"

    address: IPAddress
    length: int

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"

    def size(self) -> int:
        """Bytes that the prefix takes, for costs."""
        return -(-self.length // 8)

    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network((self.address, self.length), strict=False)


def _parse_ip(text: str) -> IP:
    try:
        address, zone = parse_address(text)
    except InvalidAddress as error:
        raise EvaluationError(f"IP Address {quoted(text)} parse error during conversion from string: {error}") from None
    if zone:
        raise EvaluationError(f"IP address {quoted(text)} with zone value is not allowed")
    if _is_mapped(address):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return IP(address)


def _parse_cidr(text: str) -> CIDR:
    where = "network address parse error during conversion from string: "
    try:
        address, length = parse_prefix(text)
    except InvalidAddress as error:
        raise EvaluationError(f"{where}{where}{error}") from None
    if _is_mapped(address):
        raise EvaluationError(f"{where}IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return CIDR(address, length)


def _is_mapped(address: IPAddress) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def _fits(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except EvaluationError:
        return False
    return True


library.define(
    {
        "ip(string) -> net.IP": _parse_ip,
        "isIP(string) -> bool": lambda text: _fits(_parse_ip, text),
        "ip.isCanonical(string) -> bool": lambda text: str(_parse_ip(text).address) == text,
        "cidr(string) -> net.CIDR": _parse_cidr,
        "isCIDR(string) -> bool": lambda text: _fits(_parse_cidr, text),
    },
    per_character=1.0,
    per_call=5.0,
)
library.define(
    {
        "string(net.IP) -> string": lambda value: str(value.address),
        "net.IP::family() -> int": lambda value: value.address.version,
        "net.IP::isUnspecified() -> bool": lambda value: value.address.is_unspecified,
        "net.IP::isLoopback() -> bool": lambda value: value.address.is_loopback,
        "net.IP::isLinkLocalUnicast() -> bool": lambda value: value.address.is_link_local,
        "string(net.CIDR) -> string": str,
        "net.CIDR::ip() -> net.IP": lambda value: IP(value.address),
        "net.CIDR::prefixLength() -> int": lambda value: value.length,
    }
)


@library.function("net.IP::isLinkLocalMulticast() -> bool")
def is_link_local_multicast(value: IP) -> bool:
    packed = value.address.packed
    return (
        packed[:3] == b"\xe0\x00\x00" if value.address.version == 4 else packed[0] == 0xFF and packed[1] & 0x0F == 0x02
    )


@library.function("net.IP::isGlobalUnicast() -> bool")
def is_global_unicast(value: IP) -> bool:
    address = value.address
    broadcast = address.version == 4 and address.packed == b"\xff\xff\xff\xff"
    return not (
        broadcast or address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    )


@library.function("net.CIDR::masked() -> net.CIDR", per_call=15.0)
def masked(value: CIDR) -> CIDR:
    return CIDR(value.network().network_address, value.length)


@library.function(
    "net.CIDR::containsIP(string) -> bool", "net.CIDR::containsIP(net.IP) -> bool", per_character=1.0, per_call=15.0
)
def contains_ip(value: CIDR, other: IP | str) -> bool:
    try:
        address = (_parse_ip(other) if isinstance(other, str) else other).address
    except EvaluationError:
        raise EvaluationError("no such overload") from None  # upstream doesn't say what is wrong with the address
    return address.version == value.address.version and address in value.network()


@library.function(
    "net.CIDR::containsCIDR(string) -> bool",
    "net.CIDR::containsCIDR(net.CIDR) -> bool",
    per_character=1.0,
    per_call=15.0,
)
def contains_cidr(value: CIDR, other: CIDR | str) -> bool:
    inner = _parse_cidr(other) if isinstance(other, str) else other
    return (
        inner.address.version == value.address.version
        and inner.length >= value.length
        and inner.address in value.network()
    )
