"""The user stories of KEP-3063 and the properties of C-18.8, played by drivers, scheduler and claim controller under
virtual time."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from tests.classic.lab import (
    FakeDriver,
    Lab,
    claim,
    config_map,
    node,
    play_classic,
    pod,
    preempts,
    resource_class,
    template,
)
from virt_dra.api.core_v1 import Pod
from virt_dra.api.wire import Json
from virt_dra.classic.driver import AllocationRefused, PendingClaim, on_nodes
from virt_dra.classic.objects import ClassicAllocation, ClassicClaim, ResourceClass
from virt_dra.classic.release import ClassicRelease
from virt_dra.classic.versions import write_classic

GPU = "gpu.example.com"
NET = "net.example.com"


def test_a_pod_gets_a_gpu_with_parameters_of_class_and_claim() -> None:
    """C-18.5, C-18.6: one pending claim is allocated for the node that the scheduler selects without a round of
    questions."""
    driver = FakeDriver(GPU, {"n2": 1})

    async def story(lab: Lab) -> Json:
        await lab.cluster.create(config_map("fast", cores="4"))
        await lab.cluster.create(config_map("mine", model="A100"))
        reference = {"kind": "ConfigMap", "name": "fast", "namespace": "lab"}
        await lab.create(resource_class("gpu", GPU, parametersRef=reference))
        await lab.create(claim("g", "gpu", parametersRef={"kind": "ConfigMap", "name": "mine"}), pod("p", "g"))
        await lab.calm()
        assert (await lab.pod("p")).spec.node_name == "n2"
        assert await lab.contexts() == []
        return (await lab.claim("g")).to_wire()

    wire = play_classic(story, driver)
    of_class, of_claim = driver.pending[0].class_parameters, driver.pending[0].claim_parameters
    assert isinstance(of_class, type(config_map("x")))
    assert isinstance(of_claim, type(config_map("x")))
    assert (of_class.to_wire()["data"], of_claim.to_wire()["data"]) == ({"cores": "4"}, {"model": "A100"})
    assert wire["metadata"]["finalizers"] == ["gpu.example.com/deletion-protection"]
    status = wire["status"]
    assert status["driverName"] == GPU
    assert [consumer["name"] for consumer in status["reservedFor"]] == ["p"]
    assert status["allocation"]["resourceHandles"][0]["driverName"] == GPU


def test_a_released_delayed_claim_is_deallocated_and_serves_another_pod_elsewhere() -> None:
    """C-18.2, C-18.4, C-18.7: the last consumer goes, deallocation is requested in the same write, the driver frees the
    device."""
    driver = FakeDriver(GPU, {"n1": 1, "n4": 1})

    async def story(lab: Lab) -> None:
        await lab.create(node("n4", zone="far"), resource_class("gpu", GPU), claim("g", "gpu"), pod("p", "g"))
        await lab.calm()
        assert (await lab.pod("p")).spec.node_name == "n1"
        await lab.finish("p")
        await lab.calm()
        freed = await lab.claim("g")
        assert (freed.status.to_wire(), freed.metadata.finalizers) == ({}, ())
        assert driver.free == {"n1": 1, "n4": 1}
        await lab.create(pod("q", "g", nodeSelector={"zone": "far"}))
        await lab.calm()
        assert (await lab.pod("q")).spec.node_name == "n4"

    play_classic(story, driver)


def test_a_network_attached_accelerator_is_offered_on_the_nodes_that_reach_it_only() -> None:
    """C-18.1, C-18.6: the class excludes nodes without asking a driver; the allocation is available on several."""

    class Accelerator(FakeDriver):
        async def allocate(
            self, claims: Sequence[PendingClaim], node: str
        ) -> Sequence[ClassicAllocation | AllocationRefused]:
            found = claims[0].resource_class
            assert isinstance(found, ResourceClass)
            return [on_nodes(self.name, "port-7", found.suitable_nodes, shareable=True) for _ in claims]

    driver = Accelerator(NET, {"n4": 9, "n5": 9})
    racked = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}]}

    async def story(lab: Lab) -> None:
        await lab.create(
            node("n4", rack="a"), node("n5", rack="a"), resource_class("accelerator", NET, suitableNodes=racked)
        )
        await lab.create(
            claim("shared", "accelerator"), pod("p", "shared"), pod("q", "shared", nodeSelector={"rack": "b"})
        )
        await lab.calm()
        assert (await lab.pod("p")).spec.node_name == "n4"
        elsewhere = "0/5 nodes are available: 5 node(s) didn't match Pod's node affinity/selector."
        assert await lab.waits("q") == f"{elsewhere} still not schedulable, {preempts(5)}"
        await lab.create(pod("r", "shared"))
        await lab.calm()
        assert (await lab.pod("r")).spec.node_name in ("n4", "n5")

    play_classic(story, driver)


def test_optional_resources_are_the_drivers_business_which_may_allocate_nothing() -> None:
    """C-18.8: an allocation without a handle is one."""

    class Generous(FakeDriver):
        async def allocate(
            self, claims: Sequence[PendingClaim], node: str
        ) -> Sequence[ClassicAllocation | AllocationRefused]:
            return [ClassicAllocation(shareable=True) for _ in claims]

        async def unsuitable_nodes(
            self, pod: Pod, claims: Sequence[PendingClaim], nodes: Sequence[str]
        ) -> Sequence[Collection[str]]:
            return [() for _ in claims]

    async def story(lab: Lab) -> None:
        await lab.create(resource_class("maybe", GPU), claim("g", "maybe"), pod("p", "g"))
        await lab.calm()
        assert (await lab.pod("p")).spec.node_name == "n1"
        assert (await lab.claim("g")).status.to_wire()["allocation"] == {"shareable": True}

    play_classic(story, Generous(GPU, {}))


def test_a_pod_bound_without_the_scheduler_gets_its_claims_for_its_node() -> None:
    """C-18.7: the claim controller makes a scheduling context with the node only; no driver may refuse it."""
    driver = FakeDriver(GPU, {"n2": 1})

    async def story(lab: Lab) -> None:
        await lab.create(resource_class("gpu", GPU), template("t", "gpu"), pod("p", templates=["t"], nodeName="n2"))
        await lab.calm()
        (generated,) = await lab.claims()
        assert [consumer.name for consumer in generated.status.reserved_for] == ["p"]
        assert [context.spec.to_wire() for context in await lab.contexts()] == [{"selectedNode": "n2"}]

    play_classic(story, driver)
    assert not any(call.startswith("unsuitable") for call in driver.calls)


def test_a_driver_keeps_trying_for_a_bound_pod() -> None:
    """C-18.5, C-18.7: retries with back-off, an Event Failed each time; the device that comes later is taken."""
    driver = FakeDriver(GPU, {"n2": 0})

    async def story(lab: Lab) -> list[str]:
        await lab.create(resource_class("gpu", GPU), claim("g", "gpu"), pod("p", "g", nodeName="n2"))
        await lab.calm()
        assert (await lab.claim("g")).status.allocation is None
        driver.free["n2"] = 1
        await lab.calm(600)
        assert (await lab.claim("g")).status.allocation is not None
        return await lab.events()

    assert play_classic(story, driver) == ["Failed: claim g: no device left on n2"]


def test_a_shareable_claim_serves_several_pods_and_is_freed_after_the_last() -> None:
    """C-18.3, C-18.8."""
    driver = FakeDriver(GPU, {"n1": 1}, shareable=True)

    async def story(lab: Lab) -> None:
        await lab.create(resource_class("gpu", GPU), claim("g", "gpu"), pod("p", "g"), pod("q", "g"))
        await lab.calm()
        assert {consumer.name for consumer in (await lab.claim("g")).status.reserved_for} == {"p", "q"}
        await lab.finish("p")
        await lab.calm()
        assert (await lab.claim("g")).status.allocation is not None
        await lab.finish("q")
        await lab.calm()
        assert (await lab.claim("g")).status.allocation is None

    play_classic(story, driver)


def test_a_claim_that_isnt_shareable_serves_one_pod_after_the_other() -> None:
    """C-18.3, C-18.6."""
    driver = FakeDriver(GPU, {"n1": 1})

    async def story(lab: Lab) -> None:
        await lab.create(resource_class("gpu", GPU), claim("g", "gpu"), pod("p", "g"))
        await lab.calm()
        await lab.create(pod("q", "g"))
        await lab.calm()
        in_use = "0/3 nodes are available: resourceclaim in use."
        assert await lab.waits("q") == f"{in_use} no new claims to deallocate, {preempts(3)}"
        await lab.finish("p")
        await lab.calm()
        assert (await lab.pod("q")).spec.node_name == "n1"

    play_classic(story, driver)


def test_a_pod_that_waits_for_the_only_device_starts_when_its_user_finishes() -> None:
    """C-18.6: every node was refused while one was selected; then the driver takes a refusal back."""
    driver = FakeDriver(GPU, {"n1": 1})

    async def story(lab: Lab) -> None:
        await lab.create(resource_class("gpu", GPU), claim("g", "gpu"), claim("h", "gpu"), pod("p", "g"))
        await lab.calm()
        assert (await lab.pod("p")).spec.node_name == "n1"
        await lab.create(pod("q", "h"))
        await lab.calm()
        assert (await lab.pod("q")).spec.node_name is None
        await lab.finish("p")
        await lab.calm(90)
        assert (await lab.pod("q")).spec.node_name == "n1"

    play_classic(story, driver)


def test_several_drivers_are_asked_first_and_then_agree_on_a_node() -> None:
    """C-18.5.4, C-18.6, C-18.8: potential nodes, answers of both drivers in one context, then a selected node."""
    gpu, net = FakeDriver(GPU, {"n1": 1, "n2": 1}), FakeDriver(NET, {"n2": 1, "n3": 1})

    async def story(lab: Lab) -> list[str]:
        await lab.create(
            resource_class("gpu", GPU),
            resource_class("net", NET),
            claim("g", "gpu"),
            claim("n", "net"),
            pod("p", "g", "n"),
        )
        await lab.calm()
        assert (await lab.pod("p")).spec.node_name == "n2"
        return await lab.events()

    events = play_classic(story, gpu, net)
    assert events == [
        "FailedScheduling: waiting for resource driver",
        "FailedScheduling: 0/1 nodes are available: 1 waiting for resource driver to provide information.",
        "Scheduled: Successfully assigned lab/p to n2",
    ]
    assert gpu.calls[0] == "unsuitable nodes of p among n1, n2, n3"
    assert gpu.calls[-1] == "allocate g on n2"


def test_one_driver_may_allocate_while_another_fails_and_the_claim_is_then_moved() -> None:
    """C-18.8: no atomicity. What was allocated pins the pod until PostFilter has it deallocated; the pod ends on
    another node."""

    class Late(FakeDriver):
        """Finds out that n1 doesn't do only when it is asked to allocate there."""

        async def allocate(
            self, claims: Sequence[PendingClaim], node: str
        ) -> Sequence[ClassicAllocation | AllocationRefused]:
            if node == "n1":
                self.free.pop("n1", None)
            return await super().allocate(claims, node)

    gpu, net = FakeDriver(GPU, {"n1": 1, "n2": 1}), Late(NET, {"n1": 1, "n2": 1})

    async def story(lab: Lab) -> list[str]:
        await lab.create(
            resource_class("gpu", GPU),
            resource_class("net", NET),
            claim("g", "gpu"),
            claim("n", "net"),
            pod("p", "g", "n"),
        )
        await lab.calm(300)
        assert (await lab.pod("p")).spec.node_name == "n2"
        return await lab.events()

    events = play_classic(story, gpu, net, nodes=2)
    assert "deallocate g" in gpu.calls
    assert set(gpu.held.values()) == {"n2"}
    assert any("deallocation of ResourceClaim completed" in event for event in events)


