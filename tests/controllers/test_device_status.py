"""Pod -> claim -> slice -> address: cases/device_status holds one list of cases per section of K-5, each a change of base.yaml."""

from __future__ import annotations

from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import parse_time
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.controllers.attribute_keys import read_keys
from virt_dra.controllers.current_pod import current_pod
from virt_dra.controllers.device_resolution import REASONS, Options, Resolution, resolve
from virt_dra.controllers.device_status import settle

CASES = Path(__file__).parent / "cases" / "device_status"
BASE: Json = yaml.safe_load((CASES / "base.yaml").read_text())


def _cases() -> list[Any]:
    files = sorted(path for path in CASES.glob("*.yaml") if path.name != "base.yaml")
    return [pytest.param(case, id=f"{path.stem}: {case['case']}") for path in files for case in yaml.safe_load(path.read_text())]


def given(case: Json) -> Json:
    """The base with the case's changes: ``path.to.0.field`` -> value, null removes."""
    objects = deepcopy(BASE)
    for path, value in deepcopy(case.get("set", {})).items():  # anchors share values between cases
        *parents, last = _parts(path)
        owner: Any = objects
        for part in parents:
            owner = owner[part] if isinstance(owner, list) else owner.setdefault(part, {})
        if value is not None:
            if isinstance(owner, list) and last == len(owner):
                owner.append(value)
            else:
                owner[last] = value
        elif isinstance(owner, list) or last in owner:
            del owner[last]
    return objects


def _parts(path: str) -> list[Any]:
    return [int(part) if part.isdigit() else part for part in path.split(".")]


def _resolution(case: Json) -> tuple[VirtualMachineInstance, Resolution]:
    objects = given(case)
    raw = case.get("options", {})
    options = Options(
        spread=raw.get("spread", False),
        keys=read_keys(raw.get("keys", []), "keys"),
        migration_target=raw.get("migrationTarget", False),
        now=parse_time(raw["now"]) if "now" in raw else None,
        grace=timedelta(seconds=raw.get("grace", 120)),
    )
    vmi = VirtualMachineInstance.from_wire(objects["vmi"])
    pod = Pod.from_wire(objects["pod"]) if "pod" in objects else None
    claims = [ResourceClaim.from_wire(claim) for claim in objects["claims"]]
    slices = [ResourceSlice.from_wire(s) for s in objects["slices"]]
    forwards, backwards = resolve(vmi, pod, claims, slices, options), resolve(vmi, pod, claims[::-1], slices[::-1], options)
    assert forwards == backwards, "the order of claims and slices must not matter"
    return vmi, forwards


def run(case: Json) -> Json:
    """The whole result: the status, and every device that has no address, or of which something is to be told."""
    vmi, resolution = _resolution(case)
    settled = settle(vmi, resolution)
    status = settled.device_status()
    told: Json = {"deviceStatus": None if status is None else status.to_wire()}
    for name, unresolved in (("unresolved", settled.unresolved), ("lost", settled.lost)):
        if unresolved:
            told[name] = [{"device": str(u.subject), "reason": u.reason, "state": u.state, "message": u.message} for u in unresolved]
    if settled.warnings:
        told["warnings"] = [{"device": str(w.subject), "reason": w.reason, "message": w.message} for w in settled.warnings]
    return told


@pytest.mark.parametrize("case", _cases())
def test_device_status(case: Json) -> None:
    assert run(case) == case["want"]


def test_every_reason_has_a_case() -> None:
    told = {entry["reason"] for param in _cases() for entry in param.values[0]["want"].get("unresolved", ())}
    assert told == set(REASONS)
