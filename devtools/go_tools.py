"""Where the programs are that ``tools/go-tools.sh`` builds of other projects, and what becomes of a test that lacks
one."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

import pytest

from devtools import needs

_MODULES: Final = Path(__file__).parents[1] / "tools" / "go-tools"


def go_tool(module: str, program: str) -> Path:
    """A program of a module. Skips the test, with one line of advice, where it hasn't been built."""
    needs.use("go")
    sources = b"".join((_MODULES / module / file).read_bytes() for file in ("go.mod", "go.sum"))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "virt-dra/go-tools"
    path = cache / f"{module}-{hashlib.sha256(sources).hexdigest()[:16]}" / program
    if not os.access(path, os.X_OK):
        pytest.skip(f"no {program}: run tools/go-tools.sh (it needs Go)")
    return path