def test_an_immediate_claim_is_allocated_without_a_pod_until_it_is_deleted() -> None:
    """C-18.4, C-18.5.1."""
    driver = FakeDriver(GPU, {"n3": 1})

    async def story(lab: Lab) -> None:
        await lab.create(resource_class("gpu", GPU), claim("g", "gpu", allocationMode="Immediate"))
        await lab.calm()
        early = await lab.claim("g")
        assert early.status.allocation is not None
        assert early.status.reserved_for == ()
        await lab.create(pod("p", "g"))
        await lab.calm()
        assert (await lab.pod("p")).spec.node_name == "n3"
        await lab.finish("p")
        await lab.calm()
        kept = await lab.claim("g")
        assert (kept.status.allocation is not None, kept.status.reserved_for) == (True, ())
        await lab.cluster.delete(ClassicClaim, "g", "lab")
        await lab.calm()
        assert await lab.claims() == []

    play_classic(story, driver)
    assert driver.calls == ["allocate g on any node", "deallocate g"]


def test_a_pod_waits_for_an_immediate_claim_and_is_woken_by_its_allocation() -> None:
    """C-18.6."""
    driver = FakeDriver(GPU, {"n3": 1})

    async def story(lab: Lab) -> None:
        await lab.create(claim("g", "gpu", allocationMode="Immediate"), pod("p", "g"))
        await lab.calm()
        missing = "0/3 nodes are available: resource class gpu does not exist."
        assert await lab.waits("p") == f"{missing} no new claims to deallocate, {preempts(3)}"
        await lab.create(resource_class("gpu", GPU))
        await lab.calm()
        assert (await lab.pod("p")).spec.node_name == "n3"

    play_classic(story, driver)


