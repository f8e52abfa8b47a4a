"""The rows of examples/inventory, as the tables and documents that users see; how they are filtered, sorted and
compared."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import read_objects
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from virt_dra.cli.get.columns import age, columns_of
from virt_dra.cli.get.tables import RowTable, csv_lines
from virt_dra.inventory.changes import WatchedRows
from virt_dra.inventory.device_rows import device_rows
from virt_dra.inventory.fields import BadFilter, InventoryRow, RowFilter, in_order, read_conditions
from virt_dra.inventory.kinds import FIELDS, ROW_KINDS, RowKind, RowOptions, row_kind, rows_of
from virt_dra.inventory.topology import topology
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.launchers import vm_of_pod_name

EXAMPLE = Path(__file__).parents[2] / "examples" / "inventory" / "cluster.yaml"
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
OPTIONS = RowOptions(NOW)
OBJECTS = [obj.object for obj in read_objects(EXAMPLE.read_bytes(), "cluster.yaml").objects]


def rows(kind: RowKind) -> Sequence[InventoryRow]:
    return rows_of(kind, ClusterModel(OBJECTS), OPTIONS)


def identities(kind: RowKind, wanted: RowFilter) -> list[str]:
    return [row.identity for row in rows(kind) if wanted.wants(row)]


@pytest.mark.parametrize("kind", ROW_KINDS)
def test_tables_show_what_the_cluster_holds(kind: RowKind, golden: Golden) -> None:
    golden(f"{kind}.txt", "\n".join(RowTable(columns_of(kind, wide=True)).lines(rows(kind), NOW)) + "\n")


@pytest.mark.parametrize("kind", ROW_KINDS)
def test_documents_have_the_same_members_in_every_row(kind: RowKind, golden: Golden) -> None:
    documents = [row.to_json() for row in rows(kind)]
    golden(f"{kind}.json", json.dumps(documents, indent=1) + "\n")
    assert len({tuple(document) for document in documents}) == 1


@pytest.mark.parametrize("kind", ROW_KINDS)
def test_every_row_has_the_fields_of_its_kind(kind: RowKind) -> None:
    assert all(row.FIELDS is FIELDS[kind] for row in rows(kind))
    assert len({row.identity for row in rows(kind)}) == len(rows(kind))


@pytest.mark.parametrize(
    ("kind", "conditions", "found"),
    [
        ("devices", "state=free", ["gpu.example.com/node-1/gpu-2"]),
        ("devices", "state=unhealthy,node=node-1", ["gpu.example.com/node-1/gpu-0"]),
        ("devices", "vm=farm", ["gpu.example.com/node-1/gpu-1", "gpu.example.com/node-1/gpu-9"]),
        (
            "devices",
            "driver!=gpu.example.com, device!=uplink",
            ["card.example.com/node-1-card/whole", "card.example.com/node-1-card/half"],
        ),
        ("vms", "driver=gpu.example.com,ready=false", ["team-a/desktop", "team-b/farm"]),
        ("vms", "node=node-1,kind==Pod", ["team-b/batch"]),
        ("claims", "state=pending", ["team-a/waiting-gpu-2mv9s"]),
        ("claims", "class=gpu,vm=farm", ["team-b/farm-gpus"]),
        ("pools", "state=stale", ["gpu.example.com/node-2"]),
        ("pools", "generation=7", ["nic.example.com/nics"]),
        ("drivers", "class=a100", ["gpu.example.com"]),
    ],
)
def test_fields_select_rows(kind: RowKind, conditions: str, found: list[str]) -> None:
    assert identities(kind, RowFilter(conditions=read_conditions(conditions, FIELDS[kind]))) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "nod=a",
            'there is no field "nod" (did you mean node?); fields: driver, '
            "pool, generation, state, node, devices, free",
        ),
        ("zzz=a", 'there is no field "zzz"; fields: driver, pool, generation, state, node, devices, free'),
        (
            "node",
            '"node": write FIELD=VALUE or FIELD!=VALUE, with a field of driver, '
            "pool, generation, state, node, devices, free",
        ),
    ],
)
def test_a_condition_that_cannot_be_says_which_can(text: str, message: str) -> None:
    with pytest.raises(BadFilter) as refused:
        read_conditions(text, FIELDS["pools"])
    assert str(refused.value) == message


def test_names_are_found_with_and_without_what_they_are_in() -> None:
    for name in ("gpu-2", "node-1/gpu-2", "gpu.example.com/node-1/gpu-2"):
        assert identities("devices", RowFilter([name])) == ["gpu.example.com/node-1/gpu-2"]
    assert identities("devices", RowFilter(["gpu-0"])) == [
        "gpu.example.com/node-1/gpu-0",
        "gpu.example.com/node-2/gpu-0",
    ]
    wanted = RowFilter(["team-a/desktop", "batch", "nobody"])
    assert identities("vms", wanted) == ["team-a/desktop", "team-b/batch"]
    assert wanted.missing(rows("vms")) == ["nobody"]


def test_a_namespace_limits_vms_and_claims_and_nothing_else() -> None:
    assert identities("vms", RowFilter(namespace="team-a")) == ["team-a/desktop", "team-a/waiting"]
    assert identities("claims", RowFilter(namespace="team-c")) == []
    assert len(identities("devices", RowFilter(namespace="team-a"))) == len(rows("devices"))


def test_labels_are_those_of_one_of_the_objects() -> None:
    assert identities("vms", RowFilter(labels=lambda labels: labels.get("app") == "render")) == ["team-a/desktop"]
    assert identities("pools", RowFilter(labels=lambda labels: labels.get("site") == "north")) == [
        "gpu.example.com/node-1"
    ]


def test_rows_are_sorted_by_numbers_in_their_fields_and_those_without_come_last() -> None:
    def sorted_by(kind: RowKind, field: str) -> list[str]:
        return [row.identity for row in in_order(rows(kind), field, FIELDS[kind])]

    assert sorted_by("pools", "-generation")[:2] == ["nic.example.com/nics", "gpu.example.com/node-2"]
    assert sorted_by("devices", "address")[0] == "gpu.example.com/node-1/gpu-0"
    assert sorted_by("devices", "address")[-1] == "gpu.example.com/node-1/gpu-9"
    assert sorted_by("devices", "-address")[0] == "gpu.example.com/node-1/gpu-3"
    with pytest.raises(BadFilter, match='there is no field "adress"'):
        sorted_by("devices", "adress")


def test_numbers_in_names_count_as_numbers() -> None:
    documents = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "n"},
            "spec": {"devices": {}},
        }
        for name in ("c-10", "c-9", "c-²")
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}).encode()
    claims = [obj.object for obj in read_objects(text, "x").objects]
    made = rows_of("claims", ClusterModel(claims), OPTIONS)
    assert [row.identity for row in in_order(made, "name", FIELDS["claims"])] == ["n/c-9", "n/c-10", "n/c-²"]


@pytest.mark.parametrize(
    ("name", "kind"), [("vm", "vms"), ("VMI", "vms"), ("resourceclaims", "claims"), ("Driver", "drivers")]
)
def test_kinds_have_several_names(name: str, kind: str) -> None:
    assert row_kind(name) == kind


def test_an_unknown_kind_says_which_is_nearest() -> None:
    with pytest.raises(BadFilter) as refused:
        row_kind("devcies")
    assert (
        str(refused.value)
        == 'there is no kind "devcies" (did you mean devices?); kinds: vms, devices, claims, pools, drivers'
    )


@pytest.mark.parametrize(
    ("since", "shown"),
    [
        ("2026-11-23T11:59:18Z", "42s"), ("2026-11-23T11:53:00Z", "7m"), ("2026-11-23T09:00:00Z", "3h"),
        ("2026-11-18T12:00:00Z", "5d"), ("2024-11-01T12:00:00Z", "2y"), ("2026-11-23T12:00:01Z", "0s"),
        ("yesterday", ""), ("", ""),
    ],
)  # fmt: skip
def test_ages_are_written_as_kubectl_writes_them(since: str, shown: str) -> None:
    assert age(since, NOW) == shown


def test_admin_access_holds_nothing_and_is_said() -> None:
    claim = next(obj for obj in OBJECTS if obj.name == "batch-net").to_wire()
    result = {"request": "nic", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-2", "adminAccess": True}
    claim["status"]["allocation"]["devices"]["results"] = [result]
    objects = [ResourceClaim.from_wire(claim) if obj.name == "batch-net" else obj for obj in OBJECTS]
    (row,) = (row for row in rows_of("devices", ClusterModel(objects), OPTIONS) if row.names[1] == "node-1/gpu-2")
    assert row.FIELDS["state"](row) == ("free",)
    shown = {column.title: column.text(row, NOW) for column in columns_of("devices", wide=True)}
    assert shown["HELD-BY"] == "VM team-b/batch (admin access)"


def test_vms_of_launcher_pods_by_name() -> None:
    assert vm_of_pod_name("virt-launcher-my-vm-2-x7k2p") == "my-vm-2"
    assert [
        vm_of_pod_name(name) for name in ("virt-launcher-x7k2p", "other-vm-x7k2p", "virt-launcher-vm-X7K2P", "")
    ] == [""] * 4


def test_what_could_not_be_read_is_not_taken_for_missing() -> None:
    def reasons(*unread: type[TypedObject]) -> dict[str, str]:
        model = ClusterModel([obj for obj in OBJECTS if not isinstance(obj, unread)], unread=unread)
        return {row.identity: row.to_json()["reason"] for row in rows_of("vms", model, OPTIONS)}

    assert reasons(ResourceSlice)["team-a/desktop"] == "NotRead"
    assert reasons(ResourceSlice)["team-b/farm"] == "NotRead"
    assert reasons(ResourceClaim)["team-a/desktop"] == "NotRead"
    assert reasons(Pod)["team-a/desktop"] == "NotRead"
    assert reasons(DeviceClass)["team-a/desktop"] == "DeviceUnhealthy"
    unclaimed = [obj for obj in OBJECTS if not isinstance(obj, ResourceClaim)]
    for model in (ClusterModel(unclaimed, unread=[ResourceClaim]), ClusterModel(unclaimed, partial=[ResourceClaim])):
        states = {row.FIELDS["state"](row) for row in rows_of("devices", model, OPTIONS)}
        assert states == {("unknown",), ("unhealthy",), ("tainted",), ("unavailable",)}
    without = [obj for obj in OBJECTS if not isinstance(obj, ResourceSlice)]
    assert rows_of("devices", ClusterModel(without, unread=[ResourceSlice]), OPTIONS) == []
    assert {row.FIELDS["state"](row) for row in rows_of("devices", ClusterModel(without), OPTIONS)} == {
        ("allocated", "unpublished")
    }


def test_a_held_device_that_is_not_published_is_not_one_of_several_nodes() -> None:
    places = {node.name: node.devices for node in topology(device_rows(ClusterModel(OBJECTS)))}
    assert list(places)[-1] == "held, but not published"
    assert [str(device.row.id) for device in places["held, but not published"]] == ["gpu.example.com/node-1/gpu-9"]
    without = [obj for obj in OBJECTS if not isinstance(obj, ResourceSlice)]
    assert [node.name for node in topology(device_rows(ClusterModel(without)))] == ["held, but not published"]


@pytest.mark.parametrize("id", ["gpu.example.com/node-1/gpu-0", "example.com/gpu=0"])
def test_health_is_found_by_the_name_of_the_device_or_of_its_only_cdi_device(id: str) -> None:
    def states(**changes: Any) -> Sequence[str | int]:
        objects = [_changed(obj, **changes) if obj.name == "virt-launcher-desktop-7k2px" else obj for obj in OBJECTS]
        return next(
            row.FIELDS["state"](row)
            for row in rows_of("devices", ClusterModel(objects), OPTIONS)
            if row.names[1] == "node-1/gpu-0"
        )

    assert states(id=id) == ("allocated", "unhealthy")
    assert states(id=id, phase="Failed") == ("allocated",)
    assert states(id=id, name="gpu.example.com/plugin") == ("allocated",)
    assert states(id="example.com/gpu=0", name="claim:other/gpu") == ("allocated",), "of a claim that isn't known"


def _changed(pod: TypedObject, id: str, phase: str = "Running", name: str = "claim:gpu/gpu") -> TypedObject:
    health = [{"resourceID": id, "health": "Unhealthy"}]
    statuses = [{"name": "compute", "allocatedResourcesStatus": [{"name": name, "resources": health}]}]
    wire = pod.to_wire()
    return Pod.from_wire({**wire, "status": {**wire["status"], "phase": phase, "containerStatuses": statuses}})


# --- hostile names -------------------------------------------------------------------------------------------------


def hostile(name: str) -> Sequence[InventoryRow]:
    """A device that its driver calls so."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    device: dict[str, Any] = {"name": name, "attributes": {"model": {"string": name}}}
    spec = {"driver": "d", "nodeName": name, "pool": pool, "devices": [device]}
    slice_ = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
    objects = [obj.object for obj in read_objects(json.dumps(slice_).encode(), "x").objects]
    return rows_of("devices", ClusterModel(objects), OPTIONS)


