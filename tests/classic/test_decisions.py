"""What the scheduler, a driver's controller and the claim controller decide, as pure functions, with whole messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.classic.lab import claim, node, pod, resource_class
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.wire import Json
from virt_dra.classic.claim_plans import for_claim
from virt_dra.classic.driver_plans import (
    AllocateNow,
    Deallocate,
    DriverClaimPlan,
    Nothing,
    Unprotect,
    nodes_to_ask_about,
    plan_claim,
    truncated,
    wants_answers,
)
from virt_dra.classic.objects import ClassicClaim, ClassicDeviceClass, PodSchedulingContext, ResourceClass
from virt_dra.classic.release import ClassicRelease
from virt_dra.classic.scheduling.extension_points import (
    ClassicView,
    NodeRefused,
    NotNow,
    SchedulingState,
    chosen_node,
    filter_node,
    negotiate,
    post_filter,
    potential_nodes,
    pre_enqueue,
    pre_filter,
)
from virt_dra.classic.structured import Inventory, parameters_of
from virt_dra.classic.versions import read_classic

GPU = "gpu.example.com"
ON_N1 = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
ALLOCATED: Json = {"driverName": GPU, "allocation": {"availableOnNodes": ON_N1}}
OTHER = {"resource": "pods", "name": "q", "uid": "2"}
MINE = {"resource": "pods", "name": "p", "uid": "1"}


def _claim(
    name: str = "c", *, finalizers: Sequence[str] = (), deleted: bool = False, mode: str = "", **status: object
) -> ClassicClaim:
    spec = {"allocationMode": mode} if mode else {}
    raw = claim(name, "gpu", **spec)
    raw["metadata"] |= {"uid": f"u-{name}", "finalizers": list(finalizers)} | (
        {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    )
    read = read_classic({**raw, "status": status})
    assert isinstance(read, ClassicClaim)
    return read


def _pod(*claims: str) -> Pod:
    raw = pod("p", *claims)
    raw["metadata"]["uid"] = "1"
    return Pod.from_wire(raw)


def _context(spec: Json | None = None, answers: Mapping[str, Sequence[str]] | None = None) -> PodSchedulingContext:
    entries = [{"name": name, "unsuitableNodes": list(nodes)} for name, nodes in (answers or {}).items()]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": True}
    metadata = {"name": "p", "namespace": "lab", "ownerReferences": [owner]}
    return PodSchedulingContext.from_wire(
        {"metadata": metadata, "spec": spec or {}, "status": {"resourceClaims": entries}}
    )


def _node(name: str, **labels: str) -> Node:
    return Node.from_wire(node(name, **labels))


def _view(
    *claims: ClassicClaim, context: PodSchedulingContext | None = None, minor: int = 30, **of_class: object
) -> ClassicView:
    read = read_classic(resource_class("gpu", GPU, **of_class))
    assert isinstance(read, ResourceClass)
    classes = {"gpu": read}
    by_key = {claim.key: claim for claim in claims}
    device_classes: dict[str, ClassicDeviceClass] = {}
    return ClassicView(
        claim=lambda namespace, name: by_key.get(f"{namespace}/{name}"),
        context=lambda namespace, name: context,
        resource_class=classes.get,
        device_class=device_classes.get,
        parameters=lambda wanted, cls: parameters_of(wanted, cls, (), ()),
        inventory=lambda: Inventory(lambda node: ()),
        release=ClassicRelease(minor),
    )


def _state(view: ClassicView, *claims: str) -> SchedulingState:
    state = pre_filter(_pod(*claims), view)
    assert isinstance(state, SchedulingState)
    return state


# --- scheduler ---

BLOCKED: dict[str, tuple[ClassicClaim, str]] = {
    "immediate": (_claim(mode="Immediate"), "unallocated immediate resourceclaim"),
    "deallocating": (_claim(**ALLOCATED, deallocationRequested=True), "resourceclaim must be reallocated"),
    "in use": (_claim(**ALLOCATED, reservedFor=[OTHER]), "resourceclaim in use"),
    "deleted": (_claim(deleted=True), 'resourceclaim "c" is being deleted'),
    "other class": (
        _claim().with_(spec=_claim().spec.with_(resource_class_name="none")),
        "resource class none does not exist",
    ),
    "immediate of another class": (
        _claim(mode="Immediate").with_(spec=_claim(mode="Immediate").spec.with_(resource_class_name="none")),
        "resource class none does not exist",
    ),
}


@pytest.mark.parametrize("name", BLOCKED)
def test_pre_filter_says_why_no_node_will_do(name: str) -> None:
    """C-18.6: PreFilter."""
    blocked, text = BLOCKED[name]
    assert pre_filter(_pod("c"), _view(blocked)) == NotNow(text)


def test_a_claim_that_isnt_there_holds_the_pod_back_before_the_queue() -> None:
    """C-18.6: PreEnqueue."""
    assert pre_enqueue(_pod("c"), _view()) == NotNow('resourceclaim.resource.k8s.io "c" not found')
    assert pre_enqueue(_pod("c"), _view(minor=31)) == NotNow('could not find ResourceClaim "lab/c"')
    assert pre_enqueue(_pod("c"), _view(_claim())) is None


def test_a_context_of_another_pod_by_that_name_is_not_used() -> None:
    """C-18.6: by UID."""
    foreign = _context().with_(metadata=_context().metadata.with_(owner_references=()))
    assert pre_filter(_pod("c"), _view(_claim(), context=foreign)) == NotNow(
        "PodSchedulingContext object with UID  is not owned by Pod lab/p", error=True
    )


def test_filter_takes_the_claims_nodes_the_classs_and_the_drivers_answers() -> None:
    """C-18.6: Filter."""
    racked = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}]}
    state = _state(_view(_claim(), suitableNodes=racked, context=_context(answers={"c": ["n1"]})), "c")
    assert filter_node(state, _node("n2")) == NodeRefused("excluded by resource class node filter")
    assert filter_node(state, _node("n1", rack="a")) == NodeRefused(
        "resourceclaim cannot be allocated for the node (unsuitable)"
    )
    allocated = _state(_view(_claim(**ALLOCATED)), "c")
    assert filter_node(allocated, _node("n2")) == NodeRefused("resourceclaim not available on the node", (0,))
    immediate = _state(_view(_claim(mode="Immediate", **ALLOCATED)), "c")
    assert filter_node(immediate, _node("n2")) == NodeRefused("resourceclaim not available on the node")


def test_post_filter_deallocates_what_nobody_else_uses() -> None:
    """C-18.6: PostFilter; the claim's own index counts, not its place among the unavailable ones."""
    view = _view(_claim("a", **ALLOCATED, reservedFor=[MINE]), _claim("b", **ALLOCATED))
    state = _state(view, "a", "b")
    second = post_filter(state, {1})
    assert second is not None
    assert second.claim.name == "b"
    shared: Json = {**ALLOCATED, "allocation": {"availableOnNodes": ON_N1, "shareable": True}}
    assert post_filter(_state(_view(_claim(**shared, reservedFor=[OTHER])), "c"), {0}) is None
    selected = _state(_view(_claim(**ALLOCATED), context=_context({"selectedNode": "n9"})), "c")
    first = post_filter(selected, {0})
    assert first is not None
    assert first.context is not None


