"""Until when a stopped VM's devices are kept, by a model: what the keeper does, from the same objects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from tests.controllers.keeping.stores import filled_stores
from virt_dra.api.core_v1 import Node
from virt_dra.api.keeping.claims import KEPT_LABEL, STOPPED_ANNOTATION
from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.keeping.terms import KEEP_ANNOTATION, NODE_LOSS_ANNOTATION
from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.meta import TypedObject, format_time
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.controllers.keeping.plan import plan
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.keep_ends import (
    DEVICE_TAINTED,
    KEEPING_ENDED,
    LEASE_OVER,
    NODE_LOST,
    OVER_LIMIT,
    RELEASE_REQUESTED,
)
from virt_dra.model.kept import as_started, kept_until, kept_until_json

STOPPED = datetime(2026, 1, 1, tzinfo=UTC)


def vm(name: str, keep: str | None) -> VirtualMachine:
    annotations = {KEEP_ANNOTATION: keep} if keep is not None else {}
    template = {"metadata": {"annotations": annotations}, "spec": {}}
    meta = {"name": name, "namespace": "t", "uid": name}
    return VirtualMachine.from_wire({"metadata": meta, "spec": {"template": template}})


def kept(name: str, minutes: int = 0) -> ResourceClaim:
    """The claim of a VM that stopped so long after the first."""
    stopped = format_time(STOPPED + timedelta(minutes=minutes))
    meta = {
        "name": f"{name}-gpu", "namespace": "t", "labels": {KEPT_LABEL: "true"},
        "annotations": {STOPPED_ANNOTATION: stopped},
        "ownerReferences": [{"kind": "VirtualMachine", "name": name, "uid": name, "controller": True}],
    }  # fmt: skip
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    result = {"request": "r", "driver": "d", "pool": "p", "device": name}
    consumer = {"apiGroup": "kubevirt.io", "resource": "virtualmachines", "name": name, "uid": name}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    return ResourceClaim.from_wire({"metadata": meta, "spec": spec, "status": status})


SLICE = ResourceSlice.from_wire({
    "metadata": {"name": "s"},
    "spec": {
        "driver": "d", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "a"}, {"name": "b"}],
    },
})  # fmt: skip


def policy(name: str, spec: Json, namespace: str = "t") -> KeepPolicy:
    return KeepPolicy.from_wire({"metadata": {"name": name, "namespace": namespace}, "spec": spec})


LEASES = ("true", "30s", "24h")
POLICIES: dict[str, list[KeepPolicy]] = {
    "none": [],
    "of another namespace": [policy("p", {"devices": 0}, "u")],
    "a time": [policy("p", {"stoppedFor": "1h"})],
    "two times": [policy("p", {"stoppedFor": "2h"}), policy("q", {"stoppedFor": "1h"})],
    "no devices": [policy("p", {"devices": 0, "stoppedFor": "1h"})],
    "one device": [policy("p", {"devices": 1})],
    "one of another class": [policy("p", {"classes": [{"deviceClassName": "nic", "devices": 0}]})],
    "none of the class": [policy("p", {"classes": [{"deviceClassName": "gpu", "devices": 0}]})],
}


@pytest.mark.parametrize(("lease", "policies"), list(product(LEASES, POLICIES)))
def test_the_keeper_releases_at_the_time_that_the_model_says_and_not_before(lease: str, policies: str) -> None:
    # The VM stopped after another one, which keeps its device first.
    objects: list[TypedObject] = [
        SLICE, vm("a", "true"), kept("a"), vm("b", lease), kept("b", 5), *POLICIES[policies],
    ]  # fmt: skip
    said = kept_until(kept("b", 5), ClusterModel(objects))
    due = plan(filled_stores(objects).inputs("t/b", STOPPED + timedelta(minutes=5))).requeue_at
    assert (said.until if said is not None else None) == (format_time(due) if due is not None else None)
    if said is None:
        return
    until = datetime.fromisoformat(said.until)
    released = plan(filled_stores(objects).inputs("t/b", until))
    assert [claim.released for claim in released.claims] == [OVER_LIMIT if said.limit else LEASE_OVER]
    before = plan(filled_stores(objects).inputs("t/b", until - timedelta(seconds=1)))
    assert not before.takes_away


@pytest.mark.parametrize(
    ("lease", "policies", "text"),
    [
        ("true", "none", "None"),
        ("24h", "none", "until 2026-01-02T00:05:00Z"),
        ("24h", "two times", "until 2026-01-01T01:05:00Z: KeepPolicy q"),
        ("30s", "no devices", "until 2026-01-01T00:05:30Z"),
        (
            "true", "one device",
            "until 2026-01-01T00:06:00Z: KeepPolicy p lets stopped VMs keep 1 device; with these they would keep 2",
        ),
    ],
)  # fmt: skip
def test_it_says_which_limit_ends_it(lease: str, policies: str, text: str) -> None:
    objects: list[TypedObject] = [
        SLICE, vm("a", "true"), kept("a"), vm("b", lease), kept("b", 5), *POLICIES[policies],
    ]  # fmt: skip
    assert str(kept_until(kept("b", 5), ClusterModel(objects))) == text


def test_without_its_vm_only_a_policys_time_is_the_latest() -> None:
    model = ClusterModel([kept("b"), *POLICIES["a time"]])
    assert kept_until_json(kept_until(kept("b"), model)) == {
        "keptUntil": "2026-01-01T01:00:00Z", "keptUntilIs": "latest", "keepLimit": "KeepPolicy p",
    }  # fmt: skip
    assert str(kept_until(kept("b"), model)) == "until 2026-01-01T01:00:00Z at the latest: KeepPolicy p"
    assert kept_until(kept("b"), ClusterModel([kept("b")])) is None
    recorded = kept("b")
    recorded.metadata.annotations[KEEP_ANNOTATION] = "30m"
    for objects in ([recorded], [recorded, *POLICIES["a time"]]):
        # The VM may say 24h by now, or "false".
        said = kept_until_json(kept_until(recorded, ClusterModel(objects)))
        assert said == {"keptUntil": "2026-01-01T00:30:00Z", "keptUntilIs": "recorded", "keepLimit": None}
        assert str(kept_until(recorded, ClusterModel(objects))) == (
            "until 2026-01-01T00:30:00Z, as recorded on the claim"
        )


@pytest.mark.parametrize("policies", POLICIES)
@pytest.mark.parametrize("lease", ["false", None])
def test_of_a_vm_that_no_longer_asks_to_keep_it_ends_at_the_stop(lease: str | None, policies: str) -> None:
    asking: list[TypedObject] = [vm("a", "true"), kept("a"), vm("b", lease), kept("b", 5), *POLICIES[policies]]
    said = kept_until(kept("b", 5), ClusterModel(asking))
    assert str(said) == "until 2026-01-01T00:05:00Z: the VM no longer asks to keep its devices"
    released = plan(filled_stores(asking).inputs("t/b", STOPPED + timedelta(minutes=5)))
    assert [claim.released for claim in released.claims] == [KEEPING_ENDED]


def tainted(seconds: int | None = None) -> list[TypedObject]:
    """The VM's device with a taint of 00:10, which its claim tolerates for so long."""
    toleration = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
    claim = kept("b", 5).to_wire()
    if seconds is not None:
        claim["status"]["allocation"]["devices"]["results"][0]["tolerations"] = [toleration]
    published = SLICE.to_wire()
    taint = {"key": "hot", "effect": "NoExecute", "timeAdded": "2026-01-01T00:10:00Z"}
    published["spec"]["devices"][1]["taints"] = [taint]
    return [ResourceClaim.from_wire(claim), ResourceSlice.from_wire(published)]