def test_a_claim_of_a_class_that_changes_its_driver_is_allocated_by_the_new_one() -> None:
    """C-18.1, C-18.5.1: the class is mutable."""
    driver = FakeDriver(GPU, {"n3": 1})

    async def story(lab: Lab) -> None:
        await lab.create(resource_class("gpu", "other.example.com"), claim("g", "gpu", allocationMode="Immediate"))
        await lab.calm()
        assert driver.calls == []
        await lab.cluster.patch(ResourceClass, "gpu", merge={"driverName": GPU})
        await lab.calm()
        assert (await lab.claim("g")).status.driver_name == GPU

    play_classic(story, driver)


def test_a_claim_that_is_deleted_during_allocation_is_deallocated() -> None:
    """C-18.5.1: Deallocate also stops an allocation in progress: the finalizer is there, the allocation isn't."""
    driver = FakeDriver(GPU, {"n3": 1})
    driver.broken = "the fabric is down"

    async def story(lab: Lab) -> list[str]:
        await lab.create(resource_class("gpu", GPU), claim("g", "gpu", allocationMode="Immediate"))
        await lab.calm(2)
        assert (await lab.claim("g")).metadata.finalizers == ("gpu.example.com/deletion-protection",)
        await lab.cluster.delete(ClassicClaim, "g", "lab")
        await lab.calm()
        assert await lab.claims() == []
        return await lab.events()

    assert play_classic(story, driver) == ["Failed: allocate: the fabric is down"]
    assert driver.calls[-1] == "deallocate g"


