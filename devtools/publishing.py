"""What of a release is published beside the package: the Helm chart, and the plugin of kubectl with its manifest for
krew.

Made of a commit's files, with the addresses that only the releasing person knows; the same bytes for the same commit
and addresses.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from devtools.chart.files import semantic

CHART: Final = "chart/virt-dra"
PLUGIN: Final = "kubectl-virt_dra"
_IMAGES: Final[Mapping[str, str]] = {"image": "virt-dra", "launcherImage": "virt-dra-launcher"}
"""Values of the chart, and the images whose references they are."""
_CHOSEN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*")

CommitFile = Callable[[str], bytes]
"""The content of a file of the commit, by its path."""


class NotPublishable(Exception):
    """Why something can't be made, in one line."""


@dataclass(frozen=True)
class Addresses:
    """Where a release will be had. ``registry``: of its images, as in ``registry.example.com/virt-dra``; "" where they
    are in none. ``downloads``: the URL of the folder with its files; "" where there is none. ``homepage``: the URL of
    the project; "" for that of the downloads."""

    registry: str = ""
    downloads: str = ""
    homepage: str = ""

    def __post_init__(self) -> None:
        if self.registry and (not _CHOSEN.fullmatch(self.registry) or self.registry.endswith("/")):
            raise NotPublishable(f"{self.registry!r}: write a registry as in registry.example.com/virt-dra")
        for url in (self.downloads, self.homepage):
            if url and not re.fullmatch(r"https://[^\s\"'\\]+", url):
                raise NotPublishable(f"{url!r}: write a URL with https://")


NOT_PUBLISHED: Final = Addresses()


def chart_archive(
    file: CommitFile, names: list[str], python_version: str, addresses: Addresses, epoch: int
) -> tuple[str, bytes]:
    """The packed chart as ``helm package`` would name it, with the images' references as defaults. ``names``: the
    commit's files below :data:`CHART`."""
    files = {
        f"virt-dra/{PurePosixPath(name).relative_to(CHART)}": (file(name), False)
        for name in names
        if PurePosixPath(name).is_relative_to(CHART)
    }
    if addresses.registry:
        text = files["virt-dra/values.yaml"][0].decode()
        for value, image in _IMAGES.items():
            text, count = re.subn(
                rf"^{value}: ''$", f"{value}: {addresses.registry}/{image}:{python_version}", text, flags=re.MULTILINE
            )
            if count != 1:
                raise NotPublishable(f"{CHART}/values.yaml has no line of {value}")
        files["virt-dra/values.yaml"] = (text.encode(), False)
    return f"virt-dra-{semantic(python_version)}.tgz", _packed(files, epoch)


def plugin_archive(file: CommitFile, wheel: tuple[str, bytes], python_version: str, epoch: int) -> tuple[str, bytes]:
    """The plugin of kubectl: a script that makes a virtual environment of the locked packages, and the ``wheel`` (name,
    content)."""
    files = {
        PLUGIN: (file(f"krew/{PLUGIN}"), True),
        "requirements.txt": (file("requirements/image.txt"), False),
        "LICENSE": (file("LICENSE"), False),
        wheel[0]: (wheel[1], False),
    }
    return f"{PLUGIN}-{semantic(python_version)}.tar.gz", _packed(files, epoch)


def plugin_manifest(file: CommitFile, archive: str, sha256: str, python_version: str, addresses: Addresses) -> bytes:
    """krew's manifest of the plugin, whose archive has this name and checksum."""
    text = file("krew/virt-dra.yaml").decode().partition("\n")[2]  # without the comment on what is filled in
    filled = {
        "VERSION": semantic(python_version),
        "HOMEPAGE": addresses.homepage or addresses.downloads,
        "ADDRESS": f"{addresses.downloads.rstrip('/')}/{archive}",
        "SHA256": sha256,
    }
    return re.sub("|".join(filled), lambda mark: filled[mark[0]], text).encode()


def _packed(files: Mapping[str, tuple[bytes, bool]], epoch: int) -> bytes:
    """A .tar.gz without what differs between builds. ``files``: content, and whether it is a program."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, (content, program) in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), epoch, 0o755 if program else 0o644
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=epoch)