def test_one_pending_claim_saves_a_round() -> None:
    """C-18.6, C-18.8: Reserve and PreBind."""
    negotiated = negotiate(_state(_view(_claim()), "c"), "n1", ["n1", "n2"], {}, ClassicRelease())
    assert negotiated.spec is not None
    assert negotiated.spec.to_wire() == {"potentialNodes": ["n1", "n2"], "selectedNode": "n1"}
    assert negotiated.waits == NotNow("waiting for resource driver", pending=True)
    two = negotiate(_state(_view(_claim("a"), _claim("b")), "a", "b"), "n1", ["n1", "n2"], {}, ClassicRelease())
    assert two.spec is not None
    assert two.spec.to_wire() == {"potentialNodes": ["n1", "n2"]}
    assert two.waits == NotNow("waiting for resource driver", pending=True)
    alone = negotiate(_state(_view(_claim("a"), _claim("b")), "a", "b"), "n1", ["n1"], {}, ClassicRelease())
    assert alone.spec is not None
    assert alone.spec.potential_nodes == ("n1",)


def test_nothing_is_published_twice_and_older_releases_say_it_otherwise() -> None:
    """C-18.6: 1.27 and 1.28 write in Reserve."""
    context = _context({"selectedNode": "n1", "potentialNodes": ["n1", "n2"]}, {"a": [], "b": ["n2"]})
    state = _state(_view(_claim("a"), _claim("b"), context=context), "a", "b")
    for minor in (28, 30):
        done = negotiate(state, "n1", ["n1"], {}, ClassicRelease(minor))
        assert done.spec is None
        assert done.waits == NotNow("waiting for resource driver to provide information", pending=True)
    chosen = negotiate(_state(_view(_claim()), "c"), "n1", ["n1"], {}, ClassicRelease(28))
    assert chosen.waits == NotNow("waiting for resource driver to allocate resource", pending=True)
    assert negotiate(_state(_view(_claim(**ALLOCATED)), "c"), "n1", ["n1"], {}, ClassicRelease()).waits is None


