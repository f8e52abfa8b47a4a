"""A disk that fills up: a small tmpfs in a mount namespace of its own, which goes with the command that uses it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from devtools import needs

_SCRIPT = """
set -e
mount -t tmpfs -o "$1" tmpfs "$2"
[ ! -d "$3" ] || cp -a "$3/." "$2"
rm -rf "$3"; mkdir "$3"
disk="$2"; copy="$3"; shift 3
set +e
"$@"
code=$?
cp -a "$disk/." "$copy"
exit $code
"""


@cache
def _unshare() -> tuple[str, ...]:
    """The way to a namespace that this user has; skips the test where there is none."""
    for way in (("unshare", "--mount"), ("unshare", "--map-root-user", "--mount")):
        try:
            ran = subprocess.run([*way, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False)
        except FileNotFoundError:
            break
        if ran.returncode == 0:
            return way
    pytest.skip("no mount namespace: run as root, or allow user namespaces")


def on_a_disk(
    mount: Path, kept: Path, options: str, command: Sequence[str | Path], **given: Any
) -> subprocess.CompletedProcess[str]:
    """The command while ``mount`` is a disk with such options (``size=16k``, ``nr_inodes=8``).

    It begins with what the folder ``kept`` has, and its content is there afterwards.
    """
    needs.use("root")
    mount.mkdir(exist_ok=True)
    whole = [*_unshare(), "sh", "-c", _SCRIPT, "sh", options, str(mount), str(kept), *map(str, command)]
    return subprocess.run(whole, capture_output=True, text=True, check=False, timeout=120, **given)
