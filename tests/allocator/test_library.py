"""`allocate` as a library: claims as users write them, or as a cluster's dump has them."""

from __future__ import annotations

from typing import Any

import pytest

from virt_dra.allocator import Allocated, FatalError, Snapshot, Unsatisfiable, allocate, explain
from virt_dra.allocator.explain import lines
from virt_dra.api.core_v1 import Node
from virt_dra.api.reading.scheme import read_object
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice

NODE = Node.from_wire({"metadata": {"name": "n1"}})
CLASS = DeviceClass.from_wire({"metadata": {"name": "gpu"}})


def _slice(*devices: str, node: str = "n1", **of_each: Any) -> ResourceSlice:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": name, **of_each} for name in devices]
    return ResourceSlice.from_wire(
        {"metadata": {"name": node}, "spec": {"driver": "d", "nodeName": node, "pool": pool, "devices": listed}}
    )


def _claim(name: str, allocation: dict[str, Any] | None = None, **exactly: Any) -> ResourceClaim:
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}]
    status = {"status": {"allocation": allocation}} if allocation is not None else {}
    return ResourceClaim.from_wire(
        {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": {"requests": requests}}, **status}
    )


def _held(device: str, node: str | None = "n1", **more: Any) -> dict[str, Any]:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    selector = {"nodeSelector": {"nodeSelectorTerms": terms}} if node else {}
    return {
        "devices": {"results": [{"request": "r", "driver": "d", "pool": node or "n1", "device": device, **more}]},
        **selector,
    }


def _devices(outcome: Allocated | Unsatisfiable) -> list[str]:
    assert isinstance(outcome, Allocated), outcome
    return [result.device for allocation in outcome.results for result in allocation.devices.results]


def test_a_claim_without_defaults_asks_for_one_device() -> None:
    assert _devices(allocate(Snapshot.build([_slice("a", "b")], [CLASS]), [_claim("c")], NODE)) == ["a"]


def test_a_claim_of_an_older_version_is_taken_as_it_is_read() -> None:
    raw = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
    }
    claim = read_object({**raw, "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}}})
    assert isinstance(claim, ResourceClaim)
    assert _devices(allocate(Snapshot.build([_slice("a")], [CLASS]), [claim], NODE)) == ["a"]


def test_a_toleration_without_operator_tolerates_the_value() -> None:
    tainted = _slice("a", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    snapshot = Snapshot.build([tainted], [CLASS])
    assert _devices(allocate(snapshot, [_claim("c", tolerations=[{"key": "k", "value": "v"}])], NODE)) == ["a"]
    assert isinstance(allocate(snapshot, [_claim("c", tolerations=[{"key": "k", "value": "w"}])], NODE), Unsatisfiable)


def test_alternatives_of_a_list_have_defaults_too() -> None:
    first = [{"name": "x", "deviceClassName": "gpu", "count": 2}, {"name": "y", "deviceClassName": "gpu"}]
    spec = {"devices": {"requests": [{"name": "r", "firstAvailable": first}]}}
    claim = ResourceClaim.from_wire({"metadata": {"name": "c", "namespace": "default"}, "spec": spec})
    assert _devices(allocate(Snapshot.build([_slice("a")], [CLASS]), [claim], NODE)) == ["a"]


@pytest.mark.parametrize("known", [False, True], ids=["the snapshot does not know it", "the snapshot knows it"])
def test_what_a_claim_has_it_keeps_and_nobody_else_gets(known: bool) -> None:
    has = _claim("has", _held("a"))
    snapshot = Snapshot.build([_slice("a", "b")], [CLASS], [has] if known else [])
    outcome = allocate(snapshot, [_claim("first"), has, _claim("second", count=1)], NODE)
    assert isinstance(outcome, Unsatisfiable)
    outcome = allocate(snapshot, [_claim("first"), has], NODE)
    assert isinstance(outcome, Allocated)
    assert _devices(outcome) == ["b", "a"]
    assert outcome.results[1] is has.status.allocation
    assert _devices(allocate(snapshot, [has], NODE)) == ["a"]


def test_a_share_that_the_snapshot_knows_is_counted_once() -> None:
    shared = _slice("a", allowMultipleAllocations=True, capacity={"memory": {"value": "10Gi"}})
    share = "7b0f4c1e-0000-4000-8000-000000000001"
    has = _claim(
        "has", _held("a", shareID=share, consumedCapacity={"memory": "4Gi"}), capacity={"requests": {"memory": "4Gi"}}
    )
    wants = _claim("wants", capacity={"requests": {"memory": "6Gi"}})
    for taken in ([], [has]):
        assert _devices(allocate(Snapshot.build([shared], [CLASS], taken), [has, wants], NODE)) == ["a", "a"]
    more = _claim("more", capacity={"requests": {"memory": "7Gi"}})
    assert isinstance(allocate(Snapshot.build([shared], [CLASS], [has]), [has, more], NODE), Unsatisfiable)


def test_a_claim_that_is_allocated_elsewhere_fits_only_there() -> None:
    has = _claim("has", _held("a", node="n2"))
    snapshot = Snapshot.build([_slice("a"), _slice("a", node="n2")], [CLASS], [has])
    outcome = allocate(snapshot, [has, _claim("c")], NODE)
    assert isinstance(outcome, Unsatisfiable)
    assert outcome.explanation is not None
    assert outcome.explanation.summary == "resourceclaim not available on the node"
    assert lines(outcome.explanation) == [
        "node n1: resourceclaim not available on the node (0 devices reachable)",
        "  claim default/has: allocated already, and its devices can't be used from this node",
    ]
    assert explain(snapshot, [has, _claim("c")], NODE) == outcome.explanation
    assert allocate(snapshot, [has], NODE, explain=False) == Unsatisfiable("n1", None, 0)


def test_an_allocation_without_a_node_selector_can_be_used_everywhere() -> None:
    has = _claim("has", _held("a", node=None))
    assert _devices(allocate(Snapshot.build([_slice("a", "b")], [CLASS]), [_claim("c"), has], NODE)) == ["b", "a"]


def test_a_whole_dump_is_one_call() -> None:
    claims = [_claim("training", _held("a")), _claim("new")]
    pending = [claim for claim in claims if claim.status.allocation is None]
    assert _devices(allocate(Snapshot.build([_slice("a", "b")], [CLASS], claims), pending, NODE)) == ["b"]


def test_an_allocation_whose_node_selector_can_not_be_read_is_an_error() -> None:
    broken = _held("a")
    broken["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["operator"] = "Near"
    with pytest.raises(FatalError, match=r"resource claim default/has: status\.allocation\.nodeSelector: "):
        allocate(Snapshot.build([_slice("a")], [CLASS]), [_claim("has", broken)], NODE)


def test_a_claims_manifest_has_what_the_claim_of_the_dump_has() -> None:
    snapshot = Snapshot.build([_slice("a", "b")], [CLASS], [_claim("mine", _held("b"))])
    assert _devices(allocate(snapshot, [_claim("mine"), _claim("other")], NODE)) == ["b", "a"]
    assert explain(snapshot, [_claim("mine")], NODE).requests == ()
    (held,) = [value.status.allocation for value in snapshot.allocated.values()]
    assert held is not None
    assert _devices(allocate(snapshot.without_allocation(held), [_claim("mine")], NODE)) == ["a"], "it was released"
    for uid, device in (("u", "b"), ("new", "a")):
        taken = ResourceClaim.from_wire(
            {**_claim("mine", _held("b")).to_wire(), "metadata": {"name": "mine", "namespace": "n", "uid": "u"}}
        )
        asked = ResourceClaim.from_wire(
            {**_claim("mine").to_wire(), "metadata": {"name": "mine", "namespace": "n", "uid": uid}}
        )
        assert _devices(allocate(Snapshot.build([_slice("a", "b")], [CLASS], [taken]), [asked], NODE)) == [device]


def test_a_claim_that_is_given_twice_gets_its_devices_once() -> None:
    snapshot = Snapshot.build([_slice("a", "b", "c")], [CLASS])
    assert _devices(allocate(snapshot, [_claim("x"), _claim("x"), _claim("y")], NODE)) == ["a", "a", "b"]
    held = _claim("x", _held("b"))
    assert _devices(allocate(snapshot, [held, _claim("y"), held], NODE)) == ["b", "a", "b"]
    with pytest.raises(
        FatalError, match=r"^claim default/x: given twice with different content; leave one of them out$"
    ):
        allocate(snapshot, [_claim("x"), _claim("x", count=2)], NODE)
    unnamed = ResourceClaim.from_wire({"spec": _claim("x").spec.to_wire()})
    assert _devices(allocate(snapshot, [unnamed, unnamed], NODE)) == ["a", "b"]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"deviceClassName": "gpu"}, "deviceClassName stands under exactly in v1"),
        ({"exactly": {"deviceClassName": "gpu", "count": -1}}, "count -1 must be greater than zero"),
        (
            {"firstAvailable": [{"name": "a", "deviceClassName": "gpu", "count": -2}]},
            "count -2 must be greater than zero",
        ),
    ],
)
def test_a_claim_that_means_nothing_is_refused(request_: dict[str, Any], message: str) -> None:
    spec = {"devices": {"requests": [{"name": "r", **request_}]}}
    claim = ResourceClaim.from_wire({"metadata": {"name": "c", "namespace": "default"}, "spec": spec})
    with pytest.raises(FatalError, match=f"^claim default/c, request r: {message}"):
        allocate(Snapshot.build([_slice("a")], [CLASS]), [claim], NODE)


