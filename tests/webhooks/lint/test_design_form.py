"""Nothing that the product says or shows proposes a claim in the design's form, ``claim: {name, request}``, which no
KubeVirt has (K-1.9): neither texts nor manifests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[3]
FORM: Final = re.compile(r"""["'`]?\bclaim["']?\s*:\s*\{|\bclaim:\n\s+(?:name|request):""")
MENTIONED: Final = re.compile(r"""\bclaim["'`]?\s*:""")
SAID_TO_BE_REFUSED: Final = {
    "virt_dra/api/reading/design_form.py": "docstring",
    "virt_dra/api/kubevirt_v1.py": "docstring",
    "virt_dra/cli/jsonl/admit.py": "says when it is read",
    "docs/lint/README.md": "So the design's `claim: {name, request}` is an unknown field",
    "docs/guides/run.md": "the design's `claim: {name, request}`, which an",
    "docs/guides/integration-paths.md": "the name of a case of a test",
}
"""Files that speak of it, and why."""
DEVICE_LISTS: Final = ("gpus", "hostDevices")


def _texts() -> Iterator[tuple[str, str]]:
    """What the product's programs may print, and what its pages say."""
    for package in ("virt_dra", "webhooks", "launcher", "node_driver"):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if MENTIONED.search(text) else ():
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield str(path.relative_to(ROOT)), node.value
                elif isinstance(node, ast.JoinedStr):
                    parts = (part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
                    yield str(path.relative_to(ROOT)), "".join(map(str, parts))
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    for path in pages:
        name = str(path.relative_to(ROOT))
        if not name.startswith(("docs/spec/", "docs/decisions/")):
            yield name, path.read_text(encoding="utf-8")


def _manifests() -> Iterator[tuple[str, Any]]:
    paths = [path for path in sorted((ROOT / "examples").rglob("*.yaml")) if "failing" not in path.parts]
    texts = [(path, path.read_text(encoding="utf-8")) for path in paths]
    for path in sorted((ROOT / "docs").rglob("*.md")):
        blocks = re.findall(r"```yaml\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
        texts += [(path, block) for block in blocks]
    for path, text in texts:
        try:
            yield str(path.relative_to(ROOT)), list(yaml.load_all(text, yaml.CSafeLoader))
        except yaml.YAMLError:  # a part of a manifest, or an example of what can't be read
            continue


def _in_designs_form(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, inner in value.items():
            entries = inner if name in DEVICE_LISTS and isinstance(inner, list) else []
            yield from (entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("claim"), dict))
            yield from _in_designs_form(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _in_designs_form(inner)


def test_texts_name_the_form_only_where_they_say_that_it_is_refused() -> None:
    assert {name for name, text in _texts() if FORM.search(text)} == set(SAID_TO_BE_REFUSED)


def test_no_manifest_has_it() -> None:
    manifests = list(_manifests())
    assert len(manifests) > 100
    assert [name for name, document in manifests if any(_in_designs_form(document))] == []


@pytest.mark.parametrize("text", ["claim: {name: gpus, request: gpu}", '"claim": {', "claim:\n  name: gpus", "claim:{"])
def test_the_form_is_recognized(text: str) -> None:
    assert FORM.search(text)
    entry = {"name": "g", "claim": {"name": "gpus", "request": "gpu"}}
    assert list(_in_designs_form({"spec": [{"gpus": [entry]}]})) == [entry]
