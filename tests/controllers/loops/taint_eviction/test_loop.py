"""The loop of device taint eviction on the embedded cluster under virtual time (C-11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.controllers.loops.loop_world import LoopWorld, RecordedMetrics, play, virtual_cluster
from tests.controllers.loops.taint_eviction.objects import claim, gpus, pod, result, rule, taint, toleration
from virt_dra.api.core_v1 import Namespace, Pod
from virt_dra.api.feature_gates import FeatureGates
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.scheduling_v1 import PodDisruptionBudget
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.names import counted_suffixes
from virt_dra.cluster.port import ApiError, NotFound, Unavailable
from virt_dra.simulator.control_plane import LOOPS, AmbientSources, control_plane
from virt_dra.simulator.virtual_time import run_virtually, virtual_now

LOOP = "device taint eviction"
MARKED = ("Pod/vm", "Normal", "DeviceTaintManagerEviction", "Marking for deletion")
CANCELLED = ("Pod/vm", "Normal", "DeviceTaintManagerEviction", "Cancelling deletion")


async def running_vm(world: LoopWorld, *tolerations: Json, name: str = "vm", device: str = "gpu-0") -> Pod:
    """A pod on a node that has the device for ever, unless somebody evicts it: a finalizer keeps the object."""
    vm = await world.create(pod(name, f"{name}-claim", finalizers=("example.com/kept",)))
    await world.create(claim(f"{name}-claim", result(device, tolerations=list(tolerations)), reserved=(vm,)))
    return vm


async def condition(world: LoopWorld, name: str = "rule") -> tuple[str, str, str] | None:
    conditions = (await world.cluster.get(DeviceTaintRule, name)).status.conditions
    return (conditions[0].status, conditions[0].reason, conditions[0].message) if conditions else None


async def is_deleted(world: LoopWorld, name: str = "vm") -> bool:
    return (await world.cluster.get(Pod, name, "lab")).metadata.deletion_timestamp is not None


def test_a_pod_is_marked_and_deleted_when_its_device_is_tainted() -> None:
    """C-11.6: event, condition and deletion, once; counted (C-11.9)."""

    async def story(world: LoopWorld) -> None:
        await running_vm(world)
        await world.create(gpus({"gpu-0": [taint()]}))
        await world.calm()
        vm = await world.cluster.get(Pod, "vm", "lab")
        (marked,) = vm.status.conditions
        assert marked.to_wire() == {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByDeviceTaintManager",
            "message": "Device Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": "2026-11-22T12:00:00Z",
        }
        assert vm.metadata.deletion_timestamp is not None
        assert await world.events() == [MARKED]
        assert world.metrics.counters == {"device_taint_eviction_controller_pod_deletions_total": 1}
        assert world.metrics.observations == {"device_taint_eviction_controller_pod_deletion_duration_seconds": [0.0]}

    play(story, LOOP)


def test_a_toleration_delays_and_the_end_of_the_taint_cancels() -> None:
    """C-11.5, C-11.10: an event for the pod; nothing is deleted later."""

    async def story(world: LoopWorld) -> None:
        await running_vm(world, toleration(60))
        published = await world.create(gpus({"gpu-0": [taint()]}))
        await world.calm(59)
        assert not await is_deleted(world)
        await world.cluster.update(published.with_(spec=gpus({"gpu-0": []}).spec))
        await world.calm(60)
        assert not await is_deleted(world)
        assert await world.events() == [CANCELLED]

    play(story, LOOP)


def test_the_pod_goes_when_the_toleration_ends() -> None:
    """C-11.6: not a second before."""

    async def story(world: LoopWorld) -> None:
        await running_vm(world, toleration(60))
        await world.create(gpus({"gpu-0": [taint()]}))
        await world.calm(59.5)
        assert not await is_deleted(world)
        await world.calm(1)
        assert await is_deleted(world)
        assert await world.events() == [MARKED]

    play(story, LOOP)


def test_a_rule_says_what_is_pending_at_once_and_what_it_did_ten_seconds_later() -> None:
    """C-11.8, C-11.9."""

    async def story(world: LoopWorld) -> None:
        await running_vm(world)
        await running_vm(world, name="other", device="gpu-1")
        await running_vm(world, name="elsewhere", device="gpu-2")
        await world.create(rule(selector={"device": "gpu-0"}), rule("wide", selector={"pool": "node-a"}))
        await world.calm()
        assert await condition(world) == ("True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.")
        assert [await is_deleted(world, name) for name in ("vm", "other", "elsewhere")] == [True, True, True]
        await world.calm(8)
        assert await condition(world) == ("True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.")
        await world.calm(1)
        assert await condition(world) == ("False", "Completed", "1 pod evicted since starting the controller.")

    play(story, LOOP)


def test_a_rule_waits_for_pods_that_tolerate_it_for_a_while() -> None:
    """C-11.9: pending are those that are delayed, too."""

    async def story(world: LoopWorld) -> None:
        await running_vm(world, toleration(25))
        await running_vm(world, name="patient")
        await world.create(rule())
        await world.calm()
        await world.calm(10)
        assert await condition(world) == (
            "True",
            "PodsPendingEviction",
            "1 pod needs to be evicted in 1 namespace. 1 pod evicted since starting the controller.",
        )
        await world.calm(30)
        assert await condition(world) == ("False", "Completed", "2 pods evicted since starting the controller.")

    play(story, LOOP)


def test_a_dry_run_counts_devices_and_pods_and_evicts_nobody() -> None:
    """C-11.8: it isn't updated; another spec is counted anew, and NoExecute in place of None evicts."""

    async def story(world: LoopWorld) -> None:
        await running_vm(world)
        await running_vm(world, toleration(), name="tolerant", device="gpu-1")
        await world.create(gpus({"gpu-0": [], "gpu-1": [], "gpu-2": []}))
        dry = await world.create(rule(effect="None"))
        await world.calm()
        ending = (
            "if the effect was NoExecute. This information will not be updated again. "
            "Recreate the DeviceTaintRule to trigger an update."
        )
        first = (
            "3 published devices selected. 2 allocated devices selected. 1 "
            f"pod would be evicted in 1 namespace {ending}"
        )
        assert await condition(world) == ("False", "NoEffect", first)
        await running_vm(world, name="late", device="gpu-2")
        await world.calm(60)
        assert await condition(world) == ("False", "NoEffect", first)
        narrow = {"spec": {"deviceSelector": {"device": "gpu-2"}}}
        await world.cluster.patch(DeviceTaintRule, dry.name, merge=narrow)
        await world.calm()
        one = (
            f"1 published device selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace {ending}"
        )
        assert await condition(world) == ("False", "NoEffect", one)
        assert not await is_deleted(world, "late")
        await world.cluster.patch(DeviceTaintRule, dry.name, merge={"spec": {"taint": {"effect": "NoExecute"}}})
        await world.calm()
        assert await is_deleted(world, "late")
        assert not await is_deleted(world)

    play(story, LOOP)


