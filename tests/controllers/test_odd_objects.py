"""Whatever an API server may hold, planning for a VMI raises nothing and its plans hold valid objects."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Any

import pytest

from tests.controllers.listed_sources import ListedSources
from tests.controllers.published_world import BASE, NOW
from tests.controllers.standalone.world import SETTINGS
from virt_dra.api import names
from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.paths import INTEGRATION_ANNOTATION
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.api.wire import Json, WireError
from virt_dra.controllers.beside_kubevirt import reconcile as beside_kubevirt
from virt_dra.controllers.devices import inputs as device_inputs
from virt_dra.controllers.standalone import reconcile as standalone
from virt_dra.controllers.standalone import vm_lifecycle
from virt_dra.controllers.writes import Create, PatchAnnotations, Write

ODD: tuple[Any, ...] = (
    None, "", "x" * 300, "../..", "a\nb", "</x>", "gpus", "gpu", "d0", 0, -1, 2**62, True, [], {}, [None], ["x"], [{}],
    {"": ""}, "0000:01:00.0", "Running", "Failed", "2026-11-21T08:59:00Z", "not a time", {"string": "0000:0a:00.0"},
    {"strings": ["a", "b"]},
)  # fmt: skip
RECORD = {
    "format": 1,
    "pairs": [
        {"claim": "gpus", "request": "gpu", "path": "metadata-shim", "layout": "KEP-5304"},
        {"claim": "gpus", "request": "nic", "path": "device-plugin"},
    ],
    "devices": [{"kind": "hostDevices", "name": "card", "resource": "v.com/x", "claim": "gpus", "request": "nic"}],
}
WORLD: Json = {
    **BASE,
    "rules": [{"metadata": {"name": "r"},
               "spec": {"deviceSelector": {"driver": "gpu.example.com"},
                   "taint": {"key": "k", "effect": "NoExecute"}}}],
    "stored": {
        "metadata": {"name": "fedora", "namespace": "lab", "uid": "s",
            "ownerReferences": [{"uid": "vmi-1", "controller": True}]},
        "status": {
            "ready": "1/1", "podUID": "pod-1", "nodeName": "node-a",
            "conditions": [{"type": "Allocatable", "status": "False"}],
            "devices": [{"name": "g0", "kind": "gpus", "claimName": "gpus", "requestName": "gpu", "device": "d0",
                         "pciAddress": "0000:01:00.0"}],
        },
    },
    "record": RECORD,
    "vm": {"metadata": {"name": "fedora", "namespace": "lab", "uid": "vm-1"}, "spec": {"runStrategy": "Always"},
           "status": {"startFailure": {"consecutiveFailCount": 1, "retryAfterTimestamp": "2026-11-21T08:59:00Z"},
               "conditions": []}},
}  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in inside for place in places(inner, (*path, key)))]


def made_odd(chance: random.Random) -> Json:
    world = deepcopy(WORLD)
    for _ in range(chance.randint(1, 4)):
        path = chance.choice([place for place in places(world) if len(place) > 1])
        owner: Any = world
        for part in path[:-1]:
            owner = owner[part]
        if chance.random() < 0.2 and isinstance(owner, dict):
            del owner[path[-1]]
        else:
            owner[path[-1]] = deepcopy(chance.choice(ODD))
    return world


def plans(world: Json) -> list[Write]:
    """Every plan that there is for this world. WireError: no API server would have stored it."""
    pod = Pod.from_wire(world["pod"])
    record = {INTEGRATION_ANNOTATION: json.dumps(world["record"])}
    pod = pod.with_(metadata=pod.metadata.with_(annotations={**pod.metadata.annotations, **record}))
    vmi = VirtualMachineInstance.from_wire(world["vmi"])
    sources = ListedSources(
        [vmi],
        [pod],
        [ResourceClaim.from_wire(claim) for claim in world["claims"]],
        [ResourceSlice.from_wire(slice_) for slice_ in world["slices"]],
        [DeviceTaintRule.from_wire(rule) for rule in world["rules"]],
        [VirtualMachineInstanceDevices.from_wire(world["stored"])],
    )
    actions: list[Write] = []
    inputs = device_inputs.gather(sources, vmi.key, NOW)
    if inputs is not None:
        beside = beside_kubevirt.plan(inputs)
        actions += [*beside.first, *beside.then]
        for event in beside.events:
            assert 0 < len(event.message) <= 1024
    alone = standalone.gather(sources, vmi.key, NOW, SETTINGS)
    if alone is not None:
        actions += standalone.plan(alone).first
    vm = VirtualMachine.from_wire(world["vm"])
    actions += vm_lifecycle.plan(vm_lifecycle.gather(vm, sources, NOW)).actions
    return actions


@pytest.mark.parametrize("seed", range(5))
def test_odd_objects_are_planned_for_without_a_traceback(seed: int) -> None:
    chance, planned = random.Random(seed), 0
    for _ in range(100):
        world = made_odd(chance)
        if (
            not all(isinstance(world.get(kind), list) for kind in ("claims", "slices", "rules"))
            or world.keys() != WORLD.keys()
        ):
            continue
        try:
            actions = plans(world)
        except WireError:
            continue
        planned += 1
        for action in actions:
            if isinstance(action, PatchAnnotations):
                assert all(names.label_key(key.lower()) == () for key in action.annotations)
            elif isinstance(action, Create):
                assert (
                    type(action.obj).from_wire(json.loads(json.dumps(action.obj.to_wire()))).to_wire()
                    == action.obj.to_wire()
                )
    assert planned > 20
