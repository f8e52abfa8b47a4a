"""The API server's rules for classic objects on the embedded cluster, with whole messages (C-18.1, C-18.3)."""

from __future__ import annotations

import asyncio

import pytest

from tests.classic.lab import claim, resource_class, template
from virt_dra.api.core_v1 import NodeSelector
from virt_dra.api.validation.formats import subdomain
from virt_dra.api.wire import Json
from virt_dra.classic.objects import HANDLE_BYTES, ClassicClaim, ClassicClaimTemplate, PodSchedulingContext
from virt_dra.classic.rules import ClassicRules
from virt_dra.classic.versions import read_classic
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import Invalid

V2 = "resource.k8s.io/v1alpha2"
DRIVER = "d.example.com"


def _cluster() -> MemoryCluster:
    return MemoryCluster.deterministic(admission=ClassicRules())


def _faults(raw: Json) -> list[str]:
    with pytest.raises(Invalid) as refused:
        asyncio.run(_cluster().create(read_classic(raw)))
    return [f"{cause.field}: {cause.message}" for cause in refused.value.causes]


def _no_subdomain(path: str) -> str:
    return "\n".join(f"{path}: {fault.message}" for fault in subdomain("", path))


def _of(kind: str, **fields: object) -> Json:
    return {"apiVersion": V2, "kind": kind, "metadata": {"name": "x", "namespace": "lab"}, **fields}


CREATED: dict[str, tuple[Json, list[str]]] = {
    "a class needs a driver": (resource_class("c", ""), ["driverName: Required value", _no_subdomain("driverName")]),
    "a claim needs a class": (claim("c", ""), [_no_subdomain("spec.resourceClassName")]),
    "modes are known": (
        claim("c", "cls", allocationMode="Now"),
        ['spec.allocationMode: Unsupported value: "Now": supported values: "Immediate", "WaitForFirstConsumer"'],
    ),
    "a reference names kind and name": (
        claim("c", "cls", parametersRef={"apiGroup": "x.io"}),
        ["spec.parametersRef.kind: Required value", "spec.parametersRef.name: Required value"],
    ),
    "templates have the claim's rules": (template("t", ""), [_no_subdomain("spec.spec.resourceClassName")]),
    "a selector has terms": (
        resource_class("c", DRIVER, suitableNodes={}),
        ["suitableNodes.nodeSelectorTerms: Required value: must have at least one node selector term"],
    ),
    "potential nodes are few": (
        _of("PodSchedulingContext", spec={"potentialNodes": [f"n{n}" for n in range(129)]}),
        ["spec.potentialNodes: Too long: may not be longer than 128"],
    ),
    "potential nodes are a set": (
        _of("PodSchedulingContext", spec={"potentialNodes": ["n1", "n1"]}),
        ['spec.potentialNodes[1]: Duplicate value: "n1"'],
    ),
    "an attribute has one value": (
        _of(
            "ResourceSlice",
            driverName=DRIVER,
            namedResources={"instances": [{"name": "i", "attributes": [{"name": "a"}]}]},
        ),
        ["namedResources.instances[0].attributes[0]: Required value: exactly one value must be set"],
    ),
    "an expression is compiled": (
        _of(
            "ResourceClaimParameters",
            driverRequests=[{"driverName": DRIVER, "requests": [{"namedResources": {"selector": "1"}}]}],
        ),
        ['driverRequests[0].requests[0].namedResources.selector: Invalid value: "1": must evaluate to bool'],
    ),
    "an expression is short": (
        _of(
            "ResourceClassParameters",
            filters=[{"driverName": DRIVER, "namedResources": {"selector": "true" + " " * 10240}}],
        ),
        ["filters[0].namedResources.selector: Too long: must have at most 10240 bytes"],
    ),
}


@pytest.mark.parametrize("name", CREATED)
def test_new_objects_are_judged(name: str) -> None:
    """C-18.1."""
    raw, faults = CREATED[name]
    assert _faults(raw) == faults


def test_a_claim_waits_for_its_first_consumer_by_default_and_keeps_its_spec() -> None:
    """C-18.1: the defaults, and immutable specs."""

    async def story() -> list[str]:
        cluster = _cluster()
        stored = await cluster.create(read_classic(claim("c", "cls")))
        made = await cluster.create(read_classic(template("t", "cls")))
        assert isinstance(stored, ClassicClaim)
        assert isinstance(made, ClassicClaimTemplate)
        assert stored.spec.allocation_mode == made.spec.spec.allocation_mode == "WaitForFirstConsumer"
        with pytest.raises(Invalid) as refused:
            await cluster.patch(ClassicClaim, "c", "lab", merge={"spec": {"resourceClassName": "other"}})
        return [cause.field for cause in refused.value.causes]

    assert asyncio.run(story()) == ["spec"]


USER = {"resource": "pods", "name": "p", "uid": "1"}
OTHER = {"resource": "pods", "name": "q", "uid": "2"}
HANDLE = {"driverName": DRIVER, "data": "x"}
ALLOCATED = {"driverName": DRIVER, "allocation": {"resourceHandles": [HANDLE], "shareable": False}}
SHARED = {"driverName": DRIVER, "allocation": {"resourceHandles": [HANDLE], "shareable": True}}

