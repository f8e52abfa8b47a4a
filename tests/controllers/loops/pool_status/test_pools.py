"""The answer to a pool status request (C-12.2 to C-12.8)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourcePoolStatusRequest, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.controllers.loops.pool_status.pools import has_incomplete, pool_request_status
from virt_dra.simulator.virtual_time import BEGINNING

DRIVER = "gpu.example.com"
CASES: dict[str, Any] = yaml.safe_load((Path(__file__).parent.parent / "cases" / "pool_status.yaml").read_text())


def pool_slice(number: int, given: Json) -> ResourceSlice:
    """A slice of a case: what it says of ``spec``; ``devices`` may be names."""
    spec = {"driver": DRIVER, **given}
    spec["pool"] = {"name": "a", "generation": 1, "resourceSliceCount": 1, **given.get("pool", {})}
    spec["devices"] = [{"name": device} if isinstance(device, str) else device for device in given.get("devices", [])]
    return ResourceSlice.from_wire({"metadata": {"name": f"slice-{number:03}"}, "spec": spec})


def allocated(number: int, results: Sequence[Json | str]) -> ResourceClaim:
    full = [
        {"request": "gpu", "driver": DRIVER, "pool": "a", **({"device": result} if isinstance(result, str) else result)}
        for result in results
    ]
    return ResourceClaim.from_wire(
        {"metadata": {"name": f"claim-{number:03}"}, "status": {"allocation": {"devices": {"results": full}}}}
    )


def answer(case: Json) -> tuple[Json, bool]:
    request = ResourcePoolStatusRequest.from_wire(
        {"metadata": {"name": "r"}, "spec": {"driver": DRIVER, **case.get("request", {})}}
    )
    slices = [pool_slice(*slice_) for slice_ in enumerate(case.get("slices", ()))]
    claims = [allocated(*claim) for claim in enumerate(case.get("claims", ()))]
    rules = [DeviceTaintRule.from_wire({"metadata": {"name": "rule"}, "spec": spec}) for spec in case.get("rules", ())]
    status = pool_request_status(request, slices, claims, rules, BEGINNING)
    return status.to_wire(), has_incomplete(status)


@pytest.mark.parametrize("name", CASES)
def test_pools_are_counted(name: str) -> None:
    """C-12.2, C-12.3, C-12.4, C-12.5, C-12.6, C-12.7, C-12.8: each case names its rule."""
    case = CASES[name]
    status, incomplete = answer(case)
    condition = {
        "type": "Complete",
        "status": "True",
        "reason": "CalculationComplete",
        "message": case.get("message", "Calculated status for 1 pools"),
        "lastTransitionTime": "2026-11-22T12:00:00Z",
    }
    assert status["conditions"] == [condition]
    assert status["poolCount"] == case.get("poolCount", 1)
    if "want" in case:
        assert status.get("pools", []) == [
            {"driver": DRIVER, "poolName": "a", "generation": 1, **pool} for pool in case["want"]
        ]
    assert incomplete == case.get("incomplete", False)


def test_more_than_32_types_or_capacities_are_too_many() -> None:
    """C-12.6, C-12.7: the counts stay, the view is left out."""
    counters = {
        "sharedCounters": [{"name": "set", "counters": {"memory": {"value": "99"}}}],
        "partitionTypeAttribute": "type",
    }
    devices = [
        {
            "name": f"d-{number}",
            "attributes": {"type": {"string": f"t-{number}"}},
            "consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": "1"}}}],
        }
        for number in range(33)
    ]
    (pool,) = answer({"slices": [{"devices": devices, **counters}]})[0]["pools"]
    assert (
        pool["validationError"]
        == "PartitionSummaryOverCap: pool gpu.example.com/a has 33 partition types, exceeding the maximum of 32"
    )
    assert (pool["totalDevices"], "partitionSummary" in pool) == (33, False)
    capacity = {f"c-{number}": {"value": "1"} for number in range(33)}
    shared = [{"name": "d", "allowMultipleAllocations": True, "capacity": capacity}]
    (pool,) = answer({"slices": [{"devices": shared}]})[0]["pools"]
    text = "ShareableSummaryOverCap: pool gpu.example.com/a has 33 shareable capacity keys, exceeding the maximum of 32"
    assert (pool["validationError"], "shareableSummary" in pool) == (text, False)


def test_an_error_has_at_most_256_bytes() -> None:
    """C-12.4, C-12.7."""
    pool = {"name": "p" * 250, "resourceSliceCount": 2}
    (status,) = answer({"slices": [{"pool": pool}]})[0]["pools"]
    assert status["validationError"] == "PoolIncomplete: pool gpu.example.com/" + "p" * (256 - 37)


def test_pools_are_sorted_counted_and_then_cut() -> None:
    """C-12.5: 100 without a limit."""
    slices = [{"pool": {"name": f"p-{number:03}"}} for number in reversed(range(120))]
    status, _ = answer({"slices": slices})
    assert (status["poolCount"], len(status["pools"]), status["pools"][99]["poolName"]) == (120, 100, "p-099")
    assert status["conditions"][0]["message"] == "Calculated status for 100 pools"
    status, _ = answer({"slices": slices, "request": {"limit": 2}})
    assert [pool["poolName"] for pool in status["pools"]] == ["p-000", "p-001"]
    assert status["conditions"][0]["message"] == "Calculated status for 2 pools"
