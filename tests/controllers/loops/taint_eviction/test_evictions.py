"""When a claim's taints evict, and what they mean for a pod (C-11.2, C-11.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

import pytest

from tests.controllers.loops.loop_world import LoopWorld, play
from tests.controllers.loops.taint_eviction.objects import (
    ADDED,
    DRIVER,
    claim,
    gpus,
    pod,
    result,
    rule,
    taint,
    toleration,
)
from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import DeviceTaint, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.cluster.port import Invalid
from virt_dra.controllers.loops.taint_eviction.pod_evictions import pod_eviction
from virt_dra.controllers.loops.taint_eviction.taints import AllocatedTaints
from virt_dra.model.evicting.causes import Eviction, TaintCause, claim_eviction, tolerated_until
from virt_dra.simulator.virtual_time import BEGINNING

GPU_0 = (DRIVER, "node-a", "gpu-0")


def eviction(
    allocated: ResourceClaim, slices: Iterable[ResourceSlice] = (), rules: Iterable[DeviceTaintRule] = ()
) -> Eviction | None:
    taints = AllocatedTaints()
    for published in slices:
        taints.change_slice(None, published)
    for taint_rule in rules:
        taints.change_rule(None, taint_rule)
    return taints.change_claim(None, allocated)[1]


def after(seconds: float, *causes: TaintCause) -> Eviction:
    return Eviction(BEGINNING + timedelta(seconds=seconds), causes)


def published(index: int = 0, device: str = "gpu-0", pool: str = "node-a") -> TaintCause:
    return TaintCause(published=True, device=(DRIVER, pool, device), index=index)


def by_rule(name: str = "rule") -> TaintCause:
    return TaintCause(published=False, rule=name)


def test_a_published_taint_evicts_from_when_it_was_added() -> None:
    """C-11.2: only taints with NoExecute count, and the index is the one in the slice (C-11.10)."""
    slices = [gpus({"gpu-0": [taint("slow", "NoSchedule"), taint("odd", "None"), taint()]})]
    assert eviction(claim(), slices) == after(0, published(2))
    assert eviction(claim(), [gpus({"gpu-0": [taint("slow", "NoSchedule")]})]) is None
    assert eviction(claim("claim", result("gpu-1")), slices) is None


def test_only_the_highest_generation_of_a_pool_counts_whether_it_is_complete_or_not() -> None:
    """C-11.1: a device that the new generation doesn't have (yet) has no published taint."""
    old = gpus({"gpu-0": [taint()]}, "old")
    new = gpus({"gpu-1": []}, "new", generation=2)
    assert eviction(claim(), [old, new]) is None
    assert eviction(claim(), [old, gpus({"gpu-1": []}, "other", pool="node-b", generation=2)]) == after(0, published())


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        ({}, True),
        ({"driver": DRIVER}, True),
        ({"driver": "nic.example.com"}, False),
        ({"driver": DRIVER, "pool": "node-a"}, True),
        ({"driver": DRIVER, "pool": "node-b"}, False),
        ({"driver": DRIVER, "pool": "node-a", "device": "gpu-0"}, True),
        ({"driver": DRIVER, "device": "gpu-1"}, False),
        ({"pool": "node-a"}, True),
        ({"device": "gpu-0"}, True),
        ({"pool": "node-b", "device": "gpu-0"}, False),
    ],
)
def test_a_rule_evicts_from_devices_that_nobody_publishes_any_more(selector: Json, selects: bool) -> None:
    """C-3.8, C-11.2: driver, pool and device must all match."""
    assert eviction(claim(), rules=[rule(selector=selector)]) == (after(0, by_rule()) if selects else None)


def test_a_rule_without_a_selector_selects_nothing() -> None:
    """C-3.8."""
    wire = rule().to_wire()
    del wire["spec"]["deviceSelector"]
    assert eviction(claim(), rules=[DeviceTaintRule.from_wire(wire)]) is None


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        ([], 0),
        ([toleration()], None),
        ([toleration(30)], 30),
        ([toleration(30), toleration(10)], 10),
        ([toleration(30), toleration()], None),
        ([toleration(-5)], 0),
        ([toleration(30, key="other")], 0),
        ([toleration(effect="")], 0),
        ([toleration(effect="NoSchedule")], 0),
        ([{"effect": "NoExecute", "operator": "Exists"}], None),
        ([{"effect": "NoExecute", "key": "bad", "value": "much"}], None),
        ([{"effect": "NoExecute", "key": "bad", "value": "little"}], 0),
    ],
)
def test_tolerations_of_the_result_delay_or_prevent_the_eviction(
    tolerations: list[Json], seconds: float | None
) -> None:
    """C-11.2: of those that match, the fewest seconds; without seconds for ever; an empty effect doesn't protect
    (C-20.9)."""
    allocated = claim("claim", result(tolerations=tolerations))
    tainted = [gpus({"gpu-0": [taint(value="much")]})]
    assert eviction(allocated, tainted) == (None if seconds is None else after(seconds, published()))


def test_the_earliest_time_counts_and_every_taint_is_a_reason() -> None:
    """C-11.2: rules first, by name, then slices by driver, pool, device and index; results with admin access count."""
    allocated = claim(
        "claim",
        result("gpu-1", tolerations=[toleration(5)]),
        result(adminAccess=True, tolerations=[toleration(60)]),
        result("gpu-2", pool="another", tolerations=[toleration()]),
    )
    slices = [
        gpus({"gpu-1": [taint(), taint()], "gpu-0": [taint()]}),
        gpus({"gpu-2": [taint()]}, "far", pool="another"),
    ]
    rules = [rule("z", selector={"device": "gpu-0"}), rule("a", selector={"pool": "node-a"})]
    expected = (by_rule("a"), by_rule("z"), published(), published(0, "gpu-1"), published(1, "gpu-1"))
    assert eviction(allocated, slices, rules) == after(5, *expected)


