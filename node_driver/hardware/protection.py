"""Which PCI functions the node itself needs: its disks, its console, its interfaces (D-39, D-45, D-62).

What the kernel says of mounts, routes, addresses and consoles names block devices and interfaces; sysfs says on which
functions these are. Where mounts or routes aren't known, every disk or interface is taken for needed. The one reading
for what is published, and for what is unbound.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from node_driver.hardware.file_tree import FileTree, UnreadableFile

_LIST_MAX: Final = 4 * 1024 * 1024
"""Bytes of a list of mounts or routes."""
_ADDRESS_IN_PATH: Final = re.compile(r"(?<=/)[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](?=/|$)")
_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_DEPTH_MAX: Final = 16
"""Levels of devices on devices: encryption on LVM on RAID on partitions are four."""
_LINK_LOCAL: Final = ("fe8", "fe9", "fea", "feb", "ff")
_LOOPBACK: Final = "lo"
_IFF_UP: Final = 1
_NO_DISK: Final = "0:"
"""Of device numbers that stand for no device: of file systems in memory, and of those on several disks."""
_UNKNOWN_DISKS: Final = frozenset(("zfs", "bcachefs"))
"""File systems on several disks, which the list of mounts doesn't name."""

_INODE: Final = re.compile(r"-\d+$")
"""What follows a device in the name of a journal of ext4 that is a file on it; an external one is a device alone."""

Use = tuple[str, str]
"""The path of a device in sysfs, and the sentence why the node needs it."""


def needed_functions(sysfs: FileTree, proc: FileTree, addressed: Collection[str] = ()) -> Mapping[str, str]:
    """Address -> why the node needs that function, in words that follow its address: ``has the disk sda, …``.
    ``addressed``: interfaces with an IPv4 address, of which the trees say nothing."""
    reasons: dict[str, str] = {}
    for path, reason in (*_disks(sysfs, proc), *_interfaces(sysfs, proc, addressed), *_consoles(sysfs, proc)):
        for address in _functions(sysfs, path):
            reasons.setdefault(address, reason)
    return reasons


def _functions(sysfs: FileTree, path: str) -> Iterator[str]:
    """All functions on the way to a device: controllers, and what they are behind. Of a VF also its PF, whose driver
    it depends on."""
    for address in _ADDRESS_IN_PATH.findall(path):
        yield address
        if parent := sysfs.link(f"bus/pci/devices/{address}/physfn"):
            yield parent


# --- disks --------------------------------------------------------------------------------------------------------


def _disks(sysfs: FileTree, proc: FileTree) -> Iterator[Use]:
    disks = sysfs.names("class/block")
    mounts = list(_mount_lists(proc))
    if not mounts:
        for name in disks:
            for path in _block_paths(sysfs, name):
                yield path, f"has the disk {name}, and which disks the node uses isn't known: its mounts can't be read"
        return
    numbers = {number: name for name in disks if (number := sysfs.optional_text(f"class/block/{name}/dev"))}
    mapped = {mapper: name for name in disks if (mapper := sysfs.optional_text(f"class/block/{name}/dm/name"))}
    for whose, mountinfo in mounts:
        for number, place, filesystem, source, options in _mounted(mountinfo):
            name = numbers.get(number) or _named(source, disks, mapped)
            if name:
                yield from _uses(sysfs, name, f"is mounted at {place}{whose}")
            elif filesystem in _UNKNOWN_DISKS:
                for disk in disks:
                    yield from _uses(sysfs, disk, f"may be of the {filesystem} mounted at {place}{whose}")
            for option, value in _pairs(options):
                if other := _named(value, disks, mapped):
                    yield from _uses(sysfs, other, f"is the {option} of what is mounted at {place}{whose}")
    for journal in proc.names("fs/jbd2"):
        name = journal if journal in disks else _INODE.sub("", journal)
        yield from _uses(sysfs, name, "has the journal of a mounted file system")
    for filesystem in sysfs.names("fs/btrfs"):
        for name in sysfs.names(f"fs/btrfs/{filesystem}/devices"):
            yield from _uses(sysfs, name, "is of a mounted btrfs")
    for line in (_list(proc, "swaps") or "").splitlines()[1:]:
        if (words := line.split()) and (name := _named(words[0], disks, mapped)):
            yield from _uses(sysfs, name, "is swap")
    for name in disks:
        for holder in sysfs.names(f"class/block/{name}/holders"):
            yield from _uses(sysfs, name, f"is part of {holder}")


