"""The kubelet's contract with drivers (C-16): what is asked when, what is kept, and what can be tried again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.simulator.agents.claim_manager import (
    ClaimManager,
    DraCheckpoint,
    Prepared,
    PreparedClaim,
    PreparedDevice,
    PrepareError,
)

NAMESPACE = "test"


class Plugin:
    """A driver that notes its calls. ``answers``: by claim name, an error text; ``left_out``: names that it doesn't
    answer for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.answers: dict[str, str] = {}
        self.left_out: set[str] = set()
        self.broken = ""
        self.stranger = False

    async def prepare_claims(self, node: str, claims: Sequence[PreparedClaim]) -> Mapping[str, Prepared | str]:
        self._call("prepare", claims)
        answers: dict[str, Prepared | str] = {}
        for claim in claims:
            if claim.name not in self.left_out:
                device = PreparedDevice(self.name, node, "d0", "gpu/small", {}, (f"{self.name}/gpu={claim.name}",))
                answers[claim.uid] = self.answers.get(claim.name) or Prepared((device,))
        return answers | ({"?": Prepared()} if self.stranger else {})

    async def unprepare_claims(self, node: str, claims: Sequence[PreparedClaim]) -> Mapping[str, str]:
        self._call("unprepare", claims)
        return {claim.uid: self.answers.get(claim.name, "") for claim in claims if claim.name not in self.left_out}

    def _call(self, what: str, claims: Sequence[PreparedClaim]) -> None:
        self.calls.append((what, tuple(claim.name for claim in claims)))
        if self.broken:
            raise PrepareError(self.broken)


class World:
    def __init__(self) -> None:
        self.cluster = MemoryCluster.deterministic()
        self.plugins = {name: Plugin(name) for name in ("a.example.com", "b.example.com")}
        self.saved: list[DraCheckpoint] = []
        self.manager = self.started()

    def started(self, checkpoint: DraCheckpoint | None = None, *, optional_operations: bool = False) -> ClaimManager:
        return ClaimManager(
            "node-1", self.cluster, self.plugins.get, checkpoint=checkpoint, optional_operations=optional_operations,
            on_checkpoint=self.saved.append,
        )  # fmt: skip

    @property
    def a(self) -> Plugin:
        return self.plugins["a.example.com"]

    @property
    def b(self) -> Plugin:
        return self.plugins["b.example.com"]

    def claim(
        self,
        name: str,
        pods: Sequence[str] = ("pod",),
        drivers: Sequence[str] = ("a.example.com",),
        uid: str = "",
        **result: object,
    ) -> None:
        results = [
            {"request": "gpu/small", "driver": driver, "pool": "node-1", "device": "d0", **result} for driver in drivers
        ]
        reserved = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods]
        status: Json = {"reservedFor": reserved} | (
            {"allocation": {"devices": {"results": results}}} if drivers else {}
        )
        metadata = {"name": name, "namespace": NAMESPACE, "uid": uid or f"uid-{name}"}
        self.cluster.load([ResourceClaim.from_wire({"metadata": metadata, "status": status})])


def pod(*claims: str, name: str = "pod") -> Pod:
    entries = [{"name": f"e-{claim}", "resourceClaimName": claim} for claim in claims]
    containers = [
        {"name": "all", "resources": {"claims": [{"name": f"e-{claim}"} for claim in claims]}},
        {"name": "one", "resources": {"claims": [{"name": f"e-{claim}", "request": "gpu"} for claim in claims[:1]]}},
        {"name": "other", "resources": {"claims": [{"name": f"e-{claim}", "request": "nic"} for claim in claims]}},
    ]
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
    return Pod.from_wire(
        {"metadata": metadata, "spec": {"nodeName": "node-1", "resourceClaims": entries, "containers": containers}}
    )


async def refused(world: World, subject: Pod) -> str:
    with pytest.raises(PrepareError) as caught:
        await world.manager.prepare(subject)
    return str(caught.value)


async def test_all_claims_of_a_pod_are_one_call_to_each_driver_and_prepared_once() -> None:
    """C-16.4, C-16.5."""
    world = World()
    world.claim("c1", drivers=("a.example.com", "b.example.com"))
    world.claim("c2")
    prepared = await world.manager.prepare(pod("c1", "c2"))
    assert [(entry, [device.driver for device in claim.devices]) for entry, claim in prepared.items()] == [
        ("e-c1", ["a.example.com", "b.example.com"]),
        ("e-c2", ["a.example.com"]),
    ]
    assert (world.a.calls, world.b.calls) == ([("prepare", ("c1", "c2"))], [("prepare", ("c1",))])
    assert await world.manager.prepare(pod("c1", "c2")) == prepared
    assert len(world.a.calls) == 1


