"""Consumable capacity: what devices publish, with which policies, what requests ask for, what shares hold already."""

from __future__ import annotations

from devtools.upstream.allocator.problems.mix import Json, Mix

_NAMES = {"mem": 5.0, "bw": 5.0, "a.example.com/mem": 0.4, "common.io/slots": 2.0}
_VALUES = {
    "mem": ("10Gi", "8Gi", "4Gi", "6Gi", "10G"),
    "bw": ("1", "2", "8", "1.5", "2500m"),
    "slots": ("4", "2", "10", "100", "3"),
}
_REQUESTED = {
    "mem": ("1Gi", "2Gi", "3Gi", "1500M", "500Mi", "1.1Gi", "4Gi", "0.5Gi", "2000000000", "2048Mi", "5Gi", "1025Mi"),
    "bw": ("1", "100m", "0.5", "250m", "120m", "120m", "1.01", "2", "951m", "1e0", "0.75", "333m"),
    "slots": ("1", "2", "3", "1500m", "5", "0", "1e1"),
}
_ODD = ("-1", "0.1234", "9223372036854775808", "9223372036854775807", "1n", "12345678901234567890m")
"""What can't be represented somewhere, or isn't an amount: errors, or exact arithmetic beyond 64 bits."""

_RANGES: dict[str, tuple[Json, ...]] = {
    "mem": (
        {"min": "1Gi", "max": "4Gi", "step": "512Mi"},
        {"min": "1Gi", "step": "1Gi"},
        {"min": "512Mi", "max": "6Gi"},
        {"min": "1Gi"},
        {"min": "1G", "step": "500M", "max": "8G"},
    ),
    "bw": (
        {"min": "100m", "step": "50m"},
        {"min": "100m", "max": "1", "step": "100m"},
        {"min": "1", "step": "1"},
        {"min": "0.5", "max": "1.5"},
        {"min": "250m", "step": "250m", "max": "2"},
        {"min": "0", "step": "0.5"},
    ),
    "slots": (
        {"min": "1", "step": "1"},
        {"min": "1", "max": "3", "step": "2"},
        {"min": "0", "step": "2"},
        {"min": "1", "max": "4"},
    ),
}
_DEFAULTS = {"mem": ("1Gi", "2Gi", "1G"), "bw": ("1", "100m", "0.5"), "slots": ("1", "2", "0")}
_VALUE_LISTS = {
    "mem": (["1Gi", "2Gi", "4Gi"], ["512Mi", "1.5Gi"], ["1G", "2Gi"]),
    "bw": (["100m", "0.5", "1"], ["1", "2"], ["0.25"]),
    "slots": (["1", "2", "4"], ["2"], ["0", "3"]),
}


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def published(mix: Mix) -> Json:
    """``capacity`` of a device."""
    names = {mix.pick(_NAMES) for _ in range(mix.choice((1, 1, 2, 2, 3)))}
    capacity: Json = {}
    for name in sorted(names):
        base = _base(name)
        capacity[name] = {"value": mix.choice(_VALUES[base])}
        if mix.has("capacity_policies", 0.7, 0.1):
            capacity[name]["requestPolicy"] = _policy(mix, base)
    if mix.chance(0.004):
        mix.choice(list(capacity.values()))["value"] = mix.choice(("-1", "0"))
    return capacity


def _policy(mix: Mix, base: str) -> Json:
    kind = mix.pick({"range": 6, "values": 2, "default": 2, "nothing": 0.2})
    policy: Json = {}
    if kind == "range":
        policy = {"default": mix.choice(_RANGES[base])["min"], "validRange": dict(mix.choice(_RANGES[base]))}
        if mix.chance(0.85):  # as validation wants it
            policy["default"] = policy["validRange"]["min"]
    elif kind == "values":
        values = list(mix.choice(_VALUE_LISTS[base]))
        policy = {"default": mix.choice(values), "validValues": values}
    elif kind == "default":
        policy = {"default": mix.choice(_DEFAULTS[base])}
    if mix.chance(0.01):
        policy["validValues"] = list(mix.choice(_VALUE_LISTS[base]))
    if mix.chance(0.03):
        policy.pop("default", None)
    if mix.chance(0.03):
        policy["default"] = mix.choice(_DEFAULTS[base])
    if mix.chance(0.005) and "validRange" in policy:
        del policy["validRange"]["min"]  # with a step AC-23
    return policy


def requested(mix: Mix) -> Json:
    """``capacity`` of a request."""
    if mix.chance(0.03):
        return mix.choice(({}, {"requests": {}}))
    names = {mix.pick(_NAMES | {"absent": 0.05}) for _ in range(mix.choice((1, 1, 1, 2)))}
    return {"requests": {name: _amount(mix, name) for name in sorted(names)}}


def _amount(mix: Mix, name: str) -> str:
    if mix.chance(0.02):
        return mix.choice(_ODD)
    return mix.choice(_REQUESTED.get(_base(name), ("1",)))


def held(mix: Mix, device: Json) -> Json:
    """``consumedCapacity`` of one share of the device: nearly always what such a share would hold."""
    amounts = {name: mix.choice(_REQUESTED[_base(name)]) for name in device.get("capacity", {}) if mix.chance(0.95)}
    if mix.chance(0.03):
        amounts["gone"] = "1"
    return amounts
