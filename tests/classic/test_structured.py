"""Structured parameters of 1.30: named resources chosen by expressions, allocated by the scheduler (C-18.9)."""

from __future__ import annotations

from collections import defaultdict
from itertools import permutations

import pytest

from tests.classic.lab import V1ALPHA2, Lab, claim, play_classic, pod, preempts, resource_class
from virt_dra.api.wire import Json
from virt_dra.cel import CompileError, EvaluationError, Interrupted, Work
from virt_dra.classic.named_resources import choose, compile_attribute_selector, selects
from virt_dra.classic.objects import (
    ClassicClaim,
    NamedResourcesInstance,
    NamedResourcesSlice,
    ResourceClaimParameters,
    ResourceClass,
    ResourceClassParameters,
)
from virt_dra.classic.structured import Inventory, ParametersNotFound, parameters_of, taken_instances
from virt_dra.classic.versions import read_classic

GPU = "gpu.example.com"


def _instance(name: str, **values: object) -> NamedResourcesInstance:
    return NamedResourcesInstance.from_wire({"name": name, "attributes": [{"name": "a", **values}] if values else []})


def test_a_node_costs_what_is_published_for_it_however_many_others_there_are() -> None:
    """C-18.9: of 20,000 slices a node's are looked at, in the order of their names, without what claims have."""
    slices = [
        NamedResourcesSlice.from_wire(
            {
                "metadata": {"name": name}, "nodeName": node, "driverName": GPU,
                "namedResources": {"instances": [{"name": f"{name}-{number}"} for number in range(2)]},
            }
        )
        for name, node in [("s2", "n1"), ("s1", "n1"), *((f"t{number}", f"m{number}") for number in range(20_000))]
    ]  # fmt: skip
    by_node = defaultdict[str, list[NamedResourcesSlice]](list)
    for slice_ in slices:
        by_node[slice_.node_name].append(slice_)
    asked: list[str] = []

    def of_node(node: str) -> list[NamedResourcesSlice]:
        asked.append(node)
        return by_node[node]

    results = [{"namedResources": {"name": "s1-1"}}]
    handle = {"driverName": GPU, "structuredData": {"nodeName": "n1", "results": results}}
    holder = read_classic({**claim("held", "gpu"), "status": {"allocation": {"resourceHandles": [handle]}}})
    assert isinstance(holder, ClassicClaim)
    inventory = Inventory(of_node, taken_instances([holder]))
    free = {driver: [instance.name for instance in left] for driver, left in inventory.free_on("n1").items()}
    assert free == {GPU: ["s1-0", "s2-0", "s2-1"]}
    assert asked == ["n1"]


VALUES = (
    ({"quantity": "8Gi"}, 'attributes.quantity["a"].isGreaterThan(quantity("4Gi"))'),
    ({"bool": True}, 'attributes.bool["a"]'),
    ({"int": 7}, 'attributes.int["a"] > 6'),
    ({"intSlice": {"ints": [1, 2]}}, '2 in attributes.intslice["a"]'),
    ({"string": "A100"}, 'attributes.string["a"].startsWith("A")'),
    ({"stringSlice": {"strings": ["x"]}}, '"x" in attributes.stringslice["a"]'),
    ({"version": "1.2.3"}, 'attributes.version["a"].isLessThan(semver("2.0.0"))'),
)


@pytest.mark.parametrize(("value", "expression"), VALUES)
def test_each_type_of_attribute_can_be_asked_for(value: Json, expression: str) -> None:
    """C-18.9: an attribute has one of seven types."""
    assert selects(expression, _instance("i", **value))
    with pytest.raises(EvaluationError, match="no such key: a"):
        selects(expression, _instance("i"))


def test_expressions_are_compiled_and_limited() -> None:
    """C-18.9: hostile texts."""
    with pytest.raises(CompileError, match="undeclared reference to 'device'"):
        compile_attribute_selector("device.driver == ''")
    many = "[0,1,2,3,4,5,6,7,8,9]"
    expensive = f"{many}.all(a, {many}.all(b, {many}.all(c, {many}.all(d, {many}.all(e, a+b+c+d+e >= 0)))))"
    with pytest.raises(Interrupted):
        selects(expensive, _instance("i"), Work(1000.0))


def test_instances_are_assigned_whenever_that_is_possible() -> None:
    """C-18.9: whatever the order of requests, an earlier one gives way. Compared with brute force."""
    instances = [_instance(f"i{n}", int=n) for n in range(4)]
    texts = ['attributes.int["a"] < 1', 'attributes.int["a"] < 2', "true", 'attributes.int["a"] == 2']
    for order in permutations(texts):
        chosen = choose(instances, order)
        assert chosen is not None
        assert sorted(chosen) == [0, 1, 2, 3]
        assert all(selects(text, instances[index]) for text, index in zip(order, chosen, strict=True))
    assert choose(instances, [texts[0], texts[0]]) is None
    assert choose(instances, ["true"], common='attributes.int["a"] == 3') == [3]