def test_a_rule_with_another_effect_evicts_nobody() -> None:
    """C-11.8, C-11.10."""

    async def story(world: LoopWorld) -> None:
        await running_vm(world)
        await world.create(rule(effect="NoSchedule"))
        await world.calm(20)
        assert await condition(world) == ("False", "OtherEffect", "Eviction only happens for the NoExecute effect.")
        assert not await is_deleted(world)

    play(story, LOOP)


def test_without_the_gate_of_rules_they_do_nothing() -> None:
    """C-2.1: DRADeviceTaintRules; published taints evict all the same."""

    async def story(world: LoopWorld) -> None:
        await running_vm(world)
        await world.create(rule())
        await world.calm(20)
        assert await condition(world) is None
        assert not await is_deleted(world)
        await world.create(gpus({"gpu-0": [taint()]}))
        await world.calm()
        assert await is_deleted(world)

    play(story, LOOP, gates=FeatureGates(device_taint_rules=False))


def test_a_pod_that_comes_to_a_tainted_device_goes_when_it_has_a_node() -> None:
    """C-11.4: the node, a reservation and the names of generated claims are what changes about a pod."""

    async def story(world: LoopWorld) -> None:
        await world.create(rule())
        vm = await world.create(pod(node=None))
        await world.create(claim(reserved=(vm,)))
        await world.calm(15)
        assert not await is_gone(world)
        assert await condition(world) == ("False", "NotStarted", "")
        await world.cluster.update(vm.with_(spec=vm.spec.with_(node_name="node-a")))
        await world.calm(15)
        assert await is_gone(world)
        assert await condition(world) == ("False", "Completed", "1 pod evicted since starting the controller.")

    play(story, LOOP)


async def is_gone(world: LoopWorld, name: str = "vm") -> bool:
    try:
        await world.cluster.get(Pod, name, "lab")
    except NotFound:
        return True
    return False


def test_a_reservation_that_comes_evicts_and_one_that_goes_cancels() -> None:
    """C-11.4, C-22.14."""

    async def story(world: LoopWorld) -> None:
        await world.create(gpus({"gpu-0": [taint()]}))
        vm = await world.create(pod())
        second = await world.create(pod("second", "claim"))
        held = await world.create(claim("claim", result(tolerations=[toleration(60)]), reserved=(vm,)))
        await world.calm()
        consumers = [{"resource": "pods", "name": "second", "uid": second.metadata.uid}]
        await world.cluster.patch(
            ResourceClaim, held.name, "lab", merge={"status": {"reservedFor": consumers}}, subresource="status"
        )
        await world.calm(60)
        assert [await is_gone(world, name) for name in ("vm", "second")] == [False, True]
        assert await world.events() == [("Pod/second", *MARKED[1:]), CANCELLED]

    play(story, LOOP)


