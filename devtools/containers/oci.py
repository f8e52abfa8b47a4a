"""Reads an image from its OCI archive: what it runs, its sizes, the packages in it."""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_DPKG: Final = "var/lib/dpkg/status"
_RELEASE: Final = "usr/lib/os-release"
_METADATA: Final = re.compile(r"opt/virt-dra/lib/python[\d.]+/site-packages/[^/]+\.dist-info/METADATA")
_CHUNK: Final = 1 << 20


class NoImage(ValueError):
    """A file that is no OCI archive of one image."""


@dataclass(frozen=True, order=True)
class InstalledPackage:
    """A package of Debian's or Python's in an image. ``source``: Debian's source package; "" where it has the package's
    own name."""

    name: str
    version: str
    architecture: str = ""
    source: str = ""


@dataclass(frozen=True)
class ImageSizes:
    """Bytes: as a registry stores and sends the image, and of its layers unpacked."""

    compressed: int
    uncompressed: int


class ImageArchive:
    """An OCI archive (``buildah push … oci-archive:``, ``podman save --format oci-archive``). Raises
    :class:`NoImage`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with tarfile.open(path) as archive:
                (entry,) = json.load(_member(archive, "index.json"))["manifests"]
                self.digest: str = entry["digest"]
                self._manifest: dict[str, Any] = json.load(_member(archive, _blob(self.digest)))
                self._config: dict[str, Any] = json.load(_member(archive, _blob(self._manifest["config"]["digest"])))
        except (tarfile.TarError, KeyError, ValueError) as error:
            raise NoImage(f"{path} is no OCI archive of one image: {error}") from None

    @property
    def user(self) -> str:
        """As the Containerfile's USER says it."""
        return str(self._config["config"].get("User", ""))

    @property
    def architecture(self) -> str:
        return str(self._config["architecture"])

    def argv(self, command: tuple[str, ...] = (), arguments: tuple[str, ...] = ()) -> tuple[str, ...]:
        """What a container runs whose pod says this: a command replaces the entry point and the image's arguments,
        arguments the latter."""
        entry_point = command or tuple(self._config["config"].get("Entrypoint") or ())
        return (*entry_point, *(arguments or (() if command else tuple(self._config["config"].get("Cmd") or ()))))

    def sizes(self) -> ImageSizes:
        compressed = sum(layer["size"] for layer in self._manifest["layers"]) + self._manifest["config"]["size"]
        return ImageSizes(compressed, sum(self._unpacked()))

    def _unpacked(self) -> Iterator[int]:
        for layer in self._layers():
            size = 0
            while chunk := layer.read(_CHUNK):
                size += len(chunk)
            yield size

    def _layers(self) -> Iterator[gzip.GzipFile]:
        for layer in self._manifest["layers"]:
            with tarfile.open(self.path) as archive, gzip.open(_member(archive, _blob(layer["digest"]))) as content:
                yield content

    def names(self) -> frozenset[str]:
        """The paths of all layers, without a leading slash; also of what a later layer removes."""
        paths: set[str] = set()
        for layer in self._layers():
            with tarfile.open(fileobj=layer, mode="r|") as files:
                paths.update(str(PurePosixPath(member.name)) for member in files)
        return frozenset(paths)

    def files(self, wanted: Callable[[str], object]) -> dict[str, bytes]:
        """The content of regular files whose path, without a leading slash, is wanted, as a container sees them."""
        contents: dict[str, bytes] = {}
        for layer in self._layers():
            with tarfile.open(fileobj=layer, mode="r|") as members:
                for member in members:
                    path = PurePosixPath(member.name)
                    if path.name.startswith(_WHITEOUT):
                        gone = str(
                            path.parent if path.name == _OPAQUE else path.with_name(path.name.removeprefix(_WHITEOUT))
                        )
                        contents = {
                            name: content
                            for name, content in contents.items()
                            if name != gone and not name.startswith(f"{gone}/")
                        }
                    elif member.isreg() and wanted(str(path)):
                        content = members.extractfile(member)
                        contents[str(path)] = content.read() if content is not None else b""
        return contents

    def packages(self) -> Packages:
        """What is installed in it, by what the installers left there."""
        files = self.files(lambda name: name in (_DPKG, _RELEASE) or _METADATA.fullmatch(name))
        status, release = (files.pop(name, b"").decode("utf-8") for name in (_DPKG, _RELEASE))
        version = re.search(r'^VERSION_ID="?([^"\n]+)', release, re.MULTILINE)
        return Packages(
            version[1] if version else "", debian_packages(status), tuple(sorted(map(_python, files.values())))
        )


@dataclass(frozen=True)
class Packages:
    """``release``: of Debian, as "13"."""

    release: str
    debian: tuple[InstalledPackage, ...]
    python: tuple[InstalledPackage, ...]


def debian_packages(status: str) -> tuple[InstalledPackage, ...]:
    """The installed packages of dpkg's status file, sorted."""
    packages = []
    for paragraph in status.strip().split("\n\n"):
        fields = HeaderParser().parsestr(paragraph)
        if fields.get("Status") == "install ok installed":
            # "Source: glibc (2.41-1)" where the version differs, too.
            source = (fields.get("Source") or "").partition(" ")[0]
            packages.append(InstalledPackage(fields["Package"], fields["Version"], fields["Architecture"], source))
    return tuple(sorted(packages))


def _python(metadata: bytes) -> InstalledPackage:
    fields = HeaderParser().parsestr(metadata.decode("utf-8"))
    return InstalledPackage(re.sub(r"[-_.]+", "-", fields["Name"]).lower(), fields["Version"])


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    content = archive.extractfile(name)
    if content is None:
        raise KeyError(name)
    return content
