"""What is allocated already: claims with a status, and states that no claim of today produces."""

from __future__ import annotations

from devtools.upstream.allocator.problems import capacity
from devtools.upstream.allocator.problems.mix import Json, Mix


def used(mix: Mix, slices: list[Json]) -> tuple[list[Json], Json | None]:
    """``allocated`` and ``allocated_state`` of the problem."""
    results: list[Json] = []
    devices = [(slice_["spec"], device) for slice_ in slices for device in slice_["spec"].get("devices", ())]
    for spec, device in devices:
        place = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
        if device.get("allowMultipleAllocations"):
            for _ in range(mix.choice((1, 1, 2)) if mix.has("shares", 0.35, 0.2) else 0):
                results.append(_result(mix, place, _share(mix, device, len(results))))
        elif mix.has("used", 0.3, 0.07):
            share = _share(mix, device, len(results)) if mix.chance(0.02) else {}  # AC-1
            results.append(_result(mix, place, share))
    if mix.has("used", 0.1, 0.01) and devices:
        spec, device = mix.choice(devices)
        results.append(
            {"request": "r", "driver": spec["driver"], "pool": spec["pool"]["name"], "device": "gone"}
        )  # AC-2
    mix.shuffle(results)
    claims = []
    for i in range(0, len(results), 4):
        allocation = {"devices": {"results": results[i : i + 4]}}
        claims.append(
            {"metadata": {"name": f"other{i}", "namespace": "ns"}, "spec": {}, "status": {"allocation": allocation}}
        )
    return claims, _state(mix, devices) if mix.has("used", 0.15, 0.02) and devices else None


def _result(mix: Mix, place: Json, share: Json) -> Json:
    result = {"request": "r", **place, **share}
    if mix.has("admin_access", 0.2, 0.02):
        result["adminAccess"] = mix.chance(0.9)
    return result


def _share(mix: Mix, device: Json, number: int) -> Json:
    share: Json = {"shareID": f"00000000-0000-4000-8000-{number:012d}"}
    held = capacity.held(mix, device)
    return share | ({"consumedCapacity": held} if held else {})


def _state(mix: Mix, devices: list[tuple[Json, Json]]) -> Json:
    """Any of the three parts alone (A-3.5)."""
    state: Json = {"devices": [], "shared": [], "capacity": []}
    for spec, device in mix.sample(devices, min(len(devices), mix.choice((1, 2)))):
        place = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
        if not device.get("allowMultipleAllocations") and mix.chance(0.95):
            state["devices"].append(place)
            continue
        kind = mix.choice(("devices", "shared", "capacity"))
        if kind == "shared":
            place["shareID"] = f"00000000-0000-4000-9000-{mix.randrange(9):012d}"
        elif kind == "capacity":
            place["consumed"] = capacity.held(mix, device)
        state[kind].append(place)
    return {kind: entries for kind, entries in state.items() if entries}