@pytest.mark.parametrize("minor", [26, 27, 28, 29, 30, 31])
def test_a_template_makes_a_claim_that_goes_with_its_pod(minor: int) -> None:
    """C-18.1, C-18.7: before 1.28 the name is fixed; generated claims of finished pods are deleted."""
    driver = FakeDriver(GPU, {"n1": 1})

    async def story(lab: Lab) -> None:
        await lab.create(resource_class("gpu", GPU), template("t", "gpu"), pod("p", templates=["t"]))
        await lab.calm()
        (made,) = await lab.claims()
        assert made.metadata.labels == {"from": "t"}
        assert (made.name == "p-t") == (minor < 28)
        statuses = (await lab.pod("p")).status.resource_claim_statuses
        assert [status.resource_claim_name for status in statuses] == ([] if minor < 28 else [made.name])
        assert (await lab.pod("p")).spec.node_name == "n1"
        await lab.finish("p")
        await lab.calm()
        assert await lab.claims() == []

    play_classic(story, driver, release=ClassicRelease(minor))
    assert driver.held == {}


def test_a_missing_template_is_reported_and_waited_for() -> None:
    """C-18.7, C-10.4."""

    async def story(lab: Lab) -> list[str]:
        await lab.create(resource_class("gpu", GPU), pod("p", templates=["t"]))
        await lab.calm(1)
        await lab.create(template("t", "gpu"))
        await lab.calm()
        assert (await lab.pod("p")).spec.node_name == "n1"
        return await lab.events()

    first, *_ = play_classic(story, FakeDriver(GPU, {"n1": 1}))
    text = 'PodResourceClaim t: resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'
    assert first == f"FailedResourceClaimCreation: {text}"


