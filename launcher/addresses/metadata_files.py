"""The address of a claim's device from its driver's metadata files, read as KubeVirt reads them (K-7.7 to K-7.13).

Files are a mapping from absolute path to text, which :func:`read_folder` reads from a container's file system.
Unlike in KubeVirt, names are never patterns and never lead out of the folder (K-7.13).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from virt_dra.api.core_v1 import PodResourceClaim
from virt_dra.api.integration.device_metadata import (
    BASE,
    BASE_1_8_0,
    DIRECT,
    FILE_SUFFIX,
    MDEV_UUID,
    METADATA_VERSION,
    PCI_BUS_ID,
    TEMPLATES,
)
from virt_dra.api.kubevirt_versions import V1_8_3, KubeVirtVersion
from virt_dra.api.wire import WireError

if TYPE_CHECKING:
    from virt_dra.api.integration.metadata_content import DeviceMetadata, MetadataDevice, MetadataRequest

Files = Mapping[str, str]
"""Absolute path in the compute container -> content."""

MAX_BYTES: Final = 1024 * 1024
"""Limit of one file. What a driver may publish about the devices of a claim takes some 100 KiB."""


class MetadataError(ValueError):
    """The metadata of a device can't be read; the text is KubeVirt's (K-7.10)."""


@dataclass(frozen=True)
class FileDevice:
    """The addresses of a request's one device in a metadata file. ``place``: the file's path."""

    place: str
    pci: str
    mdev: str


def device_of(
    files: Files, entries: tuple[PodResourceClaim, ...], claim: str, request: str, version: KubeVirtVersion
) -> FileDevice:
    """The device of a pod-local claim and request. Addresses are unchanged, "" for a missing one.

    ``entries``: ``spec.resourceClaims``; the first of a name counts. Raises :class:`MetadataError`.
    """
    entry = next((entry for entry in entries if entry.name == claim), None)
    if entry is None:
        raise MetadataError(f"metadata not found for claim {_quoted(claim)}")
    place, metadata = (_read if version >= V1_8_3 else _read_1_8_0)(files, entry, request)
    device = _only_device(metadata, request)
    return FileDevice(place, _text(device, PCI_BUS_ID), _text(device, MDEV_UUID))


def read_folder(root: Path) -> dict[str, str]:
    """Every metadata file below ``root``, which stands for the container's ``/``. Raises OSError.

    Invalid UTF-8 is read as replacement characters, so that it is later refused as JSON or as an address, in a message
    with the path.
    """
    return read_base(root / BASE.lstrip("/"), BASE) | read_base(root / BASE_1_8_0.lstrip("/"), BASE_1_8_0)


def read_base(folder: Path, base: str = BASE) -> dict[str, str]:
    """Every metadata file below a folder that stands for ``base``, by its path there. Raises OSError."""
    texts: dict[str, str] = {}
    for path in sorted(folder.glob(f"**/*{FILE_SUFFIX}")):
        # A downwardAPI volume keeps its files in a hidden folder, with links to them beside it.
        inside = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in inside.parts):
            with path.open("rb") as file:
                texts[f"{base}/{inside}"] = file.read(MAX_BYTES + 1).decode(errors="replace")
    return texts


def overlaid(files: Files, supplied: Files) -> dict[str, str]:
    """``files`` with each folder that has a supplied file replaced by the supplied files. An empty supplied file
    doesn't exist yet."""
    ready = {path: text for path, text in supplied.items() if text.strip()}
    replaced = {path.rpartition("/")[0] for path in ready}
    return {path: text for path, text in files.items() if path.rpartition("/")[0] not in replaced} | ready


def _read(files: Files, entry: PodResourceClaim, request: str) -> tuple[str, DeviceMetadata]:
    parent, name = (DIRECT, entry.resource_claim_name) if entry.resource_claim_name else (TEMPLATES, entry.name)
    _refuse_separators(name, request)
    folder = f"{BASE}/{parent}/{name}/{request}"
    matches = list(_in_folder(files, folder))
    asked = f"for claim {_quoted(name)} request {_quoted(request)}"
    if not matches:
        raise MetadataError(f"failed to read metadata {asked}: no files matching {folder}/*{FILE_SUFFIX}")
    if len(matches) > 1:
        limit = "KubeVirt only supports exactly one driver per request"
        raise MetadataError(f"found {len(matches)} metadata files {asked} but {limit}")
    return matches[0], _from_stream(matches[0], files[matches[0]])


