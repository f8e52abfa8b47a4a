"""Beside KubeVirt: from a VMI to its domain, by every integration path and for every KubeVirt version that has it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from devtools.libvirt import witness as libvirt_witness
from tests.conftest import Golden
from tests.e2e import cases
from tests.e2e.cases import VERSIONS, Case
from tests.e2e.conftest import InWorld
from tests.e2e.told import told

GUIDE: Final = Path(__file__).parents[2] / "docs" / "guides" / "integration-paths.md"
PAIRS = [
    pytest.param(version, case, name, id=f"{version}-{name}")
    for version in VERSIONS
    for case in cases.read("beside_kubevirt.yaml")
    if version in case.kubevirt and not case.one_runs
    for name in case.vmis
]


@pytest.mark.control_plane
@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize(("place", "case", "name"), PAIRS)
def test_a_vmi_gets_its_devices(in_world: InWorld, golden: Golden, place: str, case: Case, name: str) -> None:
    world = in_world(place)
    world.in_phase(name, case.phase)
    events = case.vmis[name].get("events", 1 if case.devices else 0)
    if events:
        world.devices(
            name, lambda status: status.get("nodeName") and status["ready"] == "{0}/{0}".format(len(status["devices"]))
        )
    world.eventually(lambda: world.events(name), lambda found: len(found) >= events)
    vmi = world.get("virtualmachineinstances", name)
    golden(f"{place}/{name}.yaml", told(world, vmi, world.launcher_pod(vmi)))
    assert world.kubevirt is not None
    xml = world.kubevirt.domains[world.namespace, name].domain_xml
    libvirt_witness.validate(xml)
    for uri in libvirt_witness.URIS:
        libvirt_witness.define(xml, uri)


@pytest.mark.control_plane
def test_of_two_vmis_with_one_claim_one_waits(in_world: InWorld) -> None:
    """The pod that reserved the claim first has its devices, also as vmid says it (K-5.36)."""
    world = in_world(VERSIONS[-1])

    def told_of_both() -> list[tuple[str, str]]:
        found = [
            world.find("virtualmachineinstancedevices", name) or {} for name in ("shared-claim-a", "shared-claim-b")
        ]
        statuses = [obj.get("status", {}) for obj in found]
        return sorted(
            (status.get("ready", ""), device.get("reason") or "")
            for status in statuses
            for device in status.get("devices", ())
        )

    world.eventually(told_of_both, lambda told: told == [("0/1", "ClaimInUse"), ("1/1", "")])


def test_the_guide_has_every_case_and_no_other() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert set(re.findall(r"`(\d+\.\d+\.\d+-[a-z-]+)`", text)) == {str(pair.id) for pair in PAIRS}
    modules = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py")]
    for name in re.findall(r"`(?:\S+::)?(test_[a-z_]+)`", text):
        assert any(f"def {name}(" in module for module in modules), name
