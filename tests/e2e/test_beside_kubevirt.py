"""Beside KubeVirt: from a VMI to its domain, by every integration path and for every KubeVirt version that has it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import pytest

from tests import libvirt_witness
from tests.cluster.control_plane import ControlPlane
from tests.conftest import Golden
from tests.e2e import cases
from tests.e2e.cases import Case
from tests.e2e.told import told
from tests.e2e.worlds import World, Worlds, beside_kubevirt
from virt_dra.api.kubevirt_v1 import PermittedHostDevices

CASES = cases.read("beside_kubevirt.yaml")
VERSIONS = ("1.7.2", "1.8.0", "1.8.3", "1.9.0")
PERMITTED = {"pciHostDevices": [{"pciVendorSelector": "10DE:20B0", "resourceName": "example.com/A-100", "externalResourceProvider": True}]}

Beside = Callable[[str], World]


@pytest.fixture
def beside(worlds: Worlds, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Beside:
    """The world of a KubeVirt version, in which the VMIs of all its cases start as soon as it is there."""

    def world(version: str) -> World:
        here = [case for case in CASES if version in case.kubevirt]
        folder = tmp_path_factory.mktemp("e2e")
        permitted = PermittedHostDevices.from_wire(PERMITTED) if any(case.name == "device-plugin" for case in here) else None
        found, new = worlds.get(
            f"KubeVirt {version}", partial(beside_kubevirt, control_plane, version, cases.hardware(here), folder, permitted)
        )
        if new:
            for case in here:
                case.create(found)
        return found

    return world


PAIRS = [
    pytest.param(version, case, name, id=f"{version}-{name}")
    for version in VERSIONS
    for case in CASES
    if version in case.kubevirt
    for name in case.vmis
]


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize(("version", "case", "name"), PAIRS)
def test_a_vmi_gets_its_devices(beside: Beside, golden: Golden, version: str, case: Case, name: str) -> None:
    world = beside(version)
    world.in_phase(name, case.phase)
    events = case.vmis[name].get("events", 1 if case.devices else 0)
    if events:
        world.devices(name, lambda status: status.get("nodeName") and status["ready"] == "{0}/{0}".format(len(status["devices"])))
    world.eventually(lambda: world.events(name), lambda found: len(found) >= events)
    golden(f"{version}/{name}.yaml", told(world, world.get("virtualmachineinstances", name), world.launcher_pod(name)))
    assert world.kubevirt is not None
    xml = world.kubevirt.domains[world.namespace, name].domain_xml
    libvirt_witness.validate(xml)
    for uri in libvirt_witness.URIS:
        libvirt_witness.define(xml, uri)


def test_ci_skips_nothing() -> None:
    if os.environ.get("CI") == "true":
        assert PAIRS