def test_another_pods_claim_of_the_fixed_name_is_not_used() -> None:
    """C-18.7: before 1.28 a name may be taken."""

    async def story(lab: Lab) -> list[str]:
        await lab.create(
            resource_class("gpu", GPU), template("t", "gpu"), claim("p-t", "gpu"), pod("p", templates=["t"])
        )
        await lab.calm()
        assert (await lab.pod("p")).spec.node_name is None
        return await lab.events()

    events = play_classic(story, FakeDriver(GPU, {"n1": 1}), release=ClassicRelease(27))
    text = "PodResourceClaim t: ResourceClaim lab/p-t was not created for Pod lab/p (Pod is not owner)"
    assert events == [f"FailedResourceClaimCreation: {text}"]


def test_drivers_are_asked_about_many_nodes_in_turns_of_128_until_one_fits() -> None:
    """C-18.1, C-18.6: at most 128 potential nodes; those that drivers weren't asked about come first."""
    gpu, net = FakeDriver(GPU, {"n300": 1}), FakeDriver(NET, {"n300": 1})

    async def story(lab: Lab) -> None:
        await lab.create(
            resource_class("gpu", GPU),
            resource_class("net", NET),
            claim("g", "gpu"),
            claim("n", "net"),
            pod("p", "g", "n"),
        )
        await lab.calm(600)
        assert (await lab.pod("p")).spec.node_name == "n300"

    play_classic(story, gpu, net, nodes=300)


def test_a_claim_of_131_names_its_driver_and_its_classes_only_restrict_nodes() -> None:
    """C-18.1, C-18.6: v1alpha3 with a controller: no mode, no parameters, always shareable, DeviceClasses with
    suitableNodes."""

    class Devices(FakeDriver):
        async def allocate(
            self, claims: Sequence[PendingClaim], node: str
        ) -> Sequence[ClassicAllocation | AllocationRefused]:
            self.calls.append(f"allocate on {node}")
            return [ClassicAllocation(devices={"results": []}, shareable=True) for _ in claims]

    driver = Devices(GPU, {"n1": 9, "n4": 9})
    v1alpha3 = "resource.k8s.io/v1alpha3"
    racked = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}]}
    devices = {"requests": [{"name": "r", "deviceClassName": "racked"}]}
    asked = {"metadata": {"name": "g", "namespace": "lab"}, "spec": {"controller": GPU, "devices": devices}}

    async def story(lab: Lab) -> Json:
        await lab.create(
            {"apiVersion": v1alpha3, "kind": "ResourceClaim", **asked},
            pod("p", "g"),
            pod("q", "g"),
            node("n4", rack="a"),
        )
        await lab.calm()
        missing = "0/4 nodes are available: request r: device class racked does not exist."
        assert await lab.waits("p") == f"{missing} no new claims to deallocate, {preempts(4)}"
        spec = {"metadata": {"name": "racked"}, "spec": {"suitableNodes": racked}}
        await lab.create({"apiVersion": v1alpha3, "kind": "DeviceClass", **spec})
        await lab.calm()
        assert (await lab.pod("p")).spec.node_name == "n4"
        assert (await lab.pod("q")).spec.node_name
        return write_classic(await lab.claim("g"), v1alpha3)

    wire = play_classic(story, driver, release=ClassicRelease(31))
    assert wire["apiVersion"] == v1alpha3
    assert wire["status"]["allocation"] == {"devices": {"results": []}, "controller": GPU}
    assert driver.calls[-1] == "allocate on n4"