async def test_containers_get_the_cdi_devices_of_their_claims_and_requests() -> None:
    """C-16.6: subrequests answer to the name of their request; extended resources are mapped by the pod's status."""
    world = World()
    world.claim("c1")
    world.claim("special")
    mapping = {"containerName": "other", "resourceName": "example.com/gpu", "requestName": "gpu"}
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "special", "requestMappings": [mapping]}}
    subject = Pod.from_wire(pod("c1").to_wire() | {"status": status})
    await world.manager.prepare(subject)
    assert [world.manager.cdi_ids(subject, name) for name in ("all", "one", "other", "unknown")] == [
        ("a.example.com/gpu=c1",), ("a.example.com/gpu=c1",), ("a.example.com/gpu=special",), (),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        (pod("c1", "gone"), 'fetch ResourceClaim gone: resourceclaims.resource.k8s.io "gone" not found'),
        (pod("c1", "unallocated"), "ResourceClaim unallocated: not allocated"),
        (pod("c1", "of-others"), "pod pod (uid-pod) is not allowed to use ResourceClaim of-others (uid-of-others)"),
        (pod("c1", "unknown-driver"), "DRA driver c.example.com is not registered"),
        (
            pod("c1", "skipping"),
            "ResourceClaim skipping: DRAOptionalNodeOperations feature gate is disabled on kubelet",
        ),
    ],
)
async def test_a_claim_that_cannot_be_used_stops_the_pod_before_anything_is_recorded(
    subject: Pod, message: str
) -> None:
    """C-16.1, C-16.2, C-16.3: the pod can be deleted without asking a driver that may never come."""
    world = World()
    world.claim("c1")
    world.claim("unallocated", drivers=())
    world.claim("of-others", pods=("other",))
    world.claim("unknown-driver", drivers=("c.example.com",))
    world.claim("skipping", skipNodeOperations=["*"])
    assert await refused(world, subject) == message
    assert (world.manager.pods, world.a.calls, world.saved) == (frozenset(), [], [])