def test_potential_nodes_are_at_most_128_sorted_and_those_not_asked_about_first() -> None:
    """C-18.1, C-18.6: PreScore."""
    state = _state(_view(_claim("a"), _claim("b")), "a", "b")
    nodes = [f"n{number:03}" for number in range(200)]
    first = potential_nodes(state, nodes, {})
    assert first == tuple(nodes[:128])
    assert potential_nodes(state, nodes, dict.fromkeys(nodes[:128], 1)) == (*nodes[:56], *nodes[128:])
    claims = _state(_view(_claim("a"), _claim("b"), context=_context({"potentialNodes": ["n1", "n2"]})), "a", "b")
    assert potential_nodes(claims, ["n1"], {}) is None


def test_the_node_selected_before_stays_selected_while_it_fits() -> None:
    """C-18.6: deterministic, where upstream chooses at random."""
    state = _state(_view(_claim(), context=_context({"selectedNode": "n3", "potentialNodes": ["n2", "n3"]})), "c")
    assert chosen_node(state, {"n1": 9, "n2": 9, "n3": 1}, {}, {}) == "n3"
    assert chosen_node(state, {"n1": 9, "n2": 1}, {}, {}) == "n2"
    assert chosen_node(state, {"n1": 1, "n0": 9}, {"n0": 2}, {}) == "n1"
    assert chosen_node(state, {"n0": 5, "n1": 5}, {}, {"n0": 7}) == "n1"
    assert chosen_node(state, {"n0": 6, "n1": 5}, {}, {"n0": 7}) == "n0"


# --- a driver's controller ---