def test_what_a_driver_answers_is_judged_and_reported() -> None:
    """C-18.3, C-18.5: too much data, foreign nodes among the unsuitable ones, a wrong number of answers: Events, no
    harm."""

    class Hostile(FakeDriver):
        answers = 1

        async def allocate(
            self, claims: Sequence[PendingClaim], node: str
        ) -> Sequence[ClassicAllocation | AllocationRefused]:
            return [on_nodes(self.name, "x" * 20_000)] * self.answers

        async def unsuitable_nodes(
            self, pod: Pod, claims: Sequence[PendingClaim], nodes: Sequence[str]
        ) -> Sequence[Collection[str]]:
            return [[f"made-up-{number}" for number in range(5000)] for _ in claims]

    driver = Hostile(GPU, {})

    async def story(lab: Lab) -> list[str]:
        await lab.create(resource_class("gpu", GPU), claim("g", "gpu"), pod("p", "g"))
        await lab.calm(20)
        driver.answers = 2
        await lab.calm(100)
        assert (await lab.claim("g")).status.allocation is None
        assert [context.status.to_wire() for context in await lab.contexts()] == [{}]
        return [event for event in await lab.events() if event.startswith("Failed:")]

    invalid = 'ResourceClaim.resource.k8s.io "g" is invalid: status.allocation.resourceHandles[0].data: Too long'
    assert play_classic(story, driver) == [
        f"Failed: add allocation: {invalid}: may not be longer than 16384",
        "Failed: claim g: the driver answered for 2 claims of 1",
    ]


def test_parameters_of_a_kind_that_the_driver_doesnt_know_are_reported() -> None:
    """C-18.5.3: Events on claim, pod and context; tried again."""

    async def story(lab: Lab) -> list[str]:
        reference = {"apiGroup": "vendor.example.com", "kind": "GpuParameters", "name": "m"}
        await lab.create(resource_class("gpu", GPU), claim("g", "gpu", parametersRef=reference), pod("p", "g"))
        await lab.calm()
        return [event for event in await lab.events() if event.startswith("Failed:")]

    text = "parameters of kind GpuParameters.vendor.example.com are not known to this driver"
    where = "claim parameters &ResourceClaimParametersReference{APIGroup:vendor.example.com,Kind:GpuParameters,Name:m,}"
    assert play_classic(story, FakeDriver(GPU, {"n1": 1})) == [
        f"Failed: {text}", f"Failed: claim g: {where}: {text}", f"Failed: pod claim g: {where}: {text}"
    ]  # fmt: skip


def test_a_driver_may_read_parameters_itself() -> None:
    """C-18.5: GetClassParameters and GetClaimParameters."""

    class Reading(FakeDriver):
        async def class_parameters(self, resource_class: object) -> object:
            return {"of": "class"}

        async def claim_parameters(
            self, claim: ClassicClaim, resource_class: object, class_parameters: object
        ) -> object:
            return [class_parameters, claim.name]

    driver = Reading(GPU, {"n1": 1})

    async def story(lab: Lab) -> None:
        await lab.create(resource_class("gpu", GPU), claim("g", "gpu"), pod("p", "g"))
        await lab.calm()
        assert (await lab.pod("p")).spec.node_name == "n1"

    play_classic(story, driver)
    assert driver.pending[0].claim_parameters == [{"of": "class"}, "g"]


def test_unsuitable_nodes_are_determined_again_after_30_seconds() -> None:
    """C-18.5.3: resources may have changed."""
    gpu, net = FakeDriver(GPU, {"n1": 0}), FakeDriver(NET, {"n1": 1})

    async def story(lab: Lab) -> None:
        await lab.create(
            resource_class("gpu", GPU),
            resource_class("net", NET),
            claim("g", "gpu"),
            claim("n", "net"),
            pod("p", "g", "n"),
        )
        await lab.calm(20)
        (context,) = await lab.contexts()
        assert context.unsuitable("g") == frozenset({"n1"})
        gpu.free["n1"] = 1
        await lab.calm(8)
        assert not (await lab.pod("p")).spec.node_name
        await lab.calm(15)
        assert (await lab.pod("p")).spec.node_name == "n1"

    play_classic(story, gpu, net, nodes=1)
