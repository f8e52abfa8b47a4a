"""What KeepPolicies allow: whatever the VMs and policies, as a plain reading of the rule says."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.keeping.limits import KeepLimits, StoppedVm, devices_of, least_devices
from virt_dra.api.keeping.terms import KeepTerms
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.wire import Json

BEGIN = datetime(2026, 11, 26, tzinfo=UTC)
CLASSES = ("gpu", "nic")


def policy(name: str, **spec: Any) -> KeepPolicy:
    return KeepPolicy.from_wire({"metadata": {"name": name, "namespace": "lab"}, "spec": spec})


numbers = st.integers(0, 5)
specs = st.fixed_dictionaries(
    {},
    optional={
        "devices": numbers,
        "classes": st.dictionaries(st.sampled_from(CLASSES), numbers).map(
            lambda limits: [{"deviceClassName": name, "devices": number} for name, number in limits.items()]
        ),
    },
)
vms = st.lists(
    st.tuples(st.integers(0, 3), st.dictionaries(st.sampled_from(CLASSES), st.integers(1, 4), min_size=1)), max_size=8
).map(
    lambda drawn: [
        StoppedVm(f"vm-{index}", BEGIN + timedelta(seconds=second), devices)
        for index, (second, devices) in enumerate(drawn)
    ]
)


def allowed(spec: Json, devices: Counter[str]) -> bool:
    total = spec.get("devices")
    of_classes = {limit["deviceClassName"]: limit["devices"] for limit in spec.get("classes", ())}
    return (total is None or devices.total() <= total) and all(
        devices[name] <= number for name, number in of_classes.items()
    )


@given(st.lists(specs, max_size=3), vms)
def test_who_stopped_first_keeps_as_long_as_there_is_room(drawn: list[Json], stopped: list[StoppedVm]) -> None:
    limits = KeepLimits(tuple(policy(f"p{index}", **spec) for index, spec in enumerate(drawn)))
    refused = limits.refused(reversed(stopped))
    kept: Counter[str] = Counter()
    for vm in sorted(stopped, key=lambda vm: (vm.since, vm.name)):
        with_it = kept + Counter(vm.devices)
        fits = all(allowed(spec, with_it) for spec in drawn)
        assert fits == (vm.name not in refused)
        kept = with_it if fits else kept
    # what is released makes no room for somebody who was refused, and takes none away
    assert limits.refused(vm for vm in stopped if vm.name not in refused) == {}


@pytest.mark.parametrize(
    ("stopped_for", "policies", "shortened"),
    [
        (None, (), False),
        (None, (policy("few", devices=1),), False),
        (None, (policy("day", stoppedFor="1d"), policy("hour", stoppedFor="1h")), True),
        (timedelta(hours=1), (policy("hour", stoppedFor="60m"),), False),
        (timedelta(hours=2), (policy("hour", stoppedFor="60m"),), True),
        (timedelta(hours=2), (policy("unreadable", stoppedFor="soon"),), False),
    ],
)
def test_the_shortest_time_counts(
    stopped_for: timedelta | None, policies: tuple[KeepPolicy, ...], shortened: bool
) -> None:
    only = "KeepPolicy hour of the namespace allows devices to be kept for 1h only"
    assert KeepLimits(policies).shortfall({}, KeepTerms(stopped_for)) == (only if shortened else "")


def test_devices_are_counted_by_the_class_they_were_asked_for_by() -> None:
    claim = ResourceClaim.from_wire({
        "spec": {"devices": {"requests": [
            {"name": "gpus", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
            {"name": "pair", "exactly": {"deviceClassName": "gpu", "count": 2}},
            {"name": "net", "firstAvailable": [
                {"name": "fast", "deviceClassName": "nic"}, {"name": "slow", "deviceClassName": "old-nic"}]},
        ]}},
        "status": {"allocation": {"devices": {"results": [
            {"request": request, "driver": "d", "pool": "p", "device": f"d{index}"}
            for index, request in enumerate(("gpus", "gpus", "gpus", "pair", "pair", "net/slow"))
        ]}}},
    })  # fmt: skip
    assert devices_of(claim) == {"gpu": 5, "old-nic": 1}
    assert least_devices(claim.spec) == {"gpu": 2}
