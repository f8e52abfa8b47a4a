"""What the lint finds: cases as data, whole findings with their whole messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.reading.scheme import read_object
from webhooks.lint import LintInputs, LintSettings, lint
from webhooks.lint.inputs import EVERYTHING

FOLDER = Path(__file__).parent / "cases"
COMMON: dict[str, Any] = yaml.load((FOLDER / "common.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
OPTIONS = {"kubevirt", "gates", "complete", "ignore", "deny", "warn"}
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted(FOLDER.glob("*.yaml"))
    if path.stem != "common"
    for case in yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
]


def findings(case: dict[str, Any]) -> list[list[str]]:
    """Id, severity, field and message of each finding on the first VM or VMI."""
    assert case.keys() <= {"name", "objects", "want", *OPTIONS}
    objects = [read_object(COMMON[obj] if isinstance(obj, str) else obj) for obj in case["objects"]]
    version = KubeVirtVersion.parse(case["kubevirt"]) if "kubevirt" in case else None
    world = LintInputs.from_objects(
        objects, version=version, gates=case.get("gates"), known_kinds=EVERYTHING if case.get("complete") else None
    )
    settings = LintSettings(ignore=case.get("ignore", ()), deny=case.get("deny", ()), warn=case.get("warn", ()))
    vm = next(obj for obj in objects if isinstance(obj, VirtualMachine | VirtualMachineInstance))
    return [[setting.id, setting.severity, setting.field, setting.message] for setting in lint(vm, world, settings)]


@pytest.mark.parametrize("case", CASES)
def test_findings(case: dict[str, Any]) -> None:
    assert findings(case) == case["want"]
