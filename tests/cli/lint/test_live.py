"""``virt-dra lint --live`` on a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from devtools.cluster.control_plane import ControlPlane
from devtools.deployed.operator import keep_policies_kind, profiles_kind
from devtools.deployed.webhook import kubevirt_kinds
from devtools.webhooks.serving import SPEC, vm, vmi
from virt_dra.api.keeping.terms import KEEP_ANNOTATION
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.scheme import read_object
from virt_dra.cli.main import cli
from virt_dra.cluster.port import ApiError, Forbidden, Listed, NotFound, Reader
from virt_dra.live.reading import read_cluster
from virt_dra.model.kinds import READ


class Room:
    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.namespaces = (plane.create_namespace("lint-"), plane.create_namespace("lint-"))

    def create(self, plural: str, body: dict[str, Any], namespace: str = "") -> Any:
        group = "resource.k8s.io" if plural.startswith(("resource", "device")) else "kubevirt.io"
        place = f"namespaces/{namespace}/" if namespace else ""
        return self.plane.request("POST", f"/apis/{group}/v1/{place}{plural}", body)

    def lint(self, *options: str) -> Result:
        return CliRunner().invoke(
            cli, ["lint", "--live", "--kubeconfig", str(self.plane.kubeconfig), "--kubevirt-version", "1.9", *options]
        )

    def found(self, *options: str) -> list[tuple[str, str, list[str]]]:
        """File, name and the ids of the findings of each VM."""
        told = json.loads(self.lint("-o", "json", *options).stdout)
        assert told["notChecked"] == []
        return [(obj["file"], obj["name"], [finding["id"] for finding in obj["findings"]]) for obj in told["objects"]]


@pytest.fixture(scope="module")
def room(control_plane: ControlPlane) -> Iterator[Room]:
    """Two namespaces: in one a VM, its VMI and a VMI of its own kind, in the other a VMI with a template but without a
    class."""
    with kubevirt_kinds(control_plane):
        made = Room(control_plane)
        here, there = made.namespaces
        try:
            owner = made.create("virtualmachines", vm(name="a"), here)["metadata"]
            reference = {
                "apiVersion": "kubevirt.io/v1",
                "kind": "VirtualMachine",
                "name": "a",
                "uid": owner["uid"],
                "controller": True,
            }
            made.create("virtualmachineinstances", vmi(name="a", ownerReferences=[reference]), here)
            made.create("virtualmachineinstances", vmi(name="b"), here)
            requests = [{"name": "r", "exactly": {"deviceClassName": "not-there.example.com"}}]
            template = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": requests}}}}
            made.create("resourceclaimtemplates", template, there)
            made.create("virtualmachineinstances", vmi(name="c"), there)
            yield made
        finally:
            for namespace in made.namespaces:
                control_plane.delete_namespace(namespace)


@pytest.mark.control_plane
def test_the_vms_of_a_namespace(room: Room) -> None:
    here, there = room.namespaces
    assert room.found("-n", here) == [
        (f"virtualmachines.kubevirt.io/{here}/a", "a", ["template-missing"]),
        (f"virtualmachineinstances.kubevirt.io/{here}/b", "b", ["template-missing"]),
    ]
    assert room.found("-n", there) == [(f"virtualmachineinstances.kubevirt.io/{there}/c", "c", ["class-missing"])]


@pytest.mark.control_plane
def test_the_vms_of_all_namespaces(room: Room) -> None:
    here, there = room.namespaces
    assert {file: ids for file, _, ids in room.found("-A") if file.split("/")[1] in room.namespaces} == {
        f"virtualmachineinstances.kubevirt.io/{here}/b": ["template-missing"],
        f"virtualmachineinstances.kubevirt.io/{there}/c": ["class-missing"],
        f"virtualmachines.kubevirt.io/{here}/a": ["template-missing"],
    }


@pytest.mark.control_plane
def test_for_people_and_for_code_scanners(room: Room) -> None:
    there = room.namespaces[1]
    told = room.lint("-n", there)
    place = f"virtualmachineinstances.kubevirt.io/{there}/c"
    assert told.exit_code == 1
    assert told.stdout.startswith(
        f"{place}: VirtualMachineInstance {there}/c: denial: spec.resourceClaims[0].resourceClaimTemplateName: "
    )
    (result,) = json.loads(room.lint("-n", there, "-o", "sarif").stdout)["runs"][0]["results"]
    assert result["ruleId"] == "class-missing"
    assert result["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": place}}


@pytest.mark.control_plane
def test_a_vm_of_a_file_against_what_the_cluster_has(room: Room, tmp_path: Path) -> None:
    file = tmp_path / "vm.json"
    file.write_text(
        json.dumps(vm({**SPEC, "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]}, name="new"))
    )
    assert room.found("-f", str(file), "-n", room.namespaces[0]) == [(str(file), "new", ["template-missing"])]
    assert room.found("-f", str(file), "-n", room.namespaces[1]) == [(str(file), "new", ["class-missing"])]


@pytest.mark.control_plane
def test_what_a_file_has_is_as_if_it_were_created(room: Room, tmp_path: Path) -> None:
    there = room.namespaces[1]
    file = tmp_path / "class.json"
    metadata = {"name": "not-there.example.com"}
    file.write_text(json.dumps({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata}))
    assert room.found("-f", str(file), "-n", there) == [
        (f"virtualmachineinstances.kubevirt.io/{there}/c", "c", ["no-matching-device"])
    ]


@pytest.mark.control_plane
def test_a_vm_that_keeps_its_devices_where_nobody_keeps_them(room: Room) -> None:
    here = room.namespaces[0]
    spec = {**SPEC, "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "none"}]}
    keeping = vm(spec, name="keeping")
    keeping["spec"]["template"]["metadata"] = {"annotations": {KEEP_ANNOTATION: "24h"}}
    room.create("virtualmachines", keeping, here)

    def is_missed() -> bool:
        return any("keeper-missing" in ids for _, name, ids in room.found("-n", here) if name == "keeping")

    assert not is_missed()  # a cluster without virt-dra: nobody hears the annotation
    with profiles_kind(room.plane):
        assert is_missed()
        with keep_policies_kind(room.plane):
            assert not is_missed()


class _Served:
    """A cluster that serves instancetypes, as far as ``fault`` lets."""

    def __init__(self, fault: dict[str, ApiError], *objects: TypedObject) -> None:
        self._fault = fault
        self._objects = objects
        self.labels: dict[str, str] = {}

    async def list(
        self, kind: type[TypedObject], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listed[Any]:
        self.labels[kind.KIND] = labels
        if kind.KIND in self._fault:
            raise self._fault[kind.KIND]
        return Listed(tuple(obj for obj in self._objects if (obj.kind or obj.KIND) == kind.KIND), "1")


async def test_instancetypes_are_read_where_they_are_served_and_allowed() -> None:
    raw = {
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": "VirtualMachineClusterInstancetype",
        "metadata": {"name": "m"},
    }
    fault = {"VirtualMachineInstancetype": NotFound("not served"), "ControllerRevision": Forbidden("may not")}
    served = _Served(fault, read_object(raw))
    objects, scope = await read_cluster(cast("Reader", served), READ["lint"])
    assert [(obj.kind, obj.name) for obj in objects] == [("VirtualMachineClusterInstancetype", "m")]
    assert {kind.KIND for kind in scope.unread} == {"ControllerRevision"}
    assert served.labels["ControllerRevision"] == "instancetype.kubevirt.io/object-name"


@pytest.mark.control_plane
def test_a_namespace_without_vms_is_fine(room: Room) -> None:
    told = room.lint("-n", "empty")
    assert (told.exit_code, told.stdout) == (0, "0 VMs checked against KubeVirt 1.9: 0 denials, 0 warnings\n")


def test_where_there_is_no_cluster_it_says_so(tmp_path: Path) -> None:
    told = CliRunner().invoke(cli, ["lint", "--live", "--kubeconfig", str(tmp_path / "none")])
    assert told.exit_code == 2
    assert told.stderr.startswith("error: cluster: ")
    assert str(tmp_path / "none") in told.stderr


@pytest.mark.parametrize("options", [["-A"], ["--context", "x"]])
def test_its_options_need_it(options: list[str]) -> None:
    told = CliRunner().invoke(cli, ["lint", "-f", "vm.yaml", *options])
    assert (told.exit_code, told.stderr.splitlines()[-1]) == (
        2,
        "Error: --all-namespaces, --kubeconfig and --context go with --live",
    )
