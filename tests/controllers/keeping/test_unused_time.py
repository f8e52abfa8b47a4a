"""How long stopped VMs kept devices: as a sum over every second says."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.controllers.operator.ambient import ambient
from virt_dra.api.meta import parse_time
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.controllers.keeping.loop import KeeperSettings, KeepingLoop
from virt_dra.controllers.keeping.unused_time import UnusedTime, unused_devices
from virt_dra.operator.keeper_metrics import KeeperMetrics

NOW = parse_time("2026-11-26T12:00:00Z")
SINCE = {"virt-dra.io/stopped-since": "2026-11-26T09:00:00Z"}


def claim(name: str, devices: int, *, stopped: bool = True, kept: bool = True, namespace: str = "lab") -> ResourceClaim:
    labels = {"virt-dra.io/kept": "true"} if kept else {}
    metadata = {"name": name, "namespace": namespace, "labels": labels, "annotations": SINCE if stopped else {}}
    results = [{"request": "r", "driver": "d", "pool": "p", "device": f"d{number}"} for number in range(devices)]
    status: Json = {"allocation": {"devices": {"results": results}}} if devices else {}
    return ResourceClaim.from_wire({"metadata": metadata, "spec": {}, "status": status})


def test_only_kept_claims_of_stopped_vms_that_have_devices_are_unused() -> None:
    claims = (claim("a", 2), claim("a", 2, stopped=False), claim("a", 2, kept=False), claim("a", 0), None)
    assert [unused_devices(item) for item in claims] == [2, 0, 0, 0, 0]


steps = st.lists(
    st.tuples(
        st.integers(0, 30), st.sampled_from("abc"), st.sampled_from(["one", "two"]),
        st.none() | st.tuples(st.integers(0, 4), st.booleans()),
    ),
    max_size=20,
)  # fmt: skip


@given(steps)
def test_any_history_of_claims(history: list[tuple[int, str, str, tuple[int, bool] | None]]) -> None:
    now = 1000.0
    unused = UnusedTime(lambda: now)
    there: dict[tuple[str, str], ResourceClaim] = {}
    expected: dict[str, float] = {}
    for seconds, name, namespace, state in history:
        for _ in range(seconds):
            for item in there.values():
                expected[item.namespace] = expected.get(item.namespace, 0.0) + unused_devices(item)
        now += seconds
        old = there.pop((namespace, name), None)
        new = claim(name, state[0], stopped=state[1], namespace=namespace) if state is not None else None
        if new is not None:
            there[namespace, name] = new
        unused.claim_changed(old, new)
        devices: Counter[tuple[str, str]] = Counter()
        for item in there.values():
            number = len(item.status.allocation.devices.results) if item.status.allocation is not None else 0
            devices[item.namespace, "unused" if unused_devices(item) else "in_use"] += number
        assert unused.devices() == {key: number for key, number in devices.items() if number}
        counted = unused.device_seconds()
        assert {key: value for key, value in counted.items() if value} == {
            key: value for key, value in expected.items() if value
        }


def test_the_keeper_exposes_it() -> None:
    metrics = KeeperMetrics()
    cluster = MemoryCluster(lambda: NOW, lambda: "x", lambda: "u")
    loop = KeepingLoop(cluster, KeeperSettings(), ambient(lambda: NOW), metrics)
    metrics.count(loop)
    loop._changed(None, claim("a", 2))
    loop._changed(None, claim("b", 1, stopped=False))
    assert loop.kept_devices() == {("lab", "unused"): 2, ("lab", "in_use"): 1}
    lines = [line for line in metrics.exposition().decode().splitlines() if "unused_device_seconds_total{" in line]
    (line,) = lines
    name, value = line.split(" ")
    assert name == 'virt_dra_keeper_unused_device_seconds_total{namespace="lab"}'
    assert float(value) > 0
