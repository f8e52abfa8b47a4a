"""An attack on a real server over TLS, measured: other tenants' reviews, health probes, and what the attacker's own
reviews take."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from devtools.webhooks.serving import Served, body, vmi
from devtools.webhooks.slow_selectors import DRIVER

TENANTS = 20


@dataclass
class Times:
    """Seconds of each answer."""

    reviews: list[float] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)
    hostile: list[float] = field(default_factory=list)
    unchecked: int = 0
    """Of the other tenants' reviews, those with selectors that were not checked."""

    def p99(self) -> float:
        return percentile(self.reviews, 99)


def percentile(values: Iterable[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def vmi_of(template: str, namespace: str) -> bytes:
    """A review of a VMI with one claim, of a template."""
    claims = [{"name": "c", "resourceClaimTemplateName": template}]
    devices = {"gpus": [{"name": "g", "claimName": "c", "requestName": "gpu"}]}
    return body(vmi({"resourceClaims": claims, "domain": {"devices": devices}}), namespace=namespace)


def unseen(number: int) -> str:
    """A new selector, as tenants write them."""
    return (
        f'device.attributes["{DRIVER}"].model == "m{number % 3}" && '
        f'device.attributes["{DRIVER}"].index >= {number % 8} && {number} > 0'
    )


async def measured(
    served: Served,
    seconds: float,
    rate: float,
    ask: Callable[[int], bytes],
    hostile: Iterable[bytes] = (),
    at_once: int = 8,
) -> Times:
    """Others ask ``rate`` times a second, a probe comes every 50 ms, while ``at_once`` attackers ask as fast as they
    are answered."""
    times = Times()
    end = time.perf_counter() + seconds
    attacks = iter(hostile)

    async def attack() -> None:
        while time.perf_counter() < end and (data := next(attacks, None)) is not None:
            began = time.perf_counter()
            await served.ask(data)
            times.hostile.append(time.perf_counter() - began)

    async def probe() -> None:
        while time.perf_counter() < end:
            began = time.perf_counter()
            assert await served.plain("/healthz") == (200, "ok\n")
            times.probes.append(time.perf_counter() - began)
            await asyncio.sleep(0.05)

    async def review(number: int, due: float) -> None:
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        code, answer = await served.ask(ask(number))
        times.reviews.append(time.perf_counter() - due)
        assert code == 200, answer
        times.unchecked += "not checked" in json.dumps(answer)

    start = time.perf_counter()
    due = [review(number, start + number / rate) for number in range(int(seconds * rate))]
    await asyncio.gather(*(attack() for _ in range(at_once)), probe(), *due)
    return times