STATUS: dict[str, tuple[Json, Json, list[str]]] = {
    "driver with allocation": (
        {}, {"allocation": {}}, ["status.driverName: Required value: must be specified when `allocation` is set"]
    ),
    "no reservation without allocation": (
        {}, {"reservedFor": [USER]}, ["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"]
    ),
    "one consumer unless shareable": (
        ALLOCATED, {**ALLOCATED, "reservedFor": [USER, OTHER]}, ["status.reservedFor: Forbidden: may not be "
"reserved more than once"]
    ),
    "32 consumers": (
        SHARED, {**SHARED, "reservedFor": [{**USER, "uid": str(n)} for n in range(33)]},
        ["status.reservedFor: Too long: may not be longer than 32"],
    ),
    "no new consumer while deallocating": (
        {**SHARED, "deallocationRequested": True}, {**SHARED, "deallocationRequested": True, "reservedFor": [USER]},
        ["status.reservedFor: Forbidden: new entries may not be added while "
"`deallocationRequested` or `deletionTimestamp` are set"],
    ),
    "no deallocation in use": (
        {**SHARED, "reservedFor": [USER]}, {**SHARED, "reservedFor": [USER], "deallocationRequested": True},
        ["status.deallocationRequested: Forbidden: deallocation cannot be requested while `reservedFor` is set"],
    ),
    "nothing to deallocate": (
        {}, {"deallocationRequested": True}, ["status: Forbidden: `allocation` must be set when "
"`deallocationRequested` is set"]
    ),
    "no way back": (
        {**SHARED, "deallocationRequested": True}, SHARED,
        ["status.deallocationRequested: Forbidden: may not be cleared when `allocation` is set"],
    ),
    "32 handles": (
        {}, {"driverName": DRIVER, "allocation": {"resourceHandles": [HANDLE] * 33}},
        ["status.allocation.resourceHandles: Too long: may not be longer than 32"],
    ),
    "16 KiB of data": (
        {}, {"driverName": DRIVER, "allocation": {"resourceHandles": [{**HANDLE, "data": "x" * (HANDLE_BYTES + 1)}]}},
        ["status.allocation.resourceHandles[0].data: Too long: may not be longer than 16384"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STATUS)
def test_a_claims_status_is_judged(name: str) -> None:
    """C-18.3."""
    before, after, faults = STATUS[name]

    async def story() -> list[str]:
        cluster = _cluster()
        stored = await cluster.create(read_classic(claim("c", "cls")))
        if before:
            stored = await cluster.update_status(read_classic({**stored.to_wire(), "status": before}))
        with pytest.raises(Invalid) as refused:
            await cluster.update_status(read_classic({**stored.to_wire(), "status": after}))
        return [f"{cause.field}: {cause.message}" for cause in refused.value.causes]

    assert asyncio.run(story()) == faults


def test_an_allocation_is_immutable_until_it_is_taken_away() -> None:
    """C-18.3."""

    async def story() -> None:
        cluster = _cluster()
        stored = await cluster.create(read_classic(claim("c", "cls")))
        await cluster.update_status(read_classic({**stored.to_wire(), "status": SHARED}))
        with pytest.raises(Invalid, match="field is immutable"):
            await cluster.patch(
                ClassicClaim, "c", "lab", merge={"status": {"allocation": {"shareable": False}}}, subresource="status"
            )
        cleared = {"status": {"allocation": None, "driverName": None}}
        freed = await cluster.patch(ClassicClaim, "c", "lab", merge=cleared, subresource="status")
        assert freed.status.allocation is None

    asyncio.run(story())


def test_unsuitable_nodes_are_sets_of_at_most_128() -> None:
    """C-18.3."""

    async def story() -> list[str]:
        cluster = _cluster()
        stored = await cluster.create(read_classic(_of("PodSchedulingContext", spec={})))
        entries = [
            {"name": "e", "unsuitableNodes": ["n", "n"]},
            {"name": "e"},
            {"name": "f", "unsuitableNodes": [f"n{number}" for number in range(129)]},
        ]
        with pytest.raises(Invalid) as refused:
            await cluster.update_status(read_classic({**stored.to_wire(), "status": {"resourceClaims": entries}}))
        assert (await cluster.get(PodSchedulingContext, "x", "lab")).status.resource_claims == ()
        return [f"{cause.field}: {cause.message}" for cause in refused.value.causes]

    assert asyncio.run(story()) == [
        'status.claims[0].unsuitableNodes[1]: Duplicate value: "n"',
        'status.claims[1]: Duplicate value: "e"',
        "status.claims[2].unsuitableNodes: Too long: may not be longer than 128",
    ]


def test_a_node_selector_of_an_allocation_is_judged() -> None:
    """C-18.3."""
    assert NodeSelector().node_selector_terms == ()

    async def story() -> str:
        cluster = _cluster()
        stored = await cluster.create(read_classic(claim("c", "cls")))
        status = {"driverName": DRIVER, "allocation": {"availableOnNodes": {"nodeSelectorTerms": []}}}
        with pytest.raises(Invalid) as refused:
            await cluster.update_status(read_classic({**stored.to_wire(), "status": status}))
        return refused.value.causes[0].field

    assert asyncio.run(story()) == "status.allocation.availableOnNodes.nodeSelectorTerms"
