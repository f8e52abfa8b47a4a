"""What is known of a live cluster: equal to what a list of all objects says, at every moment at which nothing
changes."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from virt_dra.api.core_v1 import Namespace, Node
from virt_dra.api.integration.attribute_keys import Addresses, DriverKeys
from virt_dra.api.keeping.claims import kept_entries
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import NEWEST, KubeVirtVersion
from virt_dra.api.meta import TypedObject
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.reading.scheme import read_object
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import AlreadyExists, Invalid, NotFound
from virt_dra.live import world as live_world
from virt_dra.live.world import LiveSettings, LiveWorld
from webhooks.lint import LintInputs

KINDS: tuple[type[TypedObject], ...] = (
    ResourceClaimTemplate, ResourceClaim, DeviceClass, ResourceSlice, Node, DeviceTaintRule,
    VirtualMachine, VirtualMachineInstance, KubeVirt, DeviceProfile, Namespace,
)  # fmt: skip


def _object(dice: random.Random) -> TypedObject:
    name, namespace, number = dice.choice("abc"), dice.choice(("x", "y")), dice.randrange(3)
    device_spec = {"devices": {"requests": [{"name": f"r{number}", "exactly": {"deviceClassName": "gpu"}}]}}
    vmi_spec = {
        "resourceClaims": [
            {"name": "c", "resourceClaimName": dice.choice(("m", "n", f"{name}-c"))},
            {"name": "d", "resourceClaimTemplateName": "t"},
        ]
    }
    annotations = {"virt-dra.io/integration-path": "native", "other": "x", "virt-dra.io/kept-claims": '{"c":"t"}'}
    slice_spec = {
        "driver": dice.choice(("one.example.com", "two.example.com")),
        "nodeName": "n",
        "pool": {"name": dice.choice("pq"), "generation": number + 1, "resourceSliceCount": 1},
        "devices": [{"name": f"d{n}", "attributes": {"model": {"int": n}}} for n in range(number)],
    }
    bodies: dict[type[TypedObject], dict[str, Any]] = {
        ResourceClaimTemplate: {"spec": {"spec": device_spec}},
        ResourceClaim: {"spec": device_spec},
        DeviceClass: {"spec": {"selectors": [{"cel": {"expression": f"{number} == 1"}}]}},
        ResourceSlice: {"spec": slice_spec},
        Node: {"metadata": {"labels": {"zone": str(number)}}},
        DeviceTaintRule: {
            "spec": {
                "deviceSelector": {"pool": "p"},
                "taint": {"key": "example.com/k", "value": str(number), "effect": "NoSchedule"},
            }
        },
        VirtualMachine: {"spec": {"template": {"spec": vmi_spec}}},
        VirtualMachineInstance: {"metadata": {"annotations": annotations}, "spec": vmi_spec},
        DeviceProfile: {"spec": {"devices": [{"name": "gpu", "count": number + 1, "deviceClassName": "gpu"}]}},
        Namespace: {"metadata": {"labels": {"team": str(number)}}},
        KubeVirt: {"status": {"observedKubeVirtVersion": f"v1.8.{number}"}},
    }
    kind = dice.choice(KINDS)
    body = bodies[kind]
    metadata = {"name": name, **({"namespace": namespace} if kind.NAMESPACED else {}), **body.get("metadata", {})}
    return read_object({"apiVersion": kind.API_VERSION, "kind": kind.KIND, **body, "metadata": metadata})


async def _change(cluster: MemoryCluster, dice: random.Random) -> None:
    new = _object(dice)
    if dice.random() < 0.3:
        with suppress(NotFound):
            await cluster.delete(type(new), new.name, new.namespace)
        return
    try:
        await cluster.create(new)
    except AlreadyExists:
        there = await cluster.get(type(new), new.name, new.namespace)
        with suppress(Invalid):  # some fields can't be changed
            await cluster.update(
                new.with_(metadata=new.metadata.with_(resource_version=there.metadata.resource_version))
            )


async def _objects(cluster: MemoryCluster) -> list[TypedObject]:
    return [obj for kind in KINDS for obj in (await cluster.list(kind)).items]


def _seen(world: LintInputs) -> Any:
    return {
        "version": world.configuration.version,
        "claims": [
            [(obj.key, obj.to_wire()) for obj in world.model.of(kind)]
            for kind in (ResourceClaimTemplate, ResourceClaim, DeviceClass)
        ],
        "rules": [(rule.name, rule.spec.to_wire()) for rule in world.model.of(DeviceTaintRule)],
        "devices": [(device.name, device.device.to_wire()) for device in world.inventory.devices],
        "labels": [(obj.name, obj.metadata.labels) for kind in (Node, Namespace) for obj in world.model.of(kind)],
        "profiles": [
            (profile.name, profile.metadata.uid, profile.metadata.generation, profile.spec.to_wire())
            for profile in world.model.of(DeviceProfile)
        ],
        "users": [world.users(namespace, claim) for namespace in "xy" for claim in "mn"],
        "vmis": [
            (vmi.key, vmi.metadata.uid, vmi.metadata.controller_owner) for vmi in world.model.of(VirtualMachineInstance)
        ],
        "kept": [kept_entries(vmi) for vmi in world.model.of(VirtualMachineInstance)],
        "known_kinds": world.known_kinds,
    }


async def _settled(live: LiveWorld, want: Callable[[], Awaitable[Any]]) -> None:
    until = time.monotonic() + 10
    while _seen(live.world) != await want():
        if time.monotonic() > until:
            assert _seen(live.world) == await want()
        await asyncio.sleep(0.002)


async def test_it_is_what_a_list_of_everything_says(monkeypatch: Any) -> None:
    monkeypatch.setattr(live_world, "SETTLE_SECONDS", 0.001)
    monkeypatch.setattr(live_world, "AT_ONCE", 2)

    dice = random.Random(5)
    cluster = MemoryCluster.deterministic()
    for _ in range(40):
        await _change(cluster, dice)
    live = LiveWorld(cluster)
    assert live.knowledge() is None
    assert len(live.waiting_for) == len(KINDS)

    async def want() -> Any:
        return _seen(LintInputs.from_objects(await _objects(cluster), known_kinds=live.world.known_kinds))

    async with live.following():
        while live.knowledge() is None:
            await asyncio.sleep(0)
        assert live.waiting_for == ()
        assert _seen(live.world) == await want()
        for _ in range(40):
            before, seen = live.world, _seen(live.world)
            for _ in range(dice.randint(1, 15)):
                await _change(cluster, dice)
            await _settled(live, want)
            assert _seen(before) == seen, "who looks at a state sees no other"
        preflight = live.knowledge()
        assert preflight is live.knowledge(), "nothing is made anew while nothing changes"


async def test_a_version_that_is_set_counts_whatever_the_cluster_says() -> None:
    cluster = MemoryCluster.deterministic()
    assert LiveWorld(cluster).world.configuration.version == NEWEST
    version = KubeVirtVersion.parse("1.7.1")
    live = LiveWorld(cluster, LiveSettings(version=version, gates={"HostDevices": True}))
    kubevirt = {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "k", "namespace": "k"}}
    await cluster.create(read_object({**kubevirt, "status": {"observedKubeVirtVersion": "v1.9.0"}}))
    async with live.following():
        while (preflight := live.knowledge()) is None:
            await asyncio.sleep(0)
        assert preflight.gates.version == version
        assert "HostDevices" in preflight.gates


async def test_a_version_that_names_no_release_is_logged_once_with_what_is_assumed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def all_of_it() -> None:
        cluster = MemoryCluster.deterministic()
        live = LiveWorld(cluster)
        head = {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "k", "namespace": "k"}}
        cluster.load([read_object({**head, "status": {"observedKubeVirtVersion": "20260801_abcdef"}})])
        made = await cluster.get(KubeVirt, "k", "k")
        async with live.following():
            while live.knowledge() is None:
                await asyncio.sleep(0)
            assert live.world.configuration.version == NEWEST
            changed = {
                **made.to_wire(),
                "spec": {"configuration": {"developerConfiguration": {"disabledFeatureGates": ["GPUsWithDRA"]}}},
            }
            await cluster.update(read_object(changed))
            while "GPUsWithDRA" in live.world.configuration.gates:
                await asyncio.sleep(0)

    await all_of_it()
    sentence = (
        'status.observedKubeVirtVersion is "20260801_abcdef", which names no release: the rules of 1.9, the newest'
    )
    assert [record.levelname for record in caplog.records if sentence in record.message] == ["WARNING"]


async def test_configured_keys_of_addresses_count() -> None:
    cluster = MemoryCluster.deterministic()
    device = {"name": "d", "attributes": {"where": {"string": "0000:01:00.0"}}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": [device]}
    await cluster.create(ResourceSlice.from_wire({"metadata": {"name": "s"}, "spec": spec}))
    live = LiveWorld(cluster, LiveSettings(address_keys=(DriverKeys("gpu.example.com", pci=("where",)),)))
    async with live.following():
        while live.knowledge() is None:
            await asyncio.sleep(0)
    assert [device.addresses for device in live.world.inventory.devices] == [Addresses(pci="0000:01:00.0")]


def _large(number: int, generation: int = 1) -> ResourceSlice:
    devices = [{"name": f"d{n}", "attributes": {"model": {"string": f"m{n % 3}"}}} for n in range(8)]
    pool = {"name": f"n{number}", "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": f"n{number}", "pool": pool, "devices": devices}
    return ResourceSlice.from_wire(
        {"metadata": {"name": f"s{number}", "resourceVersion": str(generation)}, "spec": spec}
    )


@pytest.mark.slow
async def test_changes_of_thousands_of_slices_leave_turns_to_reviews() -> None:
    live = LiveWorld(MemoryCluster.deterministic())
    for number in range(5000):
        live._slice(None, _large(number))
    live._whole = True
    task = asyncio.create_task(live._settle())
    turns, seen = [], live.world
    while len(live.world.inventory.slices) < 5000:
        begin = time.process_time()
        await asyncio.sleep(0)
        turns.append(time.process_time() - begin)
        if live.world is seen:
            turns.pop()
        seen = live.world
    assert len(turns) == 200
    assert sorted(turns)[180] < 0.02, "seconds; a few thousandths on a machine of one's own"
    took = []
    for number in range(50):
        begin = time.process_time()
        live._slice(None, _large(number, 2))
        await live._take_over()
        took.append(time.process_time() - begin)
    assert sorted(took)[len(took) // 2] < 0.005
    task.cancel()