def test_claims_may_come_one_by_one() -> None:
    snapshot = Snapshot.build(iter([_slice("a", "b")]), iter([CLASS]), iter([_claim("other", _held("a"))]))
    assert _devices(allocate(snapshot, iter([_claim("x")]), NODE)) == ["b"]
    assert explain(snapshot, iter([_claim("x", count=2)]), NODE).requests


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        (_claim("x"), "claims: a sequence of ResourceClaims is needed, this is one; write [claim]"),
        (
            [_claim("x").to_wire()],
            "claims[0]: a ResourceClaim is needed, this is of type dict; ResourceClaim.from_wire reads one",
        ),
        ([_claim("x"), CLASS], "claims[1]: a ResourceClaim is needed, this is of type DeviceClass"),
        (["x"], "claims[0]: a ResourceClaim is needed, this is of type str"),
    ],
)
def test_what_is_no_claim_is_named(claims: Any, message: str) -> None:
    for function in (allocate, explain):
        with pytest.raises(TypeError) as caught:
            function(Snapshot.build([_slice("a")], [CLASS]), claims, NODE)
        assert str(caught.value) == message


def test_a_snapshot_of_objects_of_another_kind_is_refused() -> None:
    for given, message in (
        (([CLASS], [CLASS]), "slices[0]: a ResourceSlice is needed, this is of type DeviceClass"),
        (([], [_slice("a")]), "classes[0]: a DeviceClass is needed, this is of type ResourceSlice"),
        (
            ([], [], [{}]),
            "claims[0]: a ResourceClaim is needed, this is of type dict; ResourceClaim.from_wire reads one",
        ),
    ):
        with pytest.raises(TypeError) as caught:
            Snapshot.build(*given)
        assert str(caught.value) == message
