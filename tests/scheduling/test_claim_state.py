"""What the scheduler knows of claims and devices between attempts (C-4), and what wakes pods that wait for claims."""

from __future__ import annotations

from typing import Any

import pytest

from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from virt_dra.scheduling.claim_checks import CLAIM_MISSING
from virt_dra.scheduling.dynamic_resources.claim_cache import ClaimCache
from virt_dra.scheduling.dynamic_resources.claim_hints import claim_hints
from virt_dra.scheduling.dynamic_resources.device_ledger import DeviceLedger, Published
from virt_dra.scheduling.framework.events import ClusterEvent
from virt_dra.scheduling.framework.refusals import FilterRefusal

Change = tuple[str | None, str | None]


def allocation(device: str) -> dict[str, Any]:
    return {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": device}]}}


def claim(version: int, device: str = "", uid: str = "u", **status: Any) -> ResourceClaim:
    given = {"allocation": allocation(device), **status} if device else status
    metadata = {"name": "c", "namespace": "lab", "uid": uid, "resourceVersion": str(version)}
    return ResourceClaim.from_wire({"metadata": metadata, "status": given})


def cache() -> tuple[ClaimCache, list[Change]]:
    changes: list[Change] = []

    def version(claim: ResourceClaim | None) -> str | None:
        return None if claim is None else f"{claim.metadata.uid}{claim.metadata.resource_version}"

    return ClaimCache(lambda old, new: changes.append((version(old), version(new)))), changes


def test_an_informer_update_replaces_what_was_assumed_only_if_it_is_newer() -> None:
    """C-4.1."""
    claims, changes = cache()
    claims.seen(claim(1))
    assert claims.assume(claim(5, "gpu"))
    claims.seen(claim(3))
    assert claims["lab/c"] == claim(5, "gpu")
    claims.seen(claim(7))
    assert claims["lab/c"] == claim(7)
    assert changes == [(None, "u1"), ("u1", "u5"), ("u5", "u7")]


def test_a_claim_that_is_unknown_another_or_out_of_sync_is_not_assumed() -> None:
    """C-4.1."""
    claims, changes = cache()
    assert not claims.assume(claim(1))
    claims.seen(claim(5))
    assert not claims.assume(claim(6, uid="v"))
    assert not claims.assume(claim(4))
    assert changes == [(None, "u5")]


def test_a_claim_that_was_made_again_is_seen_as_deleted_first() -> None:
    claims, changes = cache()
    claims.seen(claim(1))
    claims.seen(claim(9, uid="v"))
    claims.gone(claim(1))
    assert list(claims) == ["lab/c"]
    assert changes == [(None, "u1"), ("u1", None), (None, "v9")]


def ledger() -> DeviceLedger:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": "n", "pool": pool, "devices": [{"name": "gpu"}, {"name": "fpga"}]}
    published = ResourceSlice.from_wire({"metadata": {"name": "n"}, "spec": spec})
    return DeviceLedger(lambda: Published((published,), (DeviceClass.from_wire({"metadata": {"name": "any"}}),)))


def in_use(devices: DeviceLedger) -> set[str]:
    return {device for use in devices.snapshot.used.values() for device in use.exclusive}


def test_devices_are_in_use_while_a_claim_has_them() -> None:
    """C-4.2."""
    devices = ledger()
    assert in_use(devices) == set()
    devices.claim_changed(None, claim(1, "gpu"))
    assert in_use(devices) == {"gpu"}
    devices.claim_changed(claim(1, "gpu"), claim(2))
    assert in_use(devices) == set()
    devices.claim_changed(claim(2), claim(3, "fpga"))
    devices.claim_changed(claim(3, "fpga"), None)
    assert in_use(devices) == set()


@pytest.mark.parametrize("stored_first", [True, False])
def test_a_claim_counts_once_while_it_moves_from_in_flight_to_stored(*, stored_first: bool) -> None:
    """C-4.4, C-4.5."""
    devices = ledger()
    devices.signal("u", AllocationResult.from_wire(allocation("gpu")))
    assert in_use(devices) == {"gpu"}
    if stored_first:
        devices.claim_changed(claim(1), claim(2, "gpu"))
    assert devices.remove("u", force=True)
    assert in_use(devices) == ({"gpu"} if stored_first else set())


def test_an_allocation_in_flight_stays_while_another_pod_shares_it() -> None:
    """C-4.3."""
    devices = ledger()
    for _ in range(2):
        devices.signal("u", AllocationResult.from_wire(allocation("gpu")))
    assert not devices.remove("u")
    assert in_use(devices) == {"gpu"}
    assert devices.remove("u")
    assert not devices.remove("u")
    assert in_use(devices) == set()


def test_new_slices_keep_what_is_in_use() -> None:
    devices = ledger()
    devices.signal("u", AllocationResult.from_wire(allocation("gpu")))
    devices.republished()
    assert in_use(devices) == {"gpu"}


POD = Pod.from_wire({"metadata": {"name": "p", "namespace": "lab", "uid": "pod"}})
CLAIM_CASES = {
    "its claim was added": (None, claim(1), True, True),
    "its claim's status changed": (claim(1), claim(2, "gpu"), True, True),
    "its claim changed, but not the status": (claim(1), claim(2), True, False),
    "another claim was allocated": (claim(1, uid="v"), claim(2, "gpu", "v"), True, False),
    "another claim was deallocated": (claim(1, "gpu", "v"), claim(2, uid="v"), True, True),
    "another claim was deleted": (claim(1, uid="v"), None, True, False),
    "another claim that was allocated was deleted": (claim(1, "gpu", "v"), None, True, True),
    "devices are free, but its own claims are missing": (claim(1, "gpu", "v"), claim(2, uid="v"), False, False),
}


@pytest.mark.parametrize("case", CLAIM_CASES)
def test_claims_wake_pods(case: str) -> None:
    """C-4.6: the hint of ResourceClaims."""
    old, new, usable, woken = CLAIM_CASES[case]
    claims: tuple[ResourceClaim, ...] | FilterRefusal = (
        (claim(1),) if usable else FilterRefusal("", ("missing",), code=CLAIM_MISSING, subject="c")
    )
    hint = next(
        hint for hint in claim_hints(lambda pod: claims, lambda key: ["pod"]) if ClusterEvent.CLAIM in hint.events
    )
    assert hint.decide(POD, old, new) is woken


def test_only_freed_devices_concern_pods_that_do_not_use_the_claim() -> None:
    """C-4.6: the pre-hint."""
    hint = next(hint for hint in claim_hints(lambda pod: (), lambda key: [key]) if ClusterEvent.CLAIM in hint.events)
    assert hint.pods is not None
    assert hint.pods(claim(1), claim(2, "gpu")) == ["lab/c"]
    assert hint.pods(claim(1, "gpu"), claim(2)) is None
    assert hint.pods(claim(1, "gpu"), None) is None
