"""Where built images are: in a cache outside of the repository, by the content that goes into them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from devtools import needs

ROOT: Final = Path(__file__).parents[2]
TARGETS: Final = ("virt-dra", "virt-dra-launcher")
"""The images, which are the Containerfile's last stages."""
SCRIPT: Final = "tools/image.sh"
ADVICE: Final = (
    f"the images of this source aren't built: run {SCRIPT} (make image) as root, "
    "with apt or buildah, mmdebstrap, containerd and runc"
)
_CONTAINERFILE: Final = "Containerfile"
_DERIVED: Final = ("__pycache__", ".egg-info")


def cache() -> Path:
    """The folder of built images and of what builds them."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "virt-dra" / "images"


def copied(containerfile: str) -> tuple[str, ...]:
    """The paths of the repository that a Containerfile copies into an image, in its order."""
    paths: list[str] = []
    for line in containerfile.splitlines():
        instruction, *words = line.split() or [""]
        if instruction == "COPY" and not words[0].startswith("--from="):
            paths.extend(words[:-1])
    return tuple(paths)


def key(root: Path = ROOT) -> str:
    """The name of the content that goes into the images: another one for any change of a file that is copied, or of how
    it is built."""
    digest = hashlib.sha256()
    recipe = (_CONTAINERFILE, "devtools/containers/building.py")
    for name in (*recipe, *copied((root / _CONTAINERFILE).read_text(encoding="utf-8"))):
        for path in _files(root / name):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(root)}\0{path.stat().st_mode & 0o111:o}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()[:16]


def _files(path: Path) -> Iterator[Path]:
    """The file itself, or all files of a folder but for those that Python makes of others."""
    if not path.is_dir():
        yield path
        return
    for child in sorted(path.iterdir()):
        if not child.name.endswith(_DERIVED) and not (child.is_symlink() and child.is_dir()):
            yield from _files(child)


def archives(root: Path = ROOT) -> dict[str, Path]:
    """The OCI archive of each image, where this content has been built; else none."""
    folder = cache() / key(root)
    paths = {target: folder / f"{target}.tar" for target in TARGETS}
    return paths if all(path.exists() for path in paths.values()) else {}


def require() -> dict[str, Path]:
    """The archives. Skips the test, with one line of advice, where they aren't built of this content: make test doesn't
    build them, since that takes minutes and programs that a machine for tests may not have."""
    needs.use("images")
    built = archives()
    if not built:
        pytest.skip(ADVICE)
    return built