def _read_1_8_0(files: Files, entry: PodResourceClaim, request: str) -> tuple[str, DeviceMetadata]:
    """K-7.11: a direct claim's first file; for a template's, the first file of any claim that names the entry,
    unparsable ones skipped."""
    _refuse_separators(entry.resource_claim_name or entry.name, request)
    if entry.resource_claim_name:
        for path in _in_folder(files, f"{BASE_1_8_0}/{entry.resource_claim_name}/{request}"):
            return path, _whole(path, files[path])
        asked = f"claim {_quoted(entry.resource_claim_name)} request {_quoted(request)}"
        raise MetadataError(f"metadata not found for {asked}")
    candidates = [path for path in files if _parts_1_8_0(path) == request]
    for path in sorted(candidates, key=lambda path: path.split("/")):
        try:
            metadata = _whole(path, files[path])
        except MetadataError:
            continue  # it may be another claim's
        if metadata.pod_claim_name == entry.name:
            return path, metadata
    reason = "with matching with pod claim name" if candidates else "for templateclaim"
    raise MetadataError(f"no metadata file found {reason} {_quoted(entry.name)} request {_quoted(request)}")


def _refuse_separators(*names: str) -> None:
    for name in names:
        if "/" in name or "\0" in name or name in ("", ".", ".."):
            raise MetadataError(f"{_quoted(name)} can't be part of a metadata file's path")


def _in_folder(files: Files, folder: str) -> Iterator[str]:
    return (path for path in sorted(files) if path.endswith(FILE_SUFFIX) and path.rpartition("/")[0] == folder)


def _parts_1_8_0(path: str) -> str | None:
    """The request of ``<base>/<claim>/<request>/<file>``; None for another path."""
    below = path.removeprefix(f"{BASE_1_8_0}/")
    parts = below.split("/")
    return parts[1] if below != path and len(parts) == 3 and path.endswith(FILE_SUFFIX) else None


def _from_stream(path: str, text: str) -> DeviceMetadata:
    """The first object of a known version in a stream of objects; the rest isn't parsed."""
    unknown: list[str] = []
    position = _skip(text, 0)
    while position < len(text):
        value, position = _value(path, text, position)
        version = value.get("apiVersion") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(version, str | None):
            raise MetadataError(f"{path}: decode metadata object: it must be an object with a text as apiVersion")
        if not version:
            raise MetadataError(f"{path}: decode metadata object: missing apiVersion")
        if version == METADATA_VERSION:
            return _decoded(path, value)
        unknown.append(version)
        position = _skip(text, position)
    if not unknown:
        raise MetadataError(f"{path}: no metadata objects found in stream")
    versions = f"(unknown versions: {', '.join(unknown)})"
    raise MetadataError(f"{path}: no compatible metadata version found in stream {versions}")


def _whole(path: str, text: str) -> DeviceMetadata:
    """The file as one object, of any version (K-7.11)."""
    value, end = _value(path, text, _skip(text, 0))
    if _skip(text, end) < len(text):
        raise MetadataError(f"{path}: decode metadata object: there is more than one object")
    return _decoded(path, value)


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _value(path: str, text: str, position: int) -> tuple[object, int]:
    if len(text) > MAX_BYTES:
        raise MetadataError(f"{path}: larger than {MAX_BYTES} bytes")
    try:
        return _DECODER.raw_decode(text, position)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise MetadataError(f"{path}: read object from metadata stream: {why}") from None


def _decoded(path: str, value: object) -> DeviceMetadata:
    from virt_dra.api.integration.metadata_content import DeviceMetadata  # here, as it imports resource.k8s.io's types

    try:
        return DeviceMetadata.from_wire(value)
    except WireError as error:
        raise MetadataError(f"{path}: decode {METADATA_VERSION}: {error}") from None


def _only_device(metadata: DeviceMetadata, request: str) -> MetadataDevice:
    of_request: MetadataRequest | None = next((item for item in metadata.requests if item.name == request), None)
    if of_request is None:
        names = " ".join(item.name for item in metadata.requests)
        where = f"metadata for claim {_quoted(metadata.metadata.name)} (available requests: [{names}])"
        raise MetadataError(f"request {_quoted(request)} not found in {where}")
    if not of_request.devices:
        raise MetadataError(f"request {_quoted(request)} has no devices")
    if len(of_request.devices) > 1:
        limit = "KubeVirt only supports exactly one device per request (count > 1 is not supported)"
        raise MetadataError(f"request {_quoted(request)} has {len(of_request.devices)} devices but {limit}")
    return of_request.devices[0]


def _text(device: MetadataDevice, attribute: str) -> str:
    value = device.attributes.get(attribute)
    return value.string or "" if value is not None else ""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_constant)
