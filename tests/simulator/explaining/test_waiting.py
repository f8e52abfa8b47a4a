"""What waits is found without looking at the claims of what has its place: the same subjects as those that have no
node, without VMs that are to be stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.cluster.files import read_inputs
from virt_dra.controllers.loops.virtual_machines import wants_instance
from virt_dra.model.feeds.files import placeable_model
from virt_dra.simulator.explaining.waiting import subjects_in

CLUSTERS = ("explain", "inventory", "diff", "contention")
ROOT = Path(__file__).parents[3]


def cluster(example: str) -> list[TypedObject]:
    return [obj.object for obj in read_inputs([ROOT / "examples" / example]).objects]


@pytest.mark.parametrize("phase", ["", "Running", "Succeeded"])
@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("example", CLUSTERS)
def test_it_is_what_has_no_node(example: str, bound: bool, phase: str) -> None:
    """As the examples are, and with all their pods bound, or none."""
    node, objects = "node-1" if bound else None, cluster(example)
    objects = [obj.with_(spec=obj.spec.with_(node_name=node)) if isinstance(obj, Pod) else obj for obj in objects]
    objects = [
        obj.with_(status=obj.status.with_(phase=phase)) if isinstance(obj, VirtualMachineInstance) else obj
        for obj in objects
    ]
    for there in (objects, cluster(example)):
        model = placeable_model(there)
        stopped = {f"VM {vm.key}" for vm in model.of(VirtualMachine) if not wants_instance(vm)}
        assert list(subjects_in(model, bound=False)) == [
            subject for subject in subjects_in(model) if not subject.node and subject.title not in stopped
        ]


@pytest.mark.parametrize(("strategy", "waits"), [("Always", True), ("Halted", False), ("Manual", False)])
def test_a_stopped_vm_waits_for_nothing(strategy: str, waits: bool) -> None:
    objects = [
        obj.with_(spec=obj.spec.with_(run_strategy=strategy)) if isinstance(obj, VirtualMachine) else obj
        for obj in cluster("inventory")
    ]
    model = placeable_model(objects)
    waiting = [subject.title for subject in subjects_in(model, bound=False)]
    assert waiting == [*["VM team-b/archive"] * waits, "VMI team-a/waiting"]
    assert "VM team-b/archive" in [subject.title for subject in subjects_in(model)]


def test_both_are_in_the_examples() -> None:
    subjects = [subject for example in CLUSTERS for subject in subjects_in(placeable_model(cluster(example)))]
    assert {bool(subject.node) for subject in subjects} == {True, False}
