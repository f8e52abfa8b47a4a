"""The Go programs that the benches measure against: built where Go and its modules are, else absent with the reason."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devtools import needs

SOURCES = Path(__file__).parent.parent / "devtools" / "upstream"


class NotAvailable(Exception):
    """There is no reference here; the text says why."""


@contextmanager
def built(program: str) -> Iterator[Path]:
    """The program of devtools/upstream/PROGRAM, in a folder that is gone afterwards. Raises :class:`NotAvailable`."""
    needs.use("go")
    if shutil.which("go") is None:
        raise NotAvailable("Go is not installed (https://go.dev/dl)")
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / program
        made = subprocess.run(
            ["go", "build", "-o", binary, "."], cwd=SOURCES / program, capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise NotAvailable(f"it can't be built: {(made.stderr.strip().splitlines() or ['go build failed'])[-1]}")
        yield binary
