"""The YAML cases beside this module, read into what the launcher takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import yaml

from launcher import AddressSources, Conversion, convert
from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.hostdev_options import HOSTDEV_OPTIONS_ANNOTATION
from virt_dra.api.wire import Json

CASES = Path(__file__).parent / "cases"


def cases(*files: str) -> dict[str, Json]:
    """``file: name`` -> case."""
    return {
        f"{file}: {case['name']}": case
        for file in files
        for case in yaml.load((CASES / f"{file}.yaml").read_text(), yaml.CSafeLoader)
    }


def vmi_of(case: Mapping[str, object]) -> Json:
    """A VMI around the device lists of a case."""
    devices = {key: case[key] for key in ("gpus", "hostDevices", "interfaces") if key in case}
    spec = {key: case[key] for key in ("resourceClaims", "networks", "architecture") if key in case}
    statuses = {key: case[key] for key in ("gpuStatuses", "hostDeviceStatuses") if key in case}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {
            "namespace": "tests",
            "name": case.get("vmiName", "vmi"),
            "annotations": {HOSTDEV_OPTIONS_ANNOTATION: case["annotation"]} if "annotation" in case else {},
        },
        "spec": {**spec, "domain": {"devices": devices}},
        **({"status": {"deviceStatus": statuses}} if statuses else {}),
    }


def converted(case: Json) -> Conversion:
    version = case.get("kubevirt", "1.9")
    pod = Pod.from_wire(case["pod"]) if "pod" in case else None
    return convert(vmi_of(case), AddressSources(case.get("env", {}), files_of(case), pod), kubevirt=version)


def files_of(case: Json) -> dict[str, str] | None:
    """The metadata files of a case; None for one that has no say about them."""
    if not case.keys() & {"files", "rawFiles"}:
        return None
    raw: dict[str, str] = case.get("rawFiles", {})
    return {path: json.dumps(content) for path, content in case.get("files", {}).items()} | raw
