"""Partitionable devices: counter sets, what devices consume of them, compatibility groups."""

from __future__ import annotations

from devtools.upstream.allocator.problems.mix import Json, Mix

Sets = dict[str, list[str]]
"""Names of a pool's counter sets and their counters."""

_AMOUNTS = {"1": 4.0, "2": 5.0, "3": 3.0, "4": 3.0, "0": 0.5, "1500m": 0.7, "0.5": 0.5, "1e0": 0.2, "8": 0.3}
_LIMITS = {"4": 5.0, "6": 4.0, "8": 3.0, "3": 3.0, "0": 0.4, "2500m": 0.7, "12": 2.0, "16": 1.0}
_GROUPS = ("mig", "mps", "ts")


def counter_sets(mix: Mix) -> Sets:
    return {f"cs{i}": ["m", "x"][: mix.choice((1, 1, 2))] for i in range(mix.choice((1, 1, 2, 3)))}


def declared(mix: Mix, sets: Sets) -> list[Json]:
    """The entries of ``sharedCounters``."""
    return [
        {"name": name, "counters": {counter: {"value": mix.pick(_LIMITS)} for counter in counters}}
        for name, counters in sets.items()
    ]


def consumed(mix: Mix, sets: Sets) -> list[Json]:
    """``consumesCounters`` of a device: of one or two sets, sometimes not of each counter."""
    consumptions = []
    for name in mix.some(list(sets), 2):
        counters = sets[name] if mix.chance(0.6) else mix.some(sets[name], 2)
        entry: Json = {"counterSet": name, "counters": {counter: {"value": mix.pick(_AMOUNTS)} for counter in counters}}
        if mix.has("compatibility_groups", 0.75, 0.03):
            entry["compatibilityGroups"] = mix.sample(_GROUPS, mix.choice((0, 1, 1, 1, 2)))
        consumptions.append(entry)
    return [*consumptions, {**consumptions[0]}] if mix.chance(0.01) else consumptions


def spoil(mix: Mix, counter_slices: list[Json], devices: list[Json]) -> None:
    """One fault in a pool with counters."""
    consuming = [device for device in devices if device.get("consumesCounters")]
    fault = mix.choice(("negative value", "negative consumption", "no set", "no counter", "twice"))
    sets = [entry for slice_ in counter_slices for entry in slice_["spec"]["sharedCounters"]]
    if fault == "negative value" and sets:
        mix.choice(sets)["counters"]["m"] = {"value": "-1"}
    elif fault == "twice" and sets:
        mix.choice(counter_slices)["spec"]["sharedCounters"].append(mix.choice(sets))
    elif consuming:
        consumption = mix.choice(mix.choice(consuming)["consumesCounters"])
        if fault == "negative consumption":
            consumption["counters"] = {name: {"value": "-2"} for name in consumption["counters"]}
        elif fault == "no set":
            consumption["counterSet"] = "nowhere"
        elif fault == "no counter":
            consumption["counters"] = consumption["counters"] | {"absent": {"value": "1"}}