class FaultyCluster:
    """A cluster whose first answers to some writes are errors; what is left out is the embedded one's."""

    def __init__(self, cluster: MemoryCluster, errors: Mapping[str, list[ApiError]]) -> None:
        self._cluster = cluster
        self._errors = errors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def delete(
        self, kind: type[TypedObject], name: str, namespace: str = "", *,
        uid: str = "", resource_version: str = "", grace_seconds: int | None = None,
    ) -> None:  # fmt: skip
        if self._errors["delete"]:
            raise self._errors["delete"].pop(0)
        await self._cluster.delete(
            kind, name, namespace, uid=uid, resource_version=resource_version, grace_seconds=grace_seconds
        )


def test_what_fails_is_tried_again_and_counted_once() -> None:
    """C-11.6: an error between condition and deletion; the event repeats, which counts up its Event."""
    errors: dict[str, list[ApiError]] = {"delete": [Unavailable("later"), Unavailable("later")]}

    async def story(world: LoopWorld) -> None:
        await running_vm(world)
        await world.create(rule())
        await world.calm(20)
        assert await is_deleted(world)
        assert await world.events() == [MARKED]
        assert await condition(world) == ("False", "Completed", "1 pod evicted since starting the controller.")
        assert world.metrics.counters == {"device_taint_eviction_controller_pod_deletions_total": 1}

    play(story, LOOP, between=lambda cluster: FaultyCluster(cluster, errors))


@pytest.mark.parametrize("seconds", [0.0, 30.0])
def test_a_pod_that_somebody_else_deletes_isnt_marked(seconds: float) -> None:
    """C-11.5, C-11.6: an eviction of one that is gone is over without an event."""

    async def story(world: LoopWorld) -> None:
        await running_vm(world, toleration(20))
        await world.create(gpus({"gpu-0": [taint()]}))
        await world.cluster.delete(Pod, "vm", "lab")
        if not seconds:
            await world.cluster.patch(Pod, "vm", "lab", merge={"metadata": {"finalizers": None}})
        await world.calm(60)
        assert await world.events() == []

    play(story, LOOP)


def test_a_slice_whose_device_moves_to_another_pool_is_followed() -> None:
    """C-11.4: a slice that is replaced, and one that goes."""

    async def story(world: LoopWorld) -> None:
        await running_vm(world, toleration(60))
        await world.create(gpus({"gpu-0": [taint()]}, "old"))
        await world.create(gpus({"gpu-0": []}, "new", generation=2))
        await world.calm(61)
        assert await world.events() == [CANCELLED]
        await world.cluster.delete(ResourceSlice, "new")
        await world.calm()
        assert await is_deleted(world)

    play(story, LOOP)


def test_a_disruption_budget_protects_nobody_from_a_taint() -> None:
    """C-11.7, C-20.14."""

    async def story(world: LoopWorld) -> None:
        budget = {"metadata": {"name": "all", "namespace": "lab"}, "spec": {"maxUnavailable": 0, "selector": {}}}
        await world.create(PodDisruptionBudget.from_wire(budget))
        await running_vm(world)
        await world.create(gpus({"gpu-0": [taint()]}))
        await world.calm()
        assert await is_deleted(world)

    play(story, LOOP)


def test_after_a_restart_evictions_are_as_before_and_counts_begin_anew() -> None:
    """C-22.15, C-11.9: what was scheduled is derived from the objects; what was counted is lost, and a pod that still
    goes counts anew."""

    async def main() -> None:
        world = LoopWorld(virtual_cluster(), RecordedMetrics())
        await world.cluster.create(Namespace.from_wire({"metadata": {"name": "lab"}}))
        for name in ("vm", "gone"):
            await running_vm(world, name=name)
        await running_vm(world, toleration(60), name="patient")
        names = counted_suffixes()
        loops = tuple(loop for loop in LOOPS if loop.name == LOOP)
        async with control_plane(world.cluster, AmbientSources(virtual_now, names, lambda: 0.5), loops=loops):
            await world.create(rule())
            await world.calm(15)
            one_left = "1 pod needs to be evicted in 1 namespace."
            assert await condition(world) == (
                "True",
                "PodsPendingEviction",
                f"{one_left} 2 pods evicted since starting the controller.",
            )
        await world.cluster.patch(Pod, "gone", "lab", merge={"metadata": {"finalizers": None}})
        async with control_plane(world.cluster, AmbientSources(virtual_now, names, lambda: 0.5), loops=loops):
            await world.calm(10)
            assert await condition(world) == (
                "True",
                "PodsPendingEviction",
                f"{one_left} 1 pod evicted since starting the controller.",
            )
            assert not await is_deleted(world, "patient")
            await world.calm(60)
            assert await is_deleted(world, "patient")
            assert await condition(world) == ("False", "Completed", "2 pods evicted since starting the controller.")

    run_virtually(main())


def test_a_rule_that_is_made_again_isnt_the_one_before() -> None:
    """C-11.9: counts belong to a rule's UID."""

    async def story(world: LoopWorld) -> None:
        await running_vm(world)
        await world.create(rule())
        await world.calm(12)
        assert await condition(world) == ("False", "Completed", "1 pod evicted since starting the controller.")
        await world.cluster.delete(DeviceTaintRule, "rule")
        await world.create(rule())
        await world.calm()
        assert await condition(world) == ("False", "NotStarted", "")

    play(story, LOOP)