def marked(**marks: str) -> ResourceClaim:
    """The claim on node n, with marks of the keeper."""
    claim = kept("b", 5).to_wire()
    claim["metadata"]["annotations"] |= {
        f"virt-dra.io/{name.replace('_', '-')}": value for name, value in marks.items()
    }
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    claim["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [term]}
    return ResourceClaim.from_wire(claim)


def node(name: str, **spec: object) -> Node:
    return Node.from_wire({"metadata": {"name": name}, "spec": spec})


LOST = "2026-01-01T00:20:00Z"
NOT_READY: Json = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
RULE = DeviceTaintRule.from_wire({
    "metadata": {"name": "r"},
    "spec": {
        "deviceSelector": {"device": "b"},
        "taint": {"key": "hot", "effect": "NoExecute", "timeAdded": "2026-01-01T00:10:00Z"},
    },
})  # fmt: skip
SOONER: dict[str, tuple[list[TypedObject], str, str]] = {
    "a driver's taint": (tainted(), "00:10:00Z: a device has a NoExecute taint: d/p/b", DEVICE_TAINTED),
    "one that is tolerated": (tainted(600), "00:20:00Z: a device has a NoExecute taint: d/p/b", DEVICE_TAINTED),
    "tolerated for longer than the lease": (tainted(99999), "01:05:00Z", LEASE_OVER),
    "a rule's": ([kept("b", 5), RULE], "00:10:00Z: a device has a NoExecute taint: DeviceTaintRule r", DEVICE_TAINTED),
    "a node that is gone": ([marked(node_lost_since=LOST), node("m")], "00:50:00Z: node n is gone", NODE_LOST),
    "cordoned": (
        [marked(node_lost_since=LOST), node("n", unschedulable=True)], "00:50:00Z: node n is cordoned", NODE_LOST,
    ),
    "not ready": (
        [marked(node_lost_since=LOST), node("n", taints=[NOT_READY])],
        "00:50:00Z: node n is not ready", NODE_LOST,
    ),
    "a node that is back": ([marked(node_lost_since=LOST), node("n")], "01:05:00Z", LEASE_OVER),
    "a policy, sooner than the node": (
        [marked(node_lost_since=LOST), node("m"), policy("p", {"stoppedFor": "10m"})],
        "00:15:00Z: KeepPolicy p", OVER_LIMIT,
    ),
    "a request": (
        [marked(release_requested="")], "00:05:00Z: its release was asked for", RELEASE_REQUESTED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOONER)
def test_taints_nodes_and_requests_end_it_when_the_model_says(name: str) -> None:
    given, text, reason = SOONER[name]
    asking = vm("b", "1h")
    asking.spec.template.metadata.annotations[NODE_LOSS_ANNOTATION] = "30m"
    objects: list[TypedObject] = [SLICE, asking, *given]
    (claim,) = (obj for obj in objects if isinstance(obj, ResourceClaim))
    said = kept_until(claim, ClusterModel(objects))
    assert str(said) == f"until 2026-01-01T{text}"
    assert said is not None
    # The keeper knows all nodes; where none is given, the one that is asked about is there.
    nodes = [] if any(isinstance(obj, Node) for obj in given) else [node("n")]
    stores = filled_stores([*objects, *nodes])
    until = datetime.fromisoformat(said.until)
    assert [claim.released for claim in plan(stores.inputs("t/b", until)).claims] == [reason]
    if until > STOPPED + timedelta(minutes=20):
        before = until - timedelta(seconds=1)
        assert not plan(stores.inputs("t/b", before)).takes_away


def test_without_slices_or_policies_it_may_end_sooner() -> None:
    objects: list[TypedObject] = [vm("b", "1h"), kept("b", 5)]
    assert str(kept_until(kept("b", 5), ClusterModel(objects))) == "until 2026-01-01T01:05:00Z at the latest"
    for kind in (ResourceSlice, KeepPolicy):
        unread = ClusterModel([*objects, SLICE], unread=[kind])
        assert str(kept_until(kept("b", 5), unread)) == "until 2026-01-01T01:05:00Z at the latest"


def test_of_a_vm_that_is_gone_where_all_vms_are_known() -> None:
    objects: list[TypedObject] = [SLICE, vm("a", "true"), kept("b", 5)]
    gone = "until 2026-01-01T00:05:00Z: no VM owns it any more"
    assert str(kept_until(kept("b", 5), ClusterModel(objects))) == gone
    assert kept_until(kept("b", 5), ClusterModel(objects, unread=[VirtualMachine])) is None
    assert kept_until(kept("b", 5), ClusterModel(objects, partial=[VirtualMachine])) is None


@pytest.mark.parametrize(
    ("objects", "anew"),
    [
        ([vm("b", "1h"), kept("b")], False),
        ([vm("b", "1h"), *tainted(600)], True),
        ([vm("b", "1h"), kept("b"), RULE], True),
        ([vm("b", "false"), kept("b")], True),
        ([vm("b", "1h"), marked(release_requested="")], True),
        ([vm("b", "1h"), marked(node_lost_since=LOST)], False),
    ],
)
def test_what_a_stopped_vm_starts_without(objects: list[TypedObject], anew: bool) -> None:
    (claim,) = (obj for obj in objects if isinstance(obj, ResourceClaim))
    started = as_started(claim, ClusterModel(objects))
    assert (started.status.allocation is None) is anew
    assert started.spec == claim.spec
