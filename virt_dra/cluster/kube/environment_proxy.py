"""The proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name for a server, read as kubectl does.

Go's reading differs from that of Python's library: NO_PROXY may have networks, and a server on this machine is never
behind a proxy. Compared with Go's own package.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def environment_proxy(environ: Mapping[str, str], scheme: str, host: str, port: int) -> str:
    """A proxy's URL for a server of this scheme, "" for none. ``host``: as ASCII, a literal IPv6 address without []."""
    proxy = _variable(environ, f"{scheme}_proxy")
    if not proxy or _is_direct(host.lower(), port, _variable(environ, "no_proxy")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper(), "")


def _is_direct(host: str, port: int, no_proxy: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(entry, host, address, port) for entry in _entries(no_proxy))


def _entries(no_proxy: str) -> Iterator[str]:
    for entry in no_proxy.lower().split(","):
        if stripped := entry.strip():
            yield stripped


def _matches(entry: str, host: str, address: _Address | None, port: int) -> bool:
    """``entry``: ``*``, an address, a network, a domain with its subdomains, or after ``*.`` or a dot these alone."""
    if entry == "*":
        return True
    _, slash, length = entry.partition("/")
    if slash and length.isascii() and length.isdigit():
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    domain, of_port = _without_port(entry)
    if of_port not in ("", str(port)) or not domain:
        return False
    if (of_entry := _address(domain)) is not None or address is not None:
        return of_entry == address
    domain = domain.removeprefix("*") if domain.startswith("*.") else domain
    if domain.startswith("."):
        return host.endswith(_ascii(domain))
    return f".{host}".endswith(_ascii(f".{domain}"))


def _without_port(entry: str) -> tuple[str, str]:
    """Of ``host:port`` and ``[address]:port`` both; of anything else all of it."""
    host, colon, port = entry.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], port
    return (host, port) if colon and ":" not in host else (entry, "")


def _ascii(domain: str) -> str:
    try:
        return domain if domain.isascii() else domain[:1] + domain[1:].encode("idna").decode()
    except UnicodeError:
        return domain


def _address(text: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
