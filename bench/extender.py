"""The scheduler extender: how long an answer takes with thousands of nodes, and how many pods kube-scheduler places
with and without it."""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
from rich.console import Console
from rich.table import Table

from devtools.cluster.control_plane import ControlPlane
from virt_dra.allocator import DEFAULT
from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.cluster.kube.cluster import KubeCluster, connect
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.cluster.memory.embedded import embedded_cluster
from virt_dra.extender.advising_process import AdvisingProcess, AdvisorSettings
from virt_dra.extender.configuration import scheduler_configuration
from virt_dra.extender.following import FollowedCluster
from virt_dra.extender.metrics import ExtenderMetrics
from virt_dra.extender.server import ExtenderPorts, ExtenderServer

Json = dict[str, Any]
GPUS = 8
POLICIES = ("pack", "spread", "least-fragmentation")
GOAL_P99 = 0.050
NAMESPACE = "vms"


def main(*, quick: bool = False) -> None:
    """Print all tables."""
    _answers(500 if quick else 5000, 100 if quick else 1000)
    asyncio.run(_under_flood(50 if quick else 1000, 20 if quick else 60, 50 if quick else 300))
    asyncio.run(_beside(20 if quick else 100, 40 if quick else 400))


def _answers(nodes: int, pods: int) -> None:
    table = Table(
        title=f"Answers: {nodes} nodes with {nodes * GPUS} devices, all asked for; {pods} pods of 12 kinds, ms"
    )
    for column in ("policy", "p50", "p99", "slowest", f"p99 < {GOAL_P99 * 1000:.0f}", "MiB"):
        table.add_column(column, justify="right")
    for policy in POLICIES:
        seconds, memory = asyncio.run(_asked(policy, nodes, pods))
        p99 = sorted(seconds)[int(0.99 * len(seconds))]
        cells = [f"{1000 * duration:.1f}" for duration in (statistics.median(seconds), p99, max(seconds))]
        table.add_row(policy, *cells, "met" if p99 < GOAL_P99 else "missed", f"{memory:.0f}")
    Console().print(table)


async def _asked(policy: str, nodes: int, pods: int) -> tuple[list[float], float]:
    """Seconds of each answer, and MiB."""
    names = [f"n{number:05d}" for number in range(nodes)]
    objects: list[TypedObject] = [_class(), *map(_node, names), *map(_slice, names)]
    process = AdvisingProcess(AdvisorSettings(policy, DEFAULT), lambda: objects)
    keeping = asyncio.create_task(process.keep())
    while not process.ready:
        await asyncio.sleep(0.05)
    seconds, chance = [], Random(1)
    for number in range(pods):
        claim = f"c{number}"
        process.put(
            ResourceClaim.from_wire(
                {
                    "metadata": {"name": claim, "namespace": NAMESPACE, "uid": claim},
                    "spec": _claim(chance.choice((1, 1, 2, 4))),
                }
            )
        )
        pod = _pod(f"p{number}", {"resourceClaimName": claim}, chance.choice(("2", "4", "8")))
        body = json.dumps({"Pod": pod.to_wire(), "NodeNames": names}).encode()
        began = time.perf_counter()
        answer = await process.answer("prioritize", body, evaluate=False)
        while answer.verdict == "unfinished":
            answer = await process.answer("prioritize", body, evaluate=True)
        seconds.append(time.perf_counter() - began)
        if answer.verdict != "scored":
            raise AssertionError(f"the extender had no preference: {answer.verdict}")
    status = Path(f"/proc/{process.pid}/status").read_text()
    memory = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024
    keeping.cancel()
    return seconds, memory