async def test_a_generated_claim_must_belong_to_the_pod() -> None:
    """C-16.2: before the name is recorded, and if it is somebody else's."""
    world = World()
    world.claim("c1")
    template = pod().to_wire() | {
        "spec": {"nodeName": "node-1", "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
    }
    assert await refused(world, Pod.from_wire(template)) == 'pod "test/pod": ResourceClaim not created yet'
    recorded = template | {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c1"}]}}
    assert (
        await refused(world, Pod.from_wire(recorded))
        == "ResourceClaim test/c1 was not created for Pod test/pod (Pod is not owner)"
    )
    unneeded = template | {"status": {"resourceClaimStatuses": [{"name": "gpu"}]}}
    assert await world.manager.prepare(Pod.from_wire(unneeded)) == {}


async def test_faults_of_a_driver_end_the_attempt_and_what_succeeded_is_kept_for_the_next() -> None:
    """C-16.5: the texts; other drivers may have prepared already, and are asked again."""
    world = World()
    world.claim("c1", drivers=("a.example.com", "b.example.com"))
    world.b.broken = "rpc error: code = Unavailable"
    assert await refused(world, pod("c1")) == "NodePrepareResources: rpc error: code = Unavailable"
    world.b.broken, world.b.answers["c1"] = "", "no firmware"
    assert await refused(world, pod("c1")) == "NodePrepareResources failed for ResourceClaim c1: no firmware"
    world.b.answers.clear()
    world.b.left_out = {"c1"}
    assert await refused(world, pod("c1")) == "NodePrepareResources skipped 1 ResourceClaims"
    world.b.left_out, world.b.stranger = set(), True
    assert await refused(world, pod("c1")) == "NodePrepareResources returned result for unknown claim UID ?"
    world.b.stranger = False
    prepared = await world.manager.prepare(pod("c1"))
    assert [device.driver for device in prepared["e-c1"].devices] == ["a.example.com", "b.example.com"]
    assert [len(plugin.calls) for plugin in (world.a, world.b)] == [5, 5]


async def test_operations_that_all_results_of_a_driver_skip_are_not_called() -> None:
    """C-16.3: and a driver whose prepare is skipped need not be registered."""
    world = World()
    world.manager = world.started(optional_operations=True)
    world.claim("none", drivers=("c.example.com",), skipNodeOperations=["*"])
    world.claim("late", skipNodeOperations=["NodeUnprepareResources"])
    await world.manager.prepare(pod("none", "late"))
    await world.manager.unprepare("uid-pod")
    assert world.a.calls == [("prepare", ("late",))]
    assert world.manager.pods == frozenset()


async def test_the_last_pod_gives_a_shared_claim_back() -> None:
    """C-16.7: with others left only the reference goes; a pod without an entry, or twice, is nothing to do."""
    world = World()
    world.claim("c1", pods=("pod", "second"))
    await world.manager.prepare(pod("c1"))
    await world.manager.prepare(pod("c1", name="second"))
    await world.manager.unprepare("uid-pod")
    await world.manager.unprepare("uid-pod")
    await world.manager.unprepare("uid-unknown")
    assert (world.a.calls, world.manager.pods) == ([("prepare", ("c1",))], frozenset({"uid-second"}))
    await world.manager.unprepare("uid-second")
    assert world.a.calls[1:] == [("unprepare", ("c1",))]


async def test_a_claim_that_is_being_unprepared_takes_no_pod_until_that_has_succeeded() -> None:
    """C-16.4, C-16.7: a failure leaves the entry marked; it is tried again."""
    world = World()
    world.claim("c1", pods=("pod", "second"))
    await world.manager.prepare(pod("c1"))
    world.a.answers["c1"] = "busy"
    with pytest.raises(PrepareError, match=r"^NodeUnprepareResources failed for ResourceClaim c1: busy$"):
        await world.manager.unprepare("uid-pod")
    assert await refused(world, pod("c1", name="second")) == "ResourceClaim c1 is being unprepared"
    world.a.answers.clear()
    world.a.left_out = {"c1"}
    with pytest.raises(PrepareError, match=r"^NodeUnprepareResources skipped 1 ResourceClaims$"):
        await world.manager.unprepare("uid-pod")
    world.a.left_out = set()
    del world.plugins["a.example.com"]
    with pytest.raises(PrepareError, match=r"^DRA driver a.example.com is not registered$"):
        await world.manager.unprepare("uid-pod")
    world.plugins["a.example.com"] = Plugin("a.example.com")
    await world.manager.unprepare("uid-pod")
    await world.manager.prepare(pod("c1", name="second"))
    assert world.manager.pods == frozenset({"uid-second"})


async def test_a_claim_that_was_replaced_under_its_name_waits_for_the_end_of_the_old_one() -> None:
    """C-16.4: its pod was deleted by force."""
    world = World()
    world.claim("c1")
    await world.manager.prepare(pod("c1"))
    await world.cluster.delete(ResourceClaim, "c1", NAMESPACE)
    world.claim("c1", uid="uid-new", pods=("second",))
    message = "old ResourceClaim with same name c1 and different UID uid-c1 still exists (previous pod force-deleted?!)"
    assert await refused(world, pod("c1", name="second")) == message
    await world.manager.unprepare("uid-pod")
    await world.manager.prepare(pod("c1", name="second"))


async def test_after_a_restart_claims_are_known_from_the_checkpoint_and_prepared_again() -> None:
    """C-16.5, C-22.16: pods that are gone can be unprepared, since users are saved before a driver is called."""
    world = World()
    world.claim("c1", pods=("pod", "second"))
    world.a.broken = "crash"
    await refused(world, pod("c1"))
    world.a.broken = ""
    await world.manager.prepare(pod("c1", name="second"))
    text = world.manager.checkpoint.to_json()
    world.manager = world.started(DraCheckpoint.from_json(text))
    assert world.manager.pods == frozenset({"uid-pod", "uid-second"})
    assert world.manager.checkpoint.to_json() == text
    world.a.calls.clear()
    await world.manager.prepare(pod("c1", name="second"))
    await world.manager.unprepare("uid-pod")
    await world.manager.unprepare("uid-second")
    assert world.a.calls == [("prepare", ("c1",)), ("unprepare", ("c1",))]
    with pytest.raises(ValueError, match="corrupt"):
        DraCheckpoint.from_json(text.replace("uid-pod", "uid-pud"))