def test_a_toleration_beyond_the_calendar_and_a_taint_without_a_time() -> None:
    """C-11.2: a tenant writes tolerationSeconds; nothing may overflow."""
    allocated = claim("claim", result(tolerations=[toleration(2**63 - 1)]))
    evicted = eviction(allocated, [gpus({"gpu-0": [taint()]})])
    assert evicted is not None
    assert evicted.at.year == 9999
    assert tolerated_until(DeviceTaint(key="bad", effect="NoExecute"), ()) is None
    ancient = tolerated_until(DeviceTaint(key="bad", effect="NoExecute", time_added="0000-01-01T00:00:00Z"), ())
    assert ancient is not None
    assert ancient.year == 1


def test_the_last_moment_of_the_calendar_is_a_time_like_any_other() -> None:
    """On the embedded API server, too: what isn't a time in UTC is refused there."""

    async def story(world: LoopWorld) -> None:
        vm = await world.create(pod())
        await world.create(claim(reserved=(vm,)))
        late = {**taint(), "timeAdded": "9999-12-31T23:59:59Z"}
        await world.create(gpus({"gpu-0": [late]}))
        await world.calm()
        with pytest.raises(Invalid):
            await world.create(gpus({"gpu-0": [{**late, "timeAdded": "9999-12-31T23:59:59-05:00"}]}, "other"))
        assert [pod.name for pod in (await world.cluster.list(Pod)).items] == ["vm"]

    play(story, "device taint eviction")


def evicted(
    name: str, found: Eviction | None, allocated: ResourceClaim
) -> Callable[[str], tuple[ResourceClaim, Eviction | None] | None]:
    return lambda asked: (allocated, found) if asked == name else None


def test_a_pod_is_evicted_at_the_earliest_time_of_its_claims_for_the_reasons_of_all() -> None:
    """C-11.3."""
    vm = pod("vm", "one", "two", "three", "absent")
    evictions = {
        "one": (claim("one", reserved=(vm,)), after(30, published(0, "gpu-1"), published(1))),
        "two": (claim("two", reserved=(vm,)), after(20, by_rule(), published(1))),
        "three": (claim("three", reserved=(vm,)), None),
    }
    assert pod_eviction(vm, evictions.get) == after(20, by_rule(), published(1), published(0, "gpu-1"))


def test_only_claims_that_are_reserved_for_a_pod_with_a_node_evict_it() -> None:
    """C-11.3: also a pod that has finished."""
    vm, other = pod(), pod("other")
    now = after(0, by_rule())
    assert pod_eviction(vm, evicted("claim", now, claim(reserved=(other, vm)))) == now
    assert pod_eviction(vm, evicted("claim", now, claim(reserved=(other,)))) is None
    assert pod_eviction(pod(node=None), evicted("claim", now, claim(reserved=(vm,)))) is None
    done = vm.with_(status=vm.status.with_(phase="Succeeded"))
    assert pod_eviction(done, evicted("claim", now, claim(reserved=(vm,)))) == now


def test_a_generated_claim_evicts_only_the_pod_that_owns_it() -> None:
    """C-11.3, C-3.2: names are reused; the claim of extended resources isn't in spec.resourceClaims and never evicts
    (C-20.8)."""
    vm = pod()
    entry = vm.spec.resource_claims[0].with_(resource_claim_name=None, resource_claim_template_name="template")
    waiting = vm.with_(spec=vm.spec.with_(resource_claims=(entry,)))
    wire = waiting.to_wire()
    wire["status"] = {"resourceClaimStatuses": [{"name": "claim", "resourceClaimName": "vm-claim-x"}]}
    made = type(vm).from_wire(wire)
    now = after(0, by_rule())
    foreign = claim("vm-claim-x", reserved=(vm,))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "vm", "uid": "uid-vm", "controller": True}
    owned = foreign.with_(
        metadata=type(foreign.metadata).from_wire({**foreign.metadata.to_wire(), "ownerReferences": [owner]})
    )
    assert pod_eviction(waiting, evicted("vm-claim-x", now, owned)) is None
    assert pod_eviction(made, evicted("vm-claim-x", now, foreign)) is None
    assert pod_eviction(made, evicted("vm-claim-x", now, owned)) == now
    extended = pod().with_(spec=pod().spec.with_(resource_claims=()))
    assert pod_eviction(extended, evicted("claim", now, claim(reserved=(vm,)))) is None


def test_the_members_of_a_group_are_evicted_only_with_the_gate() -> None:
    """C-11.4, C-3.3."""
    wire = pod().to_wire()
    wire["spec"]["schedulingGroup"] = {"podGroupName": "gang"}
    member = type(pod()).from_wire(wire)
    consumers = [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "any"}]
    shared = ResourceClaim.from_wire(
        {**claim().to_wire(), "status": {**claim().to_wire()["status"], "reservedFor": consumers}}
    )
    now = after(0, by_rule())
    assert pod_eviction(member, evicted("claim", now, shared), workload_claims=True) == now
    assert pod_eviction(member, evicted("claim", now, shared)) is None


def test_times_are_those_of_the_taints() -> None:
    allocation = claim().status.allocation
    assert allocation is not None
    early = DeviceTaint(key="bad", effect="NoExecute", time_added="2026-11-22T11:59:00Z")
    late = early.with_(time_added=ADDED)
    evicted = claim_eviction(
        allocation, lambda device: [(by_rule("late"), late), (by_rule("early"), early)] if device == GPU_0 else []
    )
    assert evicted == after(-60, by_rule("early"), by_rule("late"))
