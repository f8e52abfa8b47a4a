"""What a change of manifests does to a cluster: cases as data, all effects of each."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from virt_dra.api.reading.scheme import read_object
from virt_dra.api.wire import Json
from virt_dra.cluster.files import read_inputs
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.unknown import not_given
from virt_dra.simulator.planning.objects import LAST_APPLIED, changed_cluster
from virt_dra.simulator.planning.vms import vm_changes

CASES: list[Json] = yaml.load((Path(__file__).parent / "cases.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
EXAMPLES = Path(__file__).parents[3] / "examples"
CLUSTER = EXAMPLES / "explain/cluster.yaml"
KEEPING = EXAMPLES / "keep"


def cluster(path: Path) -> ClusterModel:
    objects = [sourced.object for sourced in read_inputs([str(path)]).objects]
    return ClusterModel(objects, unread=not_given(objects))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_change_has_these_effects(case: Json) -> None:
    changed = changed_cluster(
        cluster(CLUSTER),
        [read_object(raw) for raw in case.get("apply", ())],
        [read_object(raw) for raw in case.get("delete", ())],
        "default",
    )
    assert [[change.action, change.kind, change.name] for change in changed.changes] == case["objects"]
    effects = list(vm_changes(changed, lambda: False, lambda: None, lambda done, total: None))
    wanted = case["vms"]
    assert [[effect.effect, effect.title] for effect in effects] == [[effect, title] for effect, title, _ in wanted]
    said = [effect.node or effect.why for effect in effects]
    assert [text if want is not None else None for text, (_, _, want) in zip(said, wanted, strict=True)] == [
        want for _, _, want in wanted
    ]
    assert [effect.title for effect in effects if effect.is_loss] == [
        title for effect, title, _ in wanted if effect in ("waits", "loses-device", "stops-fitting")
    ]


@pytest.mark.parametrize(
    ("manifest", "action"),
    [
        ({"labels": {"a": "1"}}, "none"),
        ({"labels": {"a": "2"}}, "change"),
        ({}, "change"),  # kubectl takes the label away
    ],
)
def test_what_kubectl_applied_last_says_what_was_taken_out(manifest: Json, action: str) -> None:
    raw = {"apiVersion": "v1", "kind": "Namespace"}
    last = '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"a": "1"}}}'
    stored = {"name": "n", "uid": "u", "labels": {"a": "1", "of": "server"}, "annotations": {LAST_APPLIED: last}}
    before = ClusterModel([read_object({**raw, "metadata": stored})])
    changed = changed_cluster(before, [read_object({**raw, "metadata": {"name": "n", **manifest}})], (), "default")
    assert [change.action for change in changed.changes] == [action]


@pytest.mark.parametrize(
    ("kind", "annotations", "action", "effects"),
    [
        ("VirtualMachine", {}, "none", []),
        ("VirtualMachine", {"virt-dra.io/keep-devices": "2h"}, "change", []),
        ("VirtualMachine", {"virt-dra.io/keep-devices": "false"}, "change", [("starts", "VM team-a/late")]),
        ("VirtualMachine", None, "delete", [("starts", "VM team-a/late")]),
        ("ResourceClaim", None, "delete", [("starts", "VM team-a/late")]),
    ],
)
def test_what_becomes_of_the_device_that_a_stopped_vm_keeps(
    kind: str, annotations: dict[str, str] | None, action: str, effects: list[tuple[str, str]]
) -> None:
    """VM ``trainer`` is stopped, and VM ``late`` asks for what it keeps. Its claim is made again as it starts."""
    objects = {obj.kind: obj.to_wire() for obj in cluster(KEEPING).objects if obj.name.startswith("trainer")}
    raw = {key: value for key, value in objects[kind].items() if key != "status"}
    if annotations:
        raw["spec"]["template"]["metadata"]["annotations"] = annotations
    applied, deleted = ([], [read_object(raw)]) if annotations is None else ([read_object(raw)], [])
    changed = changed_cluster(cluster(KEEPING), applied, deleted, "default")
    assert [change.action for change in changed.changes] == [action]
    became = vm_changes(changed, lambda: False, lambda: None, lambda done, total: None)
    assert [(effect.effect, effect.title) for effect in became] == effects