def test_names_cannot_control_the_terminal_or_break_the_table() -> None:
    lines = RowTable(columns_of("devices", wide=True)).lines(hostile("a\x1b[2J\nb\u202e"), NOW)
    assert len(lines) == 2
    assert "a\\x1b[2J\\nb\\u202e" in lines[1]
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1"])
def test_a_spreadsheet_calculates_nothing(name: str) -> None:
    titles, cells = csv.reader(io.StringIO(csv_lines(columns_of("devices", wide=True), hostile(name))))
    shown = dict(zip(titles, cells, strict=True))
    assert shown["MODEL"] == f"'{name}".replace("\t", "\\t") if not name.startswith("\t") else shown["MODEL"] == "\\t=1"
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells)


def test_csv_has_times_as_timestamps_and_nothing_for_nothing() -> None:
    held = next(row for row in rows("devices") if row.names[1] == "node-1/gpu-0")
    (line,) = csv_lines(columns_of("devices", wide=True), [held], titles=False).splitlines()
    assert line == (
        'gpu.example.com,node-1,gpu-0,node-1,A100,0000:41:00.0,"allocated,unhealthy",VM '
        "team-a/desktop,desktop-gpu-5xw7l,2026-10-01T08:00:03Z,"
        ",XID 79: fell off the bus,"
    )


