"""Cases are data: ``cases/*.yaml`` has lists of them, each some hardware, templates and claims, and VMIs that use it.

case: metadata-shim                 # its DeviceClass is e2e-metadata-shim and selects its devices
kubevirt: [1.9.0, 1.8.3]            # where it runs
devices: {gpu.example.com: {gpu-a: {gpu.example.com/pciAddress: "0000:41:00.0"}}}
templates: {metadata-shim: [{name: gpu, exactly: {deviceClassName: e2e-metadata-shim}}]}      # requests
claims: {}                          # the same for ResourceClaims
vmis: {metadata-shim: {annotations: {}, spec: {...}}}
phase: Running                      # in which its VMIs settle
oneRuns: false                      # its VMIs name one claim, so that only one of them runs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import yaml

from devtools.deployed.webhook import Answer
from devtools.deployed.worlds import Hardware, World
from virt_dra.api.integration.device_metadata import PCI_BUS_ID
from virt_dra.simulator.agents.hardware import Gadget

Json = dict[str, Any]

VERSIONS: Final = ("1.7.2", "1.8.0", "1.8.3", "1.9.0")
"""Of KubeVirt: one of each behaviour of its own."""
STANDALONE: Final = "standalone"

FOLDER: Final = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Case:
    name: str
    kubevirt: tuple[str, ...]
    devices: Mapping[str, Mapping[str, Mapping[str, str]]]
    templates: Mapping[str, list[Json]]
    claims: Mapping[str, list[Json]]
    vmis: Mapping[str, Json]
    phase: str
    kind: str
    unmatched: bool
    one_runs: bool

    def create(self, world: World) -> None:
        """All of it, templates and claims first."""
        for plural, kind, given in (
            ("resourceclaimtemplates", "ResourceClaimTemplate", self.templates),
            ("resourceclaims", "ResourceClaim", self.claims),
        ):
            for name, requests in given.items():
                spec: Json = {"devices": {"requests": requests}}
                world.create(
                    plural,
                    {"kind": kind, "metadata": {"name": name}, "spec": {"spec": spec} if "Template" in kind else spec},
                )
        for name, vmi in self.vmis.items():
            metadata = {"name": name, "annotations": vmi.get("annotations", {})}
            body: Json = {"kind": self.kind, "metadata": metadata, "spec": vmi["spec"]}
            if self.kind == "VirtualMachine":
                body |= {
                    "metadata": {"name": name},
                    "spec": {"runStrategy": "Always", "template": {"metadata": metadata, "spec": vmi["spec"]}},
                }
                del metadata["name"]
            plural = f"{self.kind.lower()}s"
            if not self.unmatched:
                world.eventually(partial(world.post, plural, body, "?dryRun=All"), _is_informed)
            world.create(plural, body)


def _is_informed(answer: Answer) -> bool:
    """The webhook follows the cluster a moment behind; which driver serves a claim it must know when the launcher pod
    comes."""
    behind = ("[template-missing]", "[claim-missing]", "[class-missing]", "[no-matching-device]")
    return not any(finding in warning for finding in behind for warning in answer.warnings)


@cache
def read(file: str) -> tuple[Case, ...]:
    """The cases of a file. KeyError and TypeError where one isn't as it should be."""
    return tuple(
        Case(
            name=raw["case"],
            kubevirt=tuple(raw.get("kubevirt", ())),
            devices=raw.get("devices", {}),
            templates=raw.get("templates", {}),
            claims=raw.get("claims", {}),
            vmis=raw["vmis"],
            phase=raw.get("phase", "Running"),
            kind=raw.get("kind", "VirtualMachineInstance"),
            unmatched=raw.get("unmatched", False),
            one_runs=raw.get("oneRuns", False),
        )
        for raw in yaml.safe_load((FOLDER / file).read_text(encoding="utf-8"))
    )


def of(place: str) -> tuple[Case, ...]:
    """The cases of a KubeVirt version, or those without KubeVirt."""
    if place == STANDALONE:
        return read("standalone.yaml")
    return tuple(
        case for file in ("beside_kubevirt.yaml", "reports.yaml") for case in read(file) if place in case.kubevirt
    )


def create(cases: Sequence[Case], world: World) -> None:
    for case in cases:
        case.create(world)


def hardware(cases: Sequence[Case]) -> Hardware:
    """What a node needs for all of these cases."""
    devices: dict[str, list[Gadget]] = {}
    for case in cases:
        for driver, given in case.devices.items():
            gadgets = [
                Gadget(name, {"case": case.name, **attributes}, metadata=_told(attributes))
                for name, attributes in given.items()
            ]
            devices.setdefault(driver, []).extend(gadgets)
    classes = tuple(case.name for case in cases if case.devices)
    return Hardware({driver: tuple(gadgets) for driver, gadgets in devices.items()}, classes)


def _told(attributes: Mapping[str, str]) -> Mapping[str, str]:
    """What a driver writes into metadata files, if it writes any: KEP-5304 has one key for a PCI address."""
    return {key: value for key, value in attributes.items() if key in (PCI_BUS_ID, "mdevUUID")}