FINALIZER = "gpu.example.com/deletion-protection"
CLASS = read_classic(resource_class("gpu", GPU))
PLANS: dict[str, tuple[ClassicClaim, DriverClaimPlan]] = {
    "in use": (_claim(**ALLOCATED, reservedFor=[MINE], finalizers=[FINALIZER], deleted=True), Nothing()),
    "released": (_claim(**ALLOCATED, deallocationRequested=True, finalizers=[FINALIZER]), Deallocate()),
    "deleted before anything was recorded": (_claim(finalizers=[FINALIZER], deleted=True), Deallocate()),
    "deleted, of another driver": (_claim(finalizers=["other.io/deletion-protection"], deleted=True), Nothing()),
    "allocated": (_claim(**ALLOCATED, finalizers=[FINALIZER], mode="Immediate"), Nothing()),
    "delayed": (_claim(finalizers=[FINALIZER]), Nothing()),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_driver_does_what_a_claim_needs(name: str) -> None:
    """C-18.2, C-18.5.1."""
    subject, plan = PLANS[name]
    assert isinstance(CLASS, ResourceClass)
    assert plan_claim(subject, lambda claim, name: CLASS, GPU) == plan


def test_a_driver_allocates_immediate_claims_of_its_own_classes_only() -> None:
    """C-18.5.1: a missing class, one of another driver, a structured one."""
    immediate = _claim(mode="Immediate")
    assert isinstance(CLASS, ResourceClass)
    assert plan_claim(immediate, lambda claim, name: CLASS, GPU) == AllocateNow(CLASS)
    assert plan_claim(immediate, lambda claim, name: None, GPU) == Nothing(
        missing='resourceclass.resource.k8s.io "gpu" not found'
    )
    assert plan_claim(immediate, lambda claim, name: CLASS, "other.io") == Nothing(retry=True)
    assert plan_claim(immediate, lambda claim, name: CLASS.with_(structured_parameters=True), GPU) == Nothing()


def test_an_interrupted_deallocation_is_finished_an_allocation_left_alone() -> None:
    """The finalizer of a claim that is being released is removed (C-18.5.1)."""
    protected = _claim(finalizers=[FINALIZER])
    assert plan_claim(protected, lambda claim, name: None, GPU, releasing=True) == Unprotect()
    assert plan_claim(protected, lambda claim, name: None, GPU) == Nothing()


def test_of_many_unsuitable_nodes_128_are_published_with_the_selected_one() -> None:
    """As many as the API server takes, the selected one among them (C-18.5.3)."""
    nodes = [f"n{number:03}" for number in range(200)]
    assert truncated(nodes, "n005") == tuple(nodes[:128])
    assert truncated(nodes, "n150") == (*nodes[:127], "n150")
    assert truncated(nodes, "elsewhere") == tuple(nodes[:128])
    assert truncated(["b", "a"], "") == ("a", "b")


def test_a_driver_answers_a_live_context_of_the_living_pod_only() -> None:
    """C-18.5.3: pre-scheduled pods have no potential nodes, and no node is refused for them."""
    assert not wants_answers(_context())
    assert wants_answers(_context({"selectedNode": "n1"}))
    assert nodes_to_ask_about(_context({"selectedNode": "n1"})) == ()
    assert nodes_to_ask_about(_context({"selectedNode": "n3", "potentialNodes": ["n1"]})) == ("n1", "n3")
    assert _context().is_controlled_by(_pod())
    again = _pod().with_(metadata=_pod().metadata.with_(uid="9"))
    assert not _context().is_controlled_by(again)


# --- the claim controller ---


def test_the_last_consumers_end_requests_deallocation_in_the_same_write() -> None:
    """C-18.7."""
    held = _claim(**ALLOCATED, reservedFor=[MINE, OTHER])
    one = for_claim(held, lambda consumer: consumer.uid == "2", None)
    assert one.status is not None
    assert ([consumer.uid for consumer in one.status.status.reserved_for], one.status.deallocating) == (["2"], False)
    none = for_claim(held, lambda consumer: False, None)
    assert none.status is not None
    assert (none.status.status.reserved_for, none.status.deallocating) == ((), True)
    immediate = for_claim(_claim(mode="Immediate", **ALLOCATED, reservedFor=[MINE]), lambda consumer: False, None)
    assert immediate.status is not None
    assert not immediate.status.deallocating


def test_consumers_that_are_no_pods_are_never_dropped() -> None:
    """C-18.7, C-10.9."""
    foreign = {"apiGroup": "batch", "resource": "jobs", "name": "j", "uid": "3"}
    assert for_claim(_claim(**ALLOCATED, reservedFor=[foreign]), lambda consumer: False, None).status is None


@pytest.mark.parametrize("minor", [25, 32])
def test_releases_without_classic_dra_are_refused(minor: int) -> None:
    """C-18.1."""
    with pytest.raises(ValueError, match=rf"^classic DRA is in Kubernetes 1\.26 to 1\.31, not in 1\.{minor}$"):
        ClassicRelease(minor)
