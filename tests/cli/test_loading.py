"""What a command costs before its work begins: modules that it has no use for, and garbage collections."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
_WATCHED = """
import atexit, gc, sys
objects = []
gc.callbacks.append(lambda phase, info: objects.append(len(gc.get_objects())) if phase == "stop" else None)
from virt_dra.cli.start import main
atexit.register(lambda: print(sorted({slow}.intersection(sys.modules)), max(objects, default=0) < 40_000))
main()
"""
"""Prints which slow modules were imported, and whether all collections were of fewer objects than a program has."""
SLOW = {"asyncio", "http.client", "multiprocessing", "ssl", "urllib.request"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["lint", "-f", "examples/gpu-pci"],
        ["allocate", "-f", "examples/gpu-pci"],
        ["diff", "examples/explain/cluster.yaml", "examples/diff/after.yaml"],
        ["explain", "vmi", "team-a/vm-b", "-f", "examples/explain/cluster.yaml"],
        ["get", "devices", "-f", "examples/inventory/cluster.yaml"],
        ["topology", "-f", "examples/inventory/cluster.yaml"],
        ["schema"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_on_files_import_no_clients_and_never_traverse_the_program(arguments: Sequence[str]) -> None:
    program = [sys.executable, "-c", _WATCHED.format(slow=SLOW), *arguments]
    watched = subprocess.run(program, check=False, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert watched.stdout.splitlines()[-1] == "[] True"
