"""Searches in which the reference tries every combination: one pod on one node, as workloads, each for a size n.

The names say what is asked; nearly all of them have no solution, which is what takes so long to find out by trying.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.workloads import DEFAULT_FEATURES, GPU, Json, claim, device_class, exact, nodes, resource_slice

MATCH = f"{GPU}/group"
HELD = 32
"""Devices that a claim may hold."""
PER_SLICE = 128
COUNTING_PER_SLICE = 64


@dataclass(frozen=True)
class Explosion:
    """``sizes``: the n that are measured. ``fits``: whether the pod has a solution."""

    name: str
    make: Callable[[int], Json]
    sizes: tuple[int, ...]
    fits: bool = False


def _device(index: int, **attributes: int | str) -> Json:
    values = {
        name: {"int": value} if isinstance(value, int) else {"string": value} for name, value in attributes.items()
    }
    return {"name": f"gpu-{index}", "attributes": {"index": {"int": index}, "type": {"string": "gpu"}, **values}}


def _pod(
    devices: Sequence[Json], claims: Sequence[Json], *, per_slice: int = PER_SLICE, slices: Iterable[Json] = ()
) -> Json:
    first = list(slices)
    parts = [devices[i : i + per_slice] for i in range(0, len(devices), per_slice)]
    count = len(parts) + len(first)
    made = [resource_slice(GPU, "node-00000", part, part=f"-{i:03}", slices=count) for i, part in enumerate(parts)]
    for part in (*made, *first):
        part["spec"]["pool"]["resourceSliceCount"] = count
    return {
        "features": DEFAULT_FEATURES,
        "nodes": nodes(1),
        "classes": [
            device_class("gpu", GPU, f'device.attributes["{GPU}"].type == "gpu"'),
            device_class("none", "none.example.com"),
        ],
        "slices": [*first, *made],
        "claims_per_pod": list(claims),
        "pods": 1,
    }


def _plain(count: int) -> list[Json]:
    return [_device(i) for i in range(count)]


def _singles(count: int, **more: Any) -> list[Json]:
    return [exact(f"gpu-{i}", "gpu", **more) for i in range(count)]


def _in_claims(requests: Sequence[Json]) -> list[Json]:
    """As many claims as it takes."""
    return [claim(f"gpus-{start}", requests[start : start + HELD]) for start in range(0, len(requests), HELD)]


def last_devices_match(n: int) -> Json:
    """The first n - 1 devices agree, and the last n do."""
    devices = [_device(i, group="first" if i < n - 1 else "last") for i in range(2 * n - 1)]
    return _pod(devices, [claim("gpus", [exact("gpus", "gpu", count=n)], [{"matchAttribute": MATCH}])])


def one_missing(n: int) -> Json:
    """n devices wanted, n - 1 there."""
    return _pod(_plain(n - 1), [claim("gpus", [exact("gpus", "gpu", count=n)])])


def two_requests_one_too_many(n: int) -> Json:
    """Two requests for n devices in total, n - 1 there."""
    requests = [exact("one", "gpu", count=n // 2), exact("two", "gpu", count=n - n // 2)]
    return _pod(_plain(n - 1), [claim("gpus", requests)])


def two_claims_one_too_many(n: int) -> Json:
    """Claims of up to 32 devices for n in total, n - 1 there."""
    sizes = [n // 2, n - n // 2] if n <= 2 * HELD else [HELD] * (n // HELD)
    claims = [claim(f"claim-{i}", [exact("gpus", "gpu", count=size)]) for i, size in enumerate(sizes)]
    return _pod(_plain(sum(sizes) - 1), claims)


def later_claim_fails(n: int) -> Json:
    """A claim for n of 2 n devices, then one for a device that is not there."""
    return _pod(_plain(2 * n), [claim("gpus", [exact("gpus", "gpu", count=n)]), claim("none", [exact("none", "none")])])


def last_request_fails(n: int) -> Json:
    """n - 1 requests that every device suits, then one that none does."""
    return _pod(_plain(2 * n), [claim("gpus", [*_singles(n - 1), exact("none", "none")])])


def many_alternatives(n: int) -> Json:
    """n - 1 requests with 3 alternatives each, then one that no device suits."""
    alternatives = [
        {
            "name": f"gpu-{i}",
            "firstAvailable": [
                {"name": f"choice-{k}", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
                for k in range(3)
            ],
        }
        for i in range(n - 1)
    ]
    return _pod(_plain(n + 8), [claim("gpus", [*alternatives, exact("none", "none")])])


def distinct_values(n: int) -> Json:
    """n requests for distinct values, of which there are n - 1 on 4 (n - 1) devices."""
    devices = [_device(i, group=f"group-{i % (n - 1)}") for i in range(4 * (n - 1))]
    return _pod(devices, [claim("gpus", _singles(n), [{"distinctAttribute": MATCH}])])


def _counting(n: int, total: int) -> Json:
    """2 n devices that consume 1 of ``total`` each; n wanted."""
    counters = [{"name": "board", "counters": {"power": {"value": str(total)}}}]
    consumed = [{"counterSet": "board", "counters": {"power": {"value": "1"}}}]
    devices = [{**_device(i), "consumesCounters": consumed} for i in range(2 * n)]
    board = resource_slice(GPU, "node-00000", [], part="-board", sharedCounters=counters)
    return _pod(devices, [claim("gpus", [exact("gpus", "gpu", count=n)])], per_slice=COUNTING_PER_SLICE, slices=[board])


def counters_too_small(n: int) -> Json:
    """The counter holds n - 1 devices, n are wanted."""
    return _counting(n, n - 1)


def capacity_too_small(n: int) -> Json:
    """n requests for 4 of devices that share 10: room for n - 1 of them (for n - 2 if n is even)."""
    devices = [
        {**_device(i), "allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": "10"}}}
        for i in range((n - 1) // 2)
    ]
    return _pod(devices, _in_claims(_singles(n, capacity={"requests": {"bandwidth": "4"}})))


def two_capacities_too_small(n: int) -> Json:
    """n requests for two capacities of devices, of which each serves two, whichever they are. The sums would allow
    it."""
    capacity = {name: {"value": "10"} for name in ("bandwidth", "memory")}
    devices = [{**_device(i), "allowMultipleAllocations": True, "capacity": capacity} for i in range(n * 8 // 19)]
    preferences = [{"bandwidth": str(3 + i % 3), "memory": str(5 - i % 3)} for i in range(n)]
    return _pod(
        devices,
        _in_claims([exact(f"gpu-{i}", "gpu", capacity={"requests": wish}) for i, wish in enumerate(preferences)]),
    )


def groups_of_seven(n: int) -> Json:
    """n requests of one group each, all groups have 7 of some hundred devices."""
    devices = [_device(i, group=f"group-{i % 36}") for i in range(252)]
    return _pod(devices, [claim("gpus", _singles(n), [{"matchAttribute": MATCH}])])


EXPLOSIONS = (
    Explosion("only the last n devices match", last_devices_match, (8, 26, 32), fits=True),
    Explosion("n wanted, n-1 there", one_missing, (8, 26, 32)),
    Explosion("two requests, one too many", two_requests_one_too_many, (8, 26, 32)),
    Explosion("two to four claims, one too many", two_claims_one_too_many, (8, 26, 64, 128)),
    Explosion("a later claim fails", later_claim_fails, (8, 16, 32)),
    Explosion("the last request fails", last_request_fails, (8, 16, 32)),
    Explosion("firstAvailable in many requests", many_alternatives, (8, 16, 32)),
    Explosion("too few distinct values", distinct_values, (8, 16, 32)),
    Explosion("counters never suffice", counters_too_small, (8, 16, 32)),
    Explosion("shared capacity never suffices", capacity_too_small, (8, 16, 32, 128)),
    Explosion("two shared capacities never suffice", two_capacities_too_small, (8, 19, 32, 64)),
    Explosion("groups of 7 among 252", groups_of_seven, (8, 16, 32)),
)
