"""axe-core, which finds what of a page WCAG doesn't allow: ``python -m devtools.axe`` gets it by npm, into a cache.

Its licence (MPL-2.0) and size (550 KB) are reasons to keep it out of the repository.
"""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

VERSION: Final = "4.10.3"
_INTEGRITY: Final = "Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="
"""SHA-512 of npm's package, as its registry says."""
_CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "virt-dra" / f"axe-core-{VERSION}.js"


def axe_script() -> str | None:
    """The script, None where it isn't in the cache."""
    return _CACHE.read_text(encoding="utf-8") if _CACHE.exists() else None


def fetch() -> None:
    """Gets the package by npm. Raises OSError, CalledProcessError; ValueError for another package than the pinned
    one."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", f"axe-core@{VERSION}"], cwd=folder, check=True, timeout=300)
        package = Path(folder) / f"axe-core-{VERSION}.tgz"
        digest = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
        if digest != _INTEGRITY:
            raise ValueError(f"axe-core {VERSION} has another digest: {digest}")
        with tarfile.open(package) as archive:
            script = archive.extractfile("package/axe.min.js")
            assert script is not None
            _CACHE.parent.mkdir(parents=True, exist_ok=True)
            _CACHE.write_bytes(script.read())


if __name__ == "__main__":
    if axe_script() is None:
        fetch()
    sys.stdout.write(f"{_CACHE}\n")