def _class(**fields: object) -> ResourceClass:
    read = read_classic(resource_class("gpu", GPU, structuredParameters=True, **fields))
    assert isinstance(read, ResourceClass)
    return read


def _claim(**fields: object) -> ClassicClaim:
    read = read_classic(claim("c", "gpu", **fields))
    assert isinstance(read, ClassicClaim)
    return read


def _parameters(name: str, kind: str, **fields: object) -> Json:
    return {"apiVersion": V1ALPHA2, "kind": kind, "metadata": {"name": name, "namespace": "lab"}, **fields}


def _claim_parameters(name: str, **fields: object) -> ResourceClaimParameters:
    read = read_classic(_parameters(name, "ResourceClaimParameters", **fields))
    assert isinstance(read, ResourceClaimParameters)
    return read


def _class_parameters(name: str, **fields: object) -> ResourceClassParameters:
    read = read_classic(_parameters(name, "ResourceClassParameters", **fields))
    assert isinstance(read, ResourceClassParameters)
    return read


def test_without_references_one_instance_of_the_classs_driver_is_asked_for() -> None:
    """C-18.9."""
    parameters = parameters_of(_claim(), _class(), (), ())
    assert [(request.driver_name, len(request.requests)) for request in parameters.requests] == [(GPU, 1)]
    assert parameters.shareable


def test_parameters_are_found_directly_or_by_what_they_were_generated_from() -> None:
    """C-18.9."""
    vendor = {"apiGroup": "v.io", "kind": "GpuParameters", "name": "mine"}
    direct = {"apiGroup": "resource.k8s.io", "kind": "ResourceClaimParameters", "name": "p"}
    known = (_claim_parameters("p", shareable=False), _claim_parameters("q", generatedFrom=vendor, shareable=True))
    assert not parameters_of(_claim(parametersRef=direct), _class(), (), known).shareable
    assert parameters_of(_claim(parametersRef=vendor), _class(), (), known).shareable
    of_class = _class_parameters("k", filters=[{"driverName": GPU, "namedResources": {"selector": "false"}}])
    reference = {"apiGroup": "resource.k8s.io", "kind": "ResourceClassParameters", "name": "k", "namespace": "lab"}
    assert parameters_of(_claim(), _class(parametersRef=reference), (of_class,), ()).filters == {GPU: "false"}


def test_parameters_that_are_missing_are_named_and_of_several_the_first_is_taken() -> None:
    """C-18.9."""
    vendor = {"apiGroup": "v.io", "kind": "K", "name": "m"}
    two = (_claim_parameters("q", generatedFrom=vendor), _claim_parameters("p", generatedFrom=vendor, shareable=True))
    with pytest.raises(ParametersNotFound, match=r"^generated claim parameters for K\.v\.io lab/m not found$"):
        parameters_of(_claim(parametersRef=vendor), _class(), (), ())
    assert parameters_of(_claim(parametersRef=vendor), _class(), (), two).shareable
    direct = {"apiGroup": "resource.k8s.io", "kind": "ResourceClaimParameters", "name": "p"}
    with pytest.raises(ParametersNotFound, match=r"^claim parameters lab/p not found$"):
        parameters_of(_claim(parametersRef=direct), _class(), (), ())


def _slice(node: str, *memory: str) -> Json:
    instances = [
        {"name": f"gpu-{n}", "attributes": [{"name": "memory", "quantity": amount}]} for n, amount in enumerate(memory)
    ]
    named = {"namedResources": {"instances": instances}}
    return {
        "apiVersion": V1ALPHA2,
        "kind": "ResourceSlice",
        "metadata": {"name": f"s-{node}"},
        "nodeName": node,
        "driverName": GPU,
        **named,
    }


def _want(memory: str) -> Json:
    selector = f'attributes.quantity["memory"].isGreaterThan(quantity("{memory}"))'
    request = {"namedResources": {"selector": selector}, "vendorParameters": {"mode": "compute"}}
    requests = [{"driverName": GPU, "requests": [request], "vendorParameters": {"v": 1}}]
    return _parameters("big", "ResourceClaimParameters", shareable=False, driverRequests=requests)


BIG = {"parametersRef": {"apiGroup": "resource.k8s.io", "kind": "ResourceClaimParameters", "name": "big"}}


