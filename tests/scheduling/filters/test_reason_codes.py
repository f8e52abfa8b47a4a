"""Every reason code of a filter has a distance, and with it a page: tests/simulator/explaining/test_reason_pages.py
compares pages with the codes that have one."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Final

import pytest

from virt_dra.scheduling import filters
from virt_dra.scheduling.why.distance import NODE_REASONS

MODULES: Final = sorted(path for path in Path(filters.__path__[0]).glob("*.py") if path.stem != "__init__")


def _codes(path: Path) -> set[str]:
    """The codes that a module passes to a FilterRefusal or a Reason: constants by their name, which it has."""
    module = importlib.import_module(f"{filters.__name__}.{path.stem}")
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    passed = [keyword.value for call in calls for keyword in call.keywords if keyword.arg == "code"]
    passed += [call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Reason"]
    return {getattr(module, code.id) if isinstance(code, ast.Name) else ast.literal_eval(code) for code in passed}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_each_code_of_a_filter_has_a_distance(path: Path) -> None:
    assert _codes(path) <= NODE_REASONS


def test_the_codes_are_seen() -> None:
    assert set().union(*map(_codes, MODULES)) >= {
        "HostPortTaken",
        "InsufficientResources",
        "NodeAffinityMismatch",
        "NodeTainted",
        "NodeUnschedulable",
        "PodAffinityMismatch",
        "TopologySpreadMismatch",
    }