def _mount_lists(proc: FileTree) -> Iterator[tuple[str, str]]:
    """Whose mounts, in words, and the list: the first process's, then one of each other mount namespace."""
    first = _list(proc, "1/mountinfo", "self/mountinfo")
    if first is None:
        return
    yield "", first
    namespaces = {proc.link("1/ns/mnt")}
    for process in filter(str.isdigit, proc.names(".")):
        namespace = proc.link(f"{process}/ns/mnt")
        if namespace and namespace not in namespaces and (mounts := _list(proc, f"{process}/mountinfo")) is not None:
            namespaces.add(namespace)
            yield f" in the mount namespace of process {process}", mounts


def _uses(sysfs: FileTree, name: str, use: str) -> Iterator[Use]:
    for path in _block_paths(sysfs, name):
        yield path, f"has the disk {name}, which {use}"


def _mounted(mountinfo: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Device number, place, file system, source and the file system's options of each mount that may be of a disk."""
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        columns, sources = fields.split(), rest.split()
        if len(columns) < 5 or len(sources) < 2:
            continue
        number, filesystem, source = columns[2], sources[0], sources[1]
        if not number.startswith(_NO_DISK) or filesystem in _UNKNOWN_DISKS or source.startswith("/dev/"):
            options = sources[2] if len(sources) > 2 else ""
            yield number, _unescaped(columns[4]), filesystem, _unescaped(source), options


def _pairs(options: str) -> Iterator[tuple[str, str]]:
    """The options that have a value. XFS names its external log and its real-time device so: ``logdev=/dev/sdb1``."""
    for option in options.split(","):
        name, _, value = option.partition("=")
        if value:
            yield name, _unescaped(value)


def _unescaped(text: str) -> str:
    """Without the kernel's escapes for blanks."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def _named(source: str, disks: Iterable[str], mapped: Mapping[str, str]) -> str:
    """The block device behind a path in /dev; "" if it isn't one."""
    if not source.startswith("/dev/"):
        return ""
    name = source.removeprefix("/dev/")
    if name.startswith("mapper/"):
        return mapped.get(name.removeprefix("mapper/"), "")
    name = name.replace("/", "!")  # as sysfs writes it: cciss!c0d0
    return name if name in disks else ""


def _block_paths(sysfs: FileTree, name: str) -> Iterator[str]:
    """The paths of the devices that a block device is on: its own, and those of what it is made of."""
    pending, seen = [(name, 0)], {name}
    while pending:
        block, depth = pending.pop()
        path = sysfs.resolved(f"class/block/{block}") or ""
        yield path
        if "/nvme-subsystem/" in path:  # several paths to one namespace: the subsystem lists its controllers
            subsystem = path.partition("/nvme-subsystem/")[2].split("/")[0]
            folder = f"class/nvme-subsystem/{subsystem}"
            yield from filter(None, (sysfs.resolved(f"{folder}/{link}") for link in sysfs.names(folder)))
        below = {*sysfs.names(f"{path}/slaves"), *(sysfs.names(f"{path}/../slaves") if path else ())}
        for part in sorted(below - seen) if depth < _DEPTH_MAX else ():
            seen.add(part)
            pending.append((part, depth + 1))


# --- interfaces ---------------------------------------------------------------------------------------------------


def _interfaces(sysfs: FileTree, proc: FileTree, addressed: Collection[str]) -> Iterator[Use]:
    routes4 = _list(proc, "1/net/route", "net/route")
    routes6 = _list(proc, "1/net/ipv6_route", "net/ipv6_route")
    if routes4 is None and routes6 is None:
        for name in sysfs.names("class/net"):
            reason = (
                f"has the interface {name}, and which interfaces the node uses isn't known: its routes can't be read"
            )
            yield from ((path, reason) for path in _interface_paths(sysfs, name))
        return
    routed = {**dict(_routes6(routes6 or "")), **dict(_routes4(routes4 or ""))}
    for name, route in routed.items():
        for path in _interface_paths(sysfs, name):
            yield path, f"carries the node's {route}, through the interface {name}"
    addressed6 = _addressed6(_list(proc, "1/net/if_inet6", "net/if_inet6") or "")
    for name in sorted({*addressed, *addressed6} - {_LOOPBACK, *routed}):
        if _is_up(sysfs.optional_text(f"class/net/{name}/flags")):
            for path in _interface_paths(sysfs, name):
                yield path, f"has an address of the node's, at the interface {name}"
    for name in sysfs.names("class/net"):
        if master := sysfs.link(f"class/net/{name}/master"):
            for path in _interface_paths(sysfs, name):
                yield path, f"has the interface {name}, which is a port of {master}"


def _addressed6(text: str) -> Iterator[str]:
    """The interfaces with an IPv6 address beyond their link."""
    for columns in map(str.split, text.splitlines()):
        if len(columns) > 5 and not columns[0].startswith(_LINK_LOCAL):
            yield columns[5]


def _is_up(flags: str) -> bool:
    try:
        return bool(int(flags, 16) & _IFF_UP)
    except ValueError:
        return False


def _routes4(text: str) -> Iterator[tuple[str, str]]:
    """Interface and route of each row, a default route last."""
    rows = [columns for line in text.splitlines()[1:] if len(columns := line.split()) > 7]
    for columns in sorted(rows, key=lambda columns: columns[1] == columns[7] == "00000000"):
        yield columns[0], "default route" if columns[1] == columns[7] == "00000000" else "route"


def _routes6(text: str) -> Iterator[tuple[str, str]]:
    rows = [columns for line in text.splitlines() if len(columns := line.split()) > 9]
    for columns in sorted(rows, key=lambda columns: columns[1] == "00"):
        if not columns[0].startswith(_LINK_LOCAL) and columns[9] != _LOOPBACK:
            yield columns[9], "default route" if columns[1] == "00" else "route"


def _interface_paths(sysfs: FileTree, name: str) -> Iterator[str]:
    """The paths of the devices that an interface sends through: its own, and those of its lower interfaces (bond,
    bridge, VLAN)."""
    pending, seen = [name], {name}
    while pending and len(seen) <= 1024:
        folder = sysfs.resolved(f"class/net/{pending.pop()}")
        if folder is None:
            continue
        yield folder
        lower = {entry.removeprefix("lower_") for entry in sysfs.names(folder) if entry.startswith("lower_")}
        lower.update(sysfs.names(f"{folder}/brif"))
        pending += sorted(lower - seen)
        seen |= lower


# --- consoles -----------------------------------------------------------------------------------------------------


def _consoles(sysfs: FileTree, proc: FileTree) -> Iterator[Use]:
    for address in sysfs.names("bus/pci/devices"):
        if sysfs.optional_text(f"bus/pci/devices/{address}/boot_vga") == "1":
            yield f"/{address}", "is the node's console: the firmware's boot display"
    for name in sysfs.names("class/graphics"):
        if name.startswith("fb") and (path := sysfs.resolved(f"class/graphics/{name}")):
            yield path, f"is the node's console: it has the framebuffer {name}"
    for line in (_list(proc, "consoles") or "").splitlines():
        if (words := line.split()) and (path := sysfs.resolved(f"class/tty/{words[0]}")):
            yield path, f"is the node's console: it has {words[0]}"


# --- files --------------------------------------------------------------------------------------------------------


def _list(proc: FileTree, *paths: str) -> str | None:
    """The text of the first of the files that can be read; None if none can."""
    for path in paths:
        try:
            text = proc.text(path, _LIST_MAX)
        except UnreadableFile:
            continue
        if text is not None:
            return text
    return None
