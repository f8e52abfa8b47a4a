"""Reviews of attackers with ordinary selectors on a large cluster, and what other tenants' reviews take meanwhile.

An attacker's template has 12 requests, each with one selector that matches no device and reads what differs on every
device. Launcher pods and VMIs that name it are small.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from devtools.webhooks.asking import AskingClient, Question
from devtools.webhooks.attack import percentile
from devtools.webhooks.serving import body, launcher_pod, review, vmi

DRIVER = "gpu.example.com"
DEVICES = 8
"""Devices of a slice."""
LISTS = 12
"""Requests of an attacker's template."""
HONEST_LISTS = 24
NAMESPACES = 4
"""Namespaces of attackers; of tenants there are as many."""
VARIANTS = 50
"""Templates of an attacker's namespace."""
API = "resource.k8s.io/v1"


def objects(slices: int) -> Iterator[dict[str, Any]]:
    """DeviceClasses, slices of two drivers, and the templates of attackers and tenants."""
    for name, driver in (("gpu", DRIVER), ("nic", "nic.example.com")):
        selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
        yield {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": [selector]}}
    yield {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": "any"}, "spec": {}}
    for number in range(slices):
        yield device_slice(number)
    for place in range(NAMESPACES):
        for variant in range(VARIANTS):
            wanted = [f"ffff-{place}-{variant}-{position}" for position in range(LISTS)]
            texts = [f'device.attributes["{DRIVER}"].uuid.startsWith("{text}")' for text in wanted]
            yield template(f"attacker-{place}", f"t{variant}", "any", texts)
        texts = [honest_selector(place * HONEST_LISTS + position) for position in range(HONEST_LISTS)]
        yield template(f"tenant-{place}", "t", "gpu", texts)
        yield template(f"tenant-{place}", "one", "gpu", texts[:1])


def honest_selector(number: int) -> str:
    attributes = f'device.attributes["{DRIVER}"]'
    return f'{attributes}.model == "model-{number % 5}" && {attributes}.index >= 0 && {number} >= 0'


def device_slice(number: int, generation: int = 1) -> dict[str, Any]:
    driver = DRIVER if number % 4 else "nic.example.com"
    pool = {"name": f"node-{number}", "generation": generation, "resourceSliceCount": 1}
    devices = [{"name": f"d{n}", "attributes": _attributes(number, n)} for n in range(DEVICES)]
    spec = {"driver": driver, "nodeName": f"node-{number}", "pool": pool, "devices": devices}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": f"node-{number}"}, "spec": spec}


def _attributes(node: int, number: int) -> dict[str, Any]:
    return {
        "resource.kubernetes.io/pciBusID": {"string": f"{node:04x}:{number:02x}:00.0"},
        "model": {"string": f"model-{node % 5}"},
        "index": {"int": number},
        "uuid": {"string": f"GPU-{node:08x}-{number:04x}-4000-8000-000000000000"},
    }


def template(namespace: str, name: str, device_class: str, texts: list[str]) -> dict[str, Any]:
    requests = [
        {"name": f"r{n}", "exactly": {"deviceClassName": device_class, "selectors": [{"cel": {"expression": text}}]}}
        for n, text in enumerate(texts)
    ]
    spec = {"spec": {"devices": {"requests": requests}}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


def vmi_review(namespace: str, name: str, requests: int) -> Question:
    gpus = [{"name": f"g{n}", "claimName": "c", "requestName": f"r{n}"} for n in range(requests)]
    claims = [{"name": "c", "resourceClaimTemplateName": name}]
    spec = {"resourceClaims": claims, "domain": {"devices": {"gpus": gpus}}}
    return "/validate-vmi", body(vmi(spec), namespace=namespace, dryRun=True)


def pod_review(namespace: str, name: str, requests: int) -> Question:
    pod = launcher_pod([("c", f"r{n}") for n in range(requests)])
    pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": name}]
    return "/mutate-launcher-pod", json.dumps(review(pod, namespace=namespace, name="")).encode()


def attacks(*, varying: bool = False) -> Iterator[Question]:
    """Reviews of VMIs and launcher pods in turns, without end; ``varying``: of a template that is new for long."""
    for number in itertools.count():
        place, variant = f"attacker-{number % NAMESPACES}", number // 8 % VARIANTS if varying else 0
        ask = vmi_review if number // NAMESPACES % 2 else pod_review
        yield ask(place, f"t{variant}", LISTS)


def tenants() -> Iterator[Question]:
    for number in itertools.count():
        yield (vmi_review if number % 2 else pod_review)(f"tenant-{number % NAMESPACES}", "one", 1)


@dataclass
class SiegeTimes:
    """Seconds of answers. ``overtaken``: of each of the tenants' reviews, how many of the attackers' were answered
    between its question and its answer; ``unchecked``: those of which some selector wasn't checked; ``failed``: those
    without a verdict."""

    tenants: list[float] = field(default_factory=list)
    overtaken: list[int] = field(default_factory=list)
    attackers: list[float] = field(default_factory=list)
    unchecked: int = 0
    failed: int = 0

    def p50(self) -> float:
        return percentile(self.tenants, 50)

    def p99(self) -> float:
        return percentile(self.tenants, 99)

    def __str__(self) -> str:
        p50, p99 = self.p50() * 1000, self.p99() * 1000
        theirs = f"{percentile(self.attackers, 50) * 1000:.0f}" if self.attackers else "-"
        return (
            f"tenants p50 {p50:.1f} p99 {p99:.1f} max {max(self.tenants) * 1000:.1f} ms, unchecked {self.unchecked}, "
            f"failed {self.failed}; attackers: {len(self.attackers)} answers, p50 {theirs} ms"
        )


async def unchecked_lists(port: int, trust: ssl.SSLContext) -> int:
    """Of the lists of a tenant's VM, which nobody asked about before, those that aren't checked."""
    client = await AskingClient.to(port, trust)
    _, answer = await client.ask(vmi_review("tenant-0", "t", HONEST_LISTS))
    await client.close()
    return answer.count(b"not checked")


async def besieged(
    port: int,
    trust: ssl.SSLContext,
    clients: int,
    seconds: float,
    rate: float = 20,
    *,
    varying: bool = False,
    answers: int = 0,
) -> SiegeTimes:
    """Tenants ask ``rate`` times a second while ``clients`` attackers ask as fast as they are answered: for so many
    seconds, and longer where tenants haven't asked all that is due by then, or attackers haven't had so many
    ``answers``."""
    times = SiegeTimes()
    asked = list[asyncio.Task[None]]()
    hostile, honest = attacks(varying=varying), tenants()
    begin = time.perf_counter() + (0.5 if clients else 0)
    end = time.perf_counter() + seconds

    def goes_on() -> bool:
        due = len(asked) < (end - begin) * rate - 1
        return time.perf_counter() < end or len(times.attackers) < answers or due

    async def attack() -> None:
        while goes_on():
            with suppress(OSError, EOFError):  # the server may hang up
                client = await AskingClient.to(port, trust)
                while goes_on():
                    began = time.perf_counter()
                    await client.ask(next(hostile))
                    times.attackers.append(time.perf_counter() - began)
                await client.close()

    idle = [await AskingClient.to(port, trust) for _ in range(8)]

    async def ask(due: float, question: Question) -> None:
        client = idle.pop() if idle else await AskingClient.to(port, trust)
        before = len(times.attackers)
        try:
            code, answer = await client.ask(question)
        except (OSError, EOFError):
            code, answer = 0, b""
            client = await AskingClient.to(port, trust)
        times.tenants.append(time.perf_counter() - due)
        times.overtaken.append(len(times.attackers) - before)
        times.failed += code != 200
        times.unchecked += b"not checked" in answer
        idle.append(client)

    attackers = [asyncio.create_task(attack()) for _ in range(clients)]
    while goes_on():
        due = begin + len(asked) / rate
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        asked.append(asyncio.create_task(ask(due, next(honest))))
    await asyncio.gather(*asked, *attackers)
    for client in idle:
        await client.close()
    return times
