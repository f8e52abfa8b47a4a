"""Kubernetes' ip and cidr libraries (L-2.8)."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import ClassVar

from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.functions.registry import Library

library = Library()

_PREFIX = re.compile(r"0|[1-9][0-9]{0,2}")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class IP:
    """``net.IP``."""

    CEL_TYPE: ClassVar[str] = "net.IP"

    address: Address


@dataclass(frozen=True, slots=True)
class CIDR:
    """``net.CIDR``: an address and how many of its leading bits count."""

    CEL_TYPE: ClassVar[str] = "net.CIDR"

    address: Address
    length: int

    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network((self.address, self.length), strict=False)


def _parse_ip(text: str) -> Address:
    if "%" in text and ":" in text:
        raise EvaluationError(f'IP address "{text}" with zone value is not allowed')
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise EvaluationError(
            f'IP Address "{text}" parse error during conversion from string: ParseAddr("{text}"): unable to parse IP'
        ) from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def _parse_cidr(text: str) -> CIDR:
    head, slash, length = text.rpartition("/")
    if not slash or _PREFIX.fullmatch(length) is None:
        raise EvaluationError(
            f'network address parse error during conversion from string: netip.ParsePrefix("{text}"): no or bad prefix length'
        )
    address = _parse_ip(head)
    if int(length) > address.max_prefixlen:
        raise EvaluationError(
            f'network address parse error during conversion from string: netip.ParsePrefix("{text}"): prefix length out of range'
        )
    return CIDR(address, int(length))


@library.function("ip(string) -> net.IP")
def ip(text: str) -> IP:
    return IP(_parse_ip(text))


@library.function("isIP(string) -> bool")
def is_ip(text: str) -> bool:
    try:
        _parse_ip(text)
    except EvaluationError:
        return False
    return True


@library.function("ip.isCanonical(string) -> bool")
def is_canonical(text: str) -> bool:
    return str(_parse_ip(text)) == text


@library.function("string(net.IP) -> string")
def ip_text(value: IP) -> str:
    return str(value.address)


@library.function("net.IP::family() -> int")
def family(value: IP) -> int:
    return value.address.version


@library.function("net.IP::isUnspecified() -> bool")
def is_unspecified(value: IP) -> bool:
    return value.address.is_unspecified


@library.function("net.IP::isLoopback() -> bool")
def is_loopback(value: IP) -> bool:
    return value.address.is_loopback


@library.function("net.IP::isLinkLocalMulticast() -> bool")
def is_link_local_multicast(value: IP) -> bool:
    packed = value.address.packed
    return packed[:3] == b"\xe0\x00\x00" if value.address.version == 4 else packed[0] == 0xFF and packed[1] & 0x0F == 0x02


@library.function("net.IP::isLinkLocalUnicast() -> bool")
def is_link_local_unicast(value: IP) -> bool:
    return value.address.is_link_local


@library.function("net.IP::isGlobalUnicast() -> bool")
def is_global_unicast(value: IP) -> bool:
    address = value.address
    broadcast = address.version == 4 and address.packed == b"\xff\xff\xff\xff"
    return not (broadcast or address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)


@library.function("cidr(string) -> net.CIDR")
def cidr(text: str) -> CIDR:
    return _parse_cidr(text)


@library.function("isCIDR(string) -> bool")
def is_cidr(text: str) -> bool:
    try:
        _parse_cidr(text)
    except EvaluationError:
        return False
    return True


@library.function("string(net.CIDR) -> string")
def cidr_text(value: CIDR) -> str:
    return f"{value.address}/{value.length}"


@library.function("net.CIDR::ip() -> net.IP")
def cidr_ip(value: CIDR) -> IP:
    return IP(value.address)


@library.function("net.CIDR::masked() -> net.CIDR")
def masked(value: CIDR) -> CIDR:
    return CIDR(value.network().network_address, value.length)


@library.function("net.CIDR::prefixLength() -> int")
def prefix_length(value: CIDR) -> int:
    return value.length


@library.function("net.CIDR::containsIP(net.IP) -> bool", "net.CIDR::containsIP(string) -> bool")
def contains_ip(value: CIDR, other: IP | str) -> bool:
    address = _parse_ip(other) if isinstance(other, str) else other.address
    return address.version == value.address.version and address in value.network()


@library.function("net.CIDR::containsCIDR(net.CIDR) -> bool", "net.CIDR::containsCIDR(string) -> bool")
def contains_cidr(value: CIDR, other: CIDR | str) -> bool:
    inner = _parse_cidr(other) if isinstance(other, str) else other
    return inner.address.version == value.address.version and inner.length >= value.length and inner.address in value.network()