def test_the_scheduler_allocates_and_deallocates_without_a_driver() -> None:
    """C-18.2, C-18.7, C-18.9: the builtin finalizer comes with the allocation and goes with the last consumer."""

    async def story(lab: Lab) -> Json:
        await lab.create(
            _slice("n1", "8Gi"), _slice("n2", "8Gi", "80Gi"), resource_class("gpu", GPU, structuredParameters=True)
        )
        await lab.create(_want("40Gi"), claim("c", "gpu", **BIG), claim("d", "gpu", **BIG), pod("p", "c"))
        await lab.calm()
        assert (await lab.pod("p")).spec.node_name == "n2"
        allocated = await lab.claim("c")
        assert allocated.metadata.finalizers == ("dra.k8s.io/delete-protection",)
        await lab.create(pod("q", "d"))
        await lab.calm()
        unsuitable = "resourceclaim cannot be allocated for the node (unsuitable)"
        assert await lab.waits("q") == f"0/3 nodes are available: 3 {unsuitable}. still not schedulable, {preempts(3)}"
        await lab.finish("p")
        await lab.calm()
        assert (await lab.pod("q")).spec.node_name == "n2"
        freed = await lab.claim("c")
        assert (freed.status.to_wire(), freed.metadata.finalizers) == ({"driverName": GPU}, ())
        return allocated.status.to_wire()

    status = play_classic(story)
    assert status["driverName"] == GPU
    assert status["allocation"]["resourceHandles"] == [{
        "driverName": GPU,
        "structuredData": {
            "nodeName": "n2",
            "results": [{"vendorRequestParameters": {"mode": "compute"}, "namedResources": {"name": "gpu-1"}}],
            "vendorClaimParameters": {"v": 1},
        },
    }]  # fmt: skip


def test_a_pod_waits_for_parameters_that_come_later() -> None:
    """C-18.6, C-18.9."""

    async def story(lab: Lab) -> None:
        await lab.create(
            _slice("n1", "80Gi"),
            resource_class("gpu", GPU, structuredParameters=True),
            claim("c", "gpu", **BIG),
            pod("p", "c"),
        )
        await lab.calm()
        missing = "0/3 nodes are available: claim parameters lab/big not found."
        assert await lab.waits("p") == f"{missing} no new claims to deallocate, {preempts(3)}"
        await lab.create(_want("4Gi"))
        await lab.calm()
        assert (await lab.pod("p")).spec.node_name == "n1"

    play_classic(story)


def test_an_expression_that_fails_makes_the_node_unschedulable() -> None:
    """C-18.6, C-18.9: another node may do."""

    async def story(lab: Lab) -> str:
        wrong = _parameters("big", "ResourceClaimParameters", driverRequests=[
            {"driverName": GPU, "requests": [{"namedResources": {"selector": 'attributes.string["none"] == ""'}}]}
        ])  # fmt: skip
        await lab.create(
            _slice("n1", "8Gi"),
            resource_class("gpu", GPU, structuredParameters=True),
            wrong,
            claim("c", "gpu", **BIG),
            pod("p", "c"),
        )
        await lab.calm()
        return await lab.waits("p")

    where = f'checking node "n1" and resources of driver "{GPU}"'
    failed = f"checking structured parameters failed: {where}: evaluate request CEL expression: no such key: none"
    unsuitable = "2 resourceclaim cannot be allocated for the node (unsuitable)"
    assert play_classic(story) == (
        f"0/3 nodes are available: 1 {failed}, {unsuitable}. still not schedulable, {preempts(3)}"
    )


def test_two_pods_never_get_one_instance() -> None:
    """C-18.6, C-18.9: what was written and hasn't come back from the cluster yet counts."""

    async def story(lab: Lab) -> list[str]:
        await lab.create(
            _slice("n1", "8Gi"), _slice("n2", "8Gi"), resource_class("gpu", GPU, structuredParameters=True)
        )
        names = ["a", "b", "c"]
        await lab.create(*(claim(name, "gpu") for name in names), *(pod(f"p{name}", name) for name in names))
        await lab.calm()
        return [(await lab.pod(f"p{name}")).spec.node_name or "" for name in names]

    assert play_classic(story) == ["n1", "n2", ""]


def test_expensive_expressions_cost_a_second_whatever_the_number_of_nodes() -> None:
    """C-18.9: hostile parameters; other pods are scheduled meanwhile."""
    many = "[0,1,2,3,4,5,6,7,8,9]"
    expensive = f"{many}.all(a, {many}.all(b, {many}.all(c, {many}.all(d, a+b+c+d >= 0))))"

    async def story(lab: Lab) -> str:
        requests = [{"namedResources": {"selector": f"{expensive} && {number} >= 0"}} for number in range(20)]
        hostile = _parameters(
            "big", "ResourceClaimParameters", driverRequests=[{"driverName": GPU, "requests": requests}]
        )
        await lab.create(*(_slice(f"n{number}", *["8Gi"] * 20) for number in range(1, 20)))
        await lab.create(
            resource_class("gpu", GPU, structuredParameters=True), hostile, claim("c", "gpu", **BIG), pod("p", "c")
        )
        await lab.create(claim("d", "gpu"), pod("q", "d"))
        await lab.calm(0.5)
        assert (await lab.pod("q")).spec.node_name == "n1"
        return await lab.waits("p")

    message = play_classic(story, nodes=19)
    where = [
        f'checking node "{name}" and resources of driver "{GPU}"' for name in sorted(f"n{n}" for n in range(1, 20))
    ]
    failed = "evaluate request CEL expression: operation interrupted"
    reasons = ", ".join(f"1 checking structured parameters failed: {place}: {failed}" for place in where)
    assert message == f"0/19 nodes are available: {reasons}. still not schedulable, {preempts(19)}"
