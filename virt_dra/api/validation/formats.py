"""Formats of fields in several kinds, and limits of lists and maps (C-2.6, C-14).

Driver: 1-63 bytes, a subdomain ignoring case. Pool: 1-253 bytes, each part between slashes a subdomain. Qualified name:
``[driver/]identifier``, the identifier at most 32 bytes; fully qualified: with the slash.

Kubernetes checks some fields by hand and others by rules declared on the types; where both look, the declared rule's
words are the answer. The words differ, so there are two functions for some formats: ``declared_…`` has the declared
rule's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from virt_dra.api.meta import parse_time
from virt_dra.api.names import (
    byte_length,
    c_identifier,
    dns1123_label,
    dns1123_subdomain,
    dns1123_subdomain_caseless,
    label_key,
)
from virt_dra.api.quantity import Quantity
from virt_dra.api.validation.field_errors import (
    Errors,
    ErrorType,
    FieldError,
    duplicate,
    each_invalid,
    invalid,
    required,
    too_long,
    too_many,
)

T = TypeVar("T")

DRIVER_MAX = 63
POOL_MAX = 253
IDENTIFIER_MAX = 32
QUALIFIED_MAX = DRIVER_MAX + 1 + IDENTIFIER_MAX


def required_by(rule: Callable[[str, str], Errors], name: str, path: str) -> Errors:
    """The faults of a name that must be given."""
    return rule(name, path) if name else iter((required(path),))


def driver(name: str, path: str) -> Errors:
    if not name:
        yield required(path)
        return
    if byte_length(name) > DRIVER_MAX:
        yield too_long(path, DRIVER_MAX)
    yield from each_invalid(path, name, dns1123_subdomain(name.lower()))


def pool(name: str, path: str) -> Errors:
    if not name:
        yield required(path)
        return
    if byte_length(name) > POOL_MAX:
        yield too_long(path, POOL_MAX)
    for part in name.split("/"):
        yield from each_invalid(path, part, dns1123_subdomain(part))


def declared_driver(name: str, path: str, limit: int | None = DRIVER_MAX) -> Errors:
    """``limit``: in characters, and in bytes, as of the rule by hand. None: only that of a subdomain."""
    if not name:
        yield required(path)
        return
    yield from each_invalid(path, name, dns1123_subdomain_caseless(name))
    if limit is not None and len(name) > limit:
        yield FieldError(ErrorType.TOO_LONG, path, "", f"may not be more than {limit} characters")
    elif limit is not None and byte_length(name) > limit:
        yield too_long(path, limit)


def not_negative(quantity: Quantity | None, path: str) -> Errors:
    if quantity is not None and quantity.sign() < 0:
        yield invalid(path, quantity, "must be non-negative")


def declared_pool(name: str, path: str) -> Errors:
    """The faults of a pool's name that isn't absent: an empty one has one part, which is empty."""
    if byte_length(name) > POOL_MAX:
        yield too_long(path, POOL_MAX)
    for index, part in enumerate(name.split("/")):
        if part:
            yield from each_invalid(
                path, part, (f"segment {index}: {fault}" for fault in dns1123_subdomain(part, "bytes"))
            )
        else:
            yield invalid(path, name, f"segment {index}: must not be empty")


def label(name: str, path: str) -> Errors:
    yield from each_invalid(path, name, dns1123_label(name))


def declared_label(name: str, path: str) -> Errors:
    yield from each_invalid(path, name, dns1123_label(name, "bytes"))


def declared_subdomain(name: str, path: str) -> Errors:
    yield from each_invalid(path, name, dns1123_subdomain(name, "bytes"))


def subdomain(name: str, path: str) -> Errors:
    yield from each_invalid(path, name, dns1123_subdomain(name))


def label_name(name: str, path: str) -> Errors:
    yield from each_invalid(path, name, label_key(name))


def qualified_name(name: str, path: str) -> Errors:
    """Names with more than one slash pass, as they do in Kubernetes 1.37 (C-14.2, a defect there)."""
    return iter(()) if is_qualified_name(name) else _checked_qualified_name(name, path)


@lru_cache(maxsize=4096)
def is_qualified_name(name: str) -> bool:
    # Slices repeat the same few names thousands of times, hence the cache.
    return not any(_checked_qualified_name(name, ""))


def _checked_qualified_name(name: str, path: str) -> Errors:
    parts = name.split("/")
    if len(parts) > 2:
        return
    if len(parts) == 2:
        if parts[0]:
            yield from driver(parts[0], path)
        else:
            yield invalid(path, "", "the domain must not be empty")
        if not parts[1]:
            yield invalid(path, "", "the name must not be empty")
            return
    yield from _identifier(parts[-1], path)


def _identifier(name: str, path: str) -> Errors:
    if byte_length(name) > IDENTIFIER_MAX:
        yield too_long(path, IDENTIFIER_MAX)
    yield from each_invalid(path, name, c_identifier(name))


def fully_qualified_name(name: str, path: str) -> Errors:
    """The declared rule, with none by hand beside it: unlike a qualified name's, its domain is in lower case."""
    parts = name.split("/")
    if len(parts) == 2:
        if not parts[0]:
            yield invalid(path, "", "prefix must not be empty")
        else:
            if byte_length(parts[0]) > DRIVER_MAX:
                yield too_long(path, DRIVER_MAX)
            yield from each_invalid(
                path, parts[0], (f"prefix: {fault}" for fault in dns1123_subdomain(parts[0], "bytes"))
            )
        if not parts[1]:
            yield invalid(path, "", "name must not be empty")
    if len(parts) <= 2 and (parts[-1] or len(parts) == 1):
        yield from _identifier(parts[-1], path)
    if "/" not in name:
        yield invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash")


