"""Selectors are evaluated on devices in one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMPILING = {
    "virt_dra/cli/cel/command.py",  # an expression that a user types, with its cost
    "virt_dra/classic/validation/device_claims.py",  # whether an API server of 1.31 takes it
    "virt_dra/matching/facts.py",  # what a selector reads and wants
    "virt_dra/matching/matcher.py",
}


def _importers() -> Iterator[str]:
    for package in ("virt_dra", "webhooks", "launcher"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            if "compile_selector" not in text:
                continue
            imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
            if any(alias.name == "compile_selector" for node in imports for alias in node.names):
                yield path.relative_to(ROOT).as_posix()


def test_only_the_matcher_and_virt_dra_cel_compile_selectors() -> None:
    assert {path for path in _importers() if not path.startswith("virt_dra/cel/")} == COMPILING
    evaluating = {path for path in COMPILING if "selector.matches(" in (ROOT / path).read_text()}
    assert evaluating == {"virt_dra/matching/matcher.py"}