async def _under_flood(nodes: int, clients: int, pods: int) -> None:
    """Answers for pods of others, while clients ask for pods of one namespace, or of one each, whose selectors are
    costly."""
    table = Table(title=f"Under a flood: {nodes} nodes; {clients} clients ask for pods of 4 requests with 190 patterns")
    for column in ("namespaces of the clients", "others' p50, ms", "p99", "p99 of calm"):
        table.add_column(column, justify="right")
    names = [f"n{number:05d}" for number in range(nodes)]
    objects: list[TypedObject] = [_class(), *map(_node, names), *map(_slice, names)]
    objects += [_claim_object(f"other-{kind}", NAMESPACE, _claim(kind)) for kind in (1, 2, 4)]
    costly = []
    for number in range(4 * clients):
        pod, claims = _costly_pod(number, clients)
        costly.append(pod)
        objects += claims
    followed = FollowedCluster(embedded_cluster(), AdvisorSettings("pack", DEFAULT))
    followed.process = AdvisingProcess(AdvisorSettings("pack", DEFAULT), lambda: objects)
    server = ExtenderServer(followed, ExtenderMetrics())
    async with server.serving(ExtenderPorts(port=0, plain_port=0)) as ports:
        keeping = asyncio.create_task(followed.process.keep())
        while not followed.process.ready:
            await asyncio.sleep(0.05)
        calm = 0.0
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def ask(pod: Pod) -> None:
                body = {"Pod": pod.to_wire(), "NodeNames": names}
                async with session.post(f"http://127.0.0.1:{ports[0]}/prioritize", json=body) as answer:
                    await answer.read()

            async def attack(number: int, spaces: int) -> None:
                for turn in itertools.count():
                    pod = costly[(number + turn * clients) % len(costly)]
                    await ask(pod if spaces > 1 else costly[clients * (turn % 4)])
                    await asyncio.sleep(0.2)  # kube-scheduler lets a pod rest for longer

            for spaces in (0, 1, clients // 3, clients):
                asking = {0: 0, 1: clients}.get(spaces, spaces)
                attacks = [asyncio.create_task(attack(number, spaces)) for number in range(asking)]
                await asyncio.sleep(1.0)
                seconds = []
                for number in range(-3, pods):  # the first three find the scores that are kept
                    pod = _pod(f"o{number}", {"resourceClaimName": f"other-{(1, 2, 4)[number % 3]}"}, "2")
                    began = time.perf_counter()
                    await ask(pod)
                    seconds.append(time.perf_counter() - began)
                    await asyncio.sleep(0.01)
                for task in attacks:
                    task.cancel()
                del seconds[:3]
                p99 = sorted(seconds)[int(0.99 * len(seconds))]
                calm = calm or p99
                cells = f"{1000 * statistics.median(seconds):.0f}", f"{1000 * p99:.0f}", f"{p99 / calm:.1f} times"
                table.add_row(str(spaces), *cells)
        keeping.cancel()
    Console().print(table)


def _costly_pod(number: int, namespaces: int) -> tuple[Pod, list[ResourceClaim]]:
    """A pod of four claims that nobody else has, and these."""
    namespace, names = f"flood-{number % namespaces}", [f"c{number}-{index}" for index in range(4)]
    claims = []
    for name in names:
        patterns = " || ".join(f"device.driver.matches('(a|b{index}+)*{name}')" for index in range(190))
        spec = _claim(1)
        spec["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": patterns}}]
        claims.append(_claim_object(name, namespace, spec))
    pod = _pod(f"p{number}", {"resourceClaimName": names[0]}, "1")
    entries = [{"name": name, "resourceClaimName": name} for name in names]
    whole = Pod.from_wire(
        {
            "metadata": {**pod.metadata.to_wire(), "namespace": namespace},
            "spec": {**pod.spec.to_wire(), "resourceClaims": entries},
        }
    )
    return whole, claims


def _claim_object(name: str, namespace: str, spec: Json) -> ResourceClaim:
    return ResourceClaim.from_wire({"metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": spec})