_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def uid(value: str, path: str) -> Errors:
    """A UUID of RFC 4122 in its normal form."""
    if not _UUID.fullmatch(value):
        yield invalid(path, value, "must be a lowercase UUID in 8-4-4-4-12 format")


def time(text: str | None, path: str) -> Errors:
    """The fault of a malformed time, with the field's path. Kubernetes refuses it while decoding."""
    if text is None:
        return
    try:
        parse_time(text)
    except ValueError:
        yield invalid(path, text, "must be a time in RFC 3339, for example 2026-01-02T03:04:05Z")


def is_node_allocatable(resource: str) -> bool:
    """True for a node resource that devices may represent."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


# --- lists and maps -----------------------------------------------------------------------------------------------


def items(
    entries: Sequence[T], path: str, check: Callable[[T, str], Iterable[FieldError]], limit: int | None = None
) -> Errors:
    """The faults of every entry at ``path[i]``. A list over its limit is reported, and its entries are not checked."""
    if limit is not None and len(entries) > limit:
        yield too_many(path, len(entries), limit)
        return
    for index, entry in enumerate(entries):
        yield from check(entry, f"{path}[{index}]")


def unique_items(
    entries: Sequence[T],
    path: str,
    check: Callable[[T, str], Iterable[FieldError]],
    key: Callable[[T], Hashable],
    limit: int | None = None,
    shown: Callable[[T], object] | None = None,
) -> Errors:
    """The faults as :func:`items`, and of repeated keys. ``shown``: what the message shows for a repeated entry."""
    yield from items(entries, path, check, limit)
    if limit is not None and len(entries) > limit:
        return
    seen: set[Hashable] = set()
    for index, entry in enumerate(entries):
        if key(entry) in seen:
            yield duplicate(f"{path}[{index}]", shown(entry) if shown else key(entry))
        seen.add(key(entry))


def map_entries(
    values: Mapping[str, T],
    path: str,
    check_key: Callable[[str, str], Iterable[FieldError]],
    check: Callable[[T, str], Iterable[FieldError]],
    shown_key: int,
    limit: int | None = None,
) -> Errors:
    """The faults of keys, at the map's path, and of values, at ``path[key]``, the key cut to ``shown_key`` bytes."""
    if limit is not None and len(values) > limit:
        yield too_many(path, len(values), limit)
        return
    for key, value in values.items():
        yield from check_key(key, path)
        yield from check(value, f"{path}[{shortened(key, shown_key)}]")


def shortened(text: str, limit: int) -> str:
    """A text for a message, cut in the middle to ``limit`` (at least 16) bytes."""
    limit = max(limit, 16)
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= limit:
        return text
    remaining = limit - len("...")
    head, tail = raw[: (remaining + 1) // 2], raw[len(raw) - remaining // 2 :]
    return f"{head.decode('utf-8', 'replace')}...{tail.decode('utf-8', 'replace')}"
