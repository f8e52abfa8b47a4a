"""A dump of a cluster in which KubeVirt runs VMs, given to ``virt-dra run``: each is ready with the claims and
addresses that it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner
from lxml import etree

from devtools.deployed.worlds import World
from tests.e2e import cases
from tests.e2e.cases import VERSIONS
from tests.e2e.conftest import InWorld
from virt_dra.cli.main import cli

pytestmark = pytest.mark.control_plane

Json = dict[str, Any]

DUMPED: Final = {
    "kubevirt.io/v1": {
        "kubevirts": "KubeVirt",
        "virtualmachines": "VirtualMachine",
        "virtualmachineinstances": "VirtualMachineInstance",
    },
    "v1": {"pods": "Pod", "nodes": "Node", "namespaces": "Namespace"},
    "resource.k8s.io/v1": {
        "resourceclaims": "ResourceClaim",
        "resourceclaimtemplates": "ResourceClaimTemplate",
        "resourceslices": "ResourceSlice",
        "deviceclasses": "DeviceClass",
    },
}
"""What ``kubectl get vm,vmi,pods,… -A -o yaml`` asks for."""


RECORDED: Final = Path(__file__).parents[1] / "simulator" / "recorded" / f"kubevirt-{VERSIONS[-1]}.json"
"""A dump for tests without a control plane; ``--update-golden`` records it anew."""


def _dump(world: World) -> list[Json]:
    found: list[Json] = []
    for version, kinds in DUMPED.items():
        for plural, kind in kinds.items():
            root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
            items = world.plane.request("GET", f"{root}/{plural}")["items"]
            found += [{"apiVersion": version, "kind": kind, **item} for item in items]
    return found


def _addresses(domain: str) -> list[dict[str, str]]:
    """Of all host devices, without what only one of the two dialects has."""
    found = etree.fromstring(domain.encode()).findall("./devices/hostdev/source/address")
    return sorted(
        ({str(key): str(value) for key, value in item.attrib.items() if key != "type"} for item in found), key=str
    )


def _claims(pod: Json) -> dict[str, str]:
    entries = {entry["name"]: entry.get("resourceClaimName") for entry in pod["spec"].get("resourceClaims", ())}
    entries |= {
        status["name"]: status.get("resourceClaimName")
        for status in pod.get("status", {}).get("resourceClaimStatuses", ())
    }
    return {name: claim for name, claim in entries.items() if claim}


@pytest.mark.parametrize("place", VERSIONS)
def test_running_vms_are_ready_with_what_they_have(
    in_world: InWorld, place: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    world = in_world(place)
    here = [case for case in cases.read("beside_kubevirt.yaml") if place in case.kubevirt]
    here = [case for case in here if case.phase == "Running" and not case.one_runs]
    names = [name for case in here for name in case.vmis]
    for name in names:
        world.in_phase(name, "Running")
    dump = _dump(world)
    if place == VERSIONS[-1] and pytestconfig.getoption("--update-golden"):
        lines = ",\n".join(json.dumps(obj, separators=(",", ":")) for obj in dump)
        RECORDED.write_text(f'{{"apiVersion":"v1","kind":"List","items":[\n{lines}\n]}}\n')
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": dump}))
    told = CliRunner().invoke(
        cli, ["run", str(path), "-n", world.namespace, "--out", str(tmp_path / "out"), "-o", "json"]
    )
    assert told.exit_code in (0, 1), told.output  # other VMs of this world wait for devices
    report = json.loads(told.stdout)
    assert report["refused"] == []
    vms = {vm["name"]: vm for vm in report["vms"] if vm["namespace"] == world.namespace}
    allocated = {
        obj["metadata"]["name"]: [
            (result["request"].partition("/")[0], f"{result['driver']}/{result['pool']}/{result['device']}")
            for result in obj.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        ]
        for obj in dump
        if obj["kind"] == "ResourceClaim" and obj["metadata"]["namespace"] == world.namespace
    }
    assert world.kubevirt is not None
    for name in names:
        vm = vms[name]
        assert (vm["ready"], vm["takenOver"]) == (True, True), (name, vm["failure"])
        pod = world.launcher_pod(world.get("virtualmachineinstances", name))
        assert (vm["pod"], vm["node"]) == (pod["metadata"]["name"], pod["spec"]["nodeName"])
        claims = _claims(pod)
        assert {claim["entry"]: claim["claim"] for claim in vm["claims"]} == claims
        for device in vm["devices"]:
            if device["claim"] is not None:
                assert (device["request"], device["allocated"]) in allocated[claims[device["claim"]]], name
        assert _addresses(vm["domain"]) == _addresses(world.kubevirt.domains[world.namespace, name].domain_xml), name
    _unchanged(dump, tmp_path / "out" / "objects")


def _unchanged(dump: list[Json], folder: Path) -> None:
    """What runs is in the run's cluster with the UIDs, claims and reservations that it has in the real one."""
    written = [yaml.safe_load(path.read_text()) for path in folder.rglob("*.yaml")]
    kept = {(obj["kind"], obj["metadata"].get("uid")): obj for obj in written}
    for obj in dump:
        if obj["kind"] == "ResourceClaim" and obj.get("status", {}).get("reservedFor"):
            assert kept["ResourceClaim", obj["metadata"]["uid"]]["status"] == obj["status"]
        if obj["kind"] == "VirtualMachineInstance" and obj.get("status", {}).get("phase") == "Running":
            instance = kept["VirtualMachineInstance", obj["metadata"]["uid"]]
            for field in ("name", "ownerReferences", "finalizers", "labels", "managedFields"):
                assert instance["metadata"].get(field) == obj["metadata"].get(field)
            assert (instance["spec"], instance["status"]["phase"]) == (obj["spec"], "Running")