async def _beside(nodes: int, pods: int) -> None:
    table = Table(title=f"Beside kube-scheduler: {pods} pods with a GPU each on {nodes} nodes of {GPUS}")
    for column in ("", "pods/s", "of those without"):
        table.add_column(column, justify="right")
    alone = await _placed(nodes, pods, None)
    table.add_row("without", f"{alone:.0f}", "")
    for policy in POLICIES:
        rate = await _placed(nodes, pods, policy)
        table.add_row(policy, f"{rate:.0f}", f"{100 * rate / alone:.0f}%")
    Console().print(table)


async def _placed(nodes: int, pods: int, policy: str | None) -> float:
    """Pods per second, from the moment at which their gates are gone."""
    with ControlPlane() as plane:
        plane.start_controllers("resourceclaim-controller")
        async with connect(str(plane.kubeconfig), limits=ClientLimits(qps=0, attempts=1)) as cluster:
            await _prepare(cluster, [f"n{number:03d}" for number in range(nodes)], pods)
            if policy is None:
                plane.start_scheduler(
                    {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
                )
                return await _released(cluster, pods)
            followed = FollowedCluster(cluster, AdvisorSettings(policy, DEFAULT))
            server = ExtenderServer(followed, ExtenderMetrics())
            async with server.serving(ExtenderPorts(port=0, plain_port=0)) as ports, followed.following():
                while not followed.process.ready:
                    await asyncio.sleep(0.05)
                plane.start_scheduler(scheduler_configuration(f"http://127.0.0.1:{ports[0]}"))
                return await _released(cluster, pods)


async def _prepare(cluster: KubeCluster, names: Sequence[str], pods: int) -> None:
    await cluster.create(Namespace.from_wire({"metadata": {"name": NAMESPACE}}))
    await cluster.create(_class())
    for name in names:
        await cluster.create(_node(name))
        await cluster.patch(Node, name, merge={"spec": {"taints": None}})
        await cluster.create(_slice(name))
    await cluster.create(
        ResourceClaimTemplate.from_wire(
            {"metadata": {"name": "gpu", "namespace": NAMESPACE}, "spec": {"spec": _claim(1)}}
        )
    )
    for number in range(pods):
        pod = _pod(f"p{number}", {"resourceClaimTemplateName": "gpu"}, "1")
        await cluster.create(pod.with_(spec=pod.spec.with_(schedulingGates=[{"name": "example.com/turn"}])))
    while len((await cluster.list(ResourceClaim, NAMESPACE)).items) < pods:
        await asyncio.sleep(0.1)


async def _released(cluster: KubeCluster, pods: int) -> float:
    began = time.perf_counter()
    for number in range(pods):
        await cluster.patch(Pod, f"p{number}", NAMESPACE, merge={"spec": {"schedulingGates": None}})
    while not all(pod.spec.node_name for pod in (await cluster.list(Pod, NAMESPACE)).items):
        await asyncio.sleep(0.1)
    return pods / (time.perf_counter() - began)


def _class() -> DeviceClass:
    return DeviceClass.from_wire(
        {
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]},
        }
    )


def _node(name: str) -> Node:
    room = {"cpu": "128", "memory": "512Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name}
    return Node.from_wire(
        {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room, "capacity": room}}
    )


def _slice(node: str) -> ResourceSlice:
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "uuid": {"string": f"{node}-{number}"},
                "index": {"int": number},
                "model": {"string": f"m{int(node[1:]) % 7}"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for number in range(GPUS)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return ResourceSlice.from_wire(
        {
            "metadata": {"name": node},
            "spec": {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices},
        }
    )


def _claim(count: int) -> Json:
    exactly = {"deviceClassName": "gpu", "count": count, "allocationMode": "ExactCount"}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def _pod(name: str, claim: Json, cpu: str) -> Pod:
    containers = [{"name": "compute", "image": "launcher", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    metadata = {"name": name, "namespace": NAMESPACE, "uid": name}
    return Pod.from_wire(
        {"metadata": metadata, "spec": {"resourceClaims": [{"name": "gpu", **claim}], "containers": containers}}
    )