# --- changes -------------------------------------------------------------------------------------------------------


def test_only_rows_that_differ_are_shown_again() -> None:
    watched = WatchedRows()
    assert [(change.type, change.row.identity) for change in watched.changes(rows("claims"))] == [
        ("ADDED", "team-a/desktop-gpu-5xw7l"), ("ADDED", "team-a/waiting-gpu-2mv9s"), ("ADDED", "team-b/batch-net"),
        ("ADDED", "team-b/farm-gpus"), ("ADDED", "team-b/the-card"),
    ]  # fmt: skip
    assert list(watched.changes(rows("claims"))) == []
    fewer = [obj for obj in OBJECTS if obj.name != "the-card"]
    changes = list(watched.changes(rows_of("claims", ClusterModel(fewer), OPTIONS)))
    assert [(change.type, change.row.identity) for change in changes] == [("DELETED", "team-b/the-card")]
    gone = [obj for obj in OBJECTS if obj.KIND != "Pod"]
    watched = WatchedRows()
    assert len(list(watched.changes(rows("devices")))) == len(rows("devices"))
    change = next(watched.changes(rows_of("devices", ClusterModel(gone), OPTIONS)))
    assert (change.type, change.row.identity) == ("MODIFIED", "card.example.com/node-1-card/whole")
