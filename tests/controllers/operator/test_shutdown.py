"""How the operator's process ends: the Lease is free in time for the next replica, whatever reconciles do."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.controllers.loops.loop_world import virtual_cluster
from tests.controllers.operator.inline_explanations import InlineExplanations
from tests.controllers.operator.test_instance_loop import vm_with_pod
from virt_dra.api.wire import Json
from virt_dra.cluster.kube import leader
from virt_dra.cluster.kube.cluster import KubeCluster
from virt_dra.cluster.kube.transport import Transport
from virt_dra.cluster.port import NotFound
from virt_dra.controllers.beside_kubevirt import reconcile as beside_kubevirt
from virt_dra.controllers.keyed_loop import Ambient
from virt_dra.controllers.operator.instance_loop import InstanceLoop, LoopSettings
from virt_dra.controllers.reconciled import NOTHING
from virt_dra.operator.metrics import OperatorMetrics
from virt_dra.operator.process import STOP_SECONDS, OperatorProcess, _Background
from virt_dra.simulator.virtual_time import run_virtually, virtual_clock, virtual_now


class KeptLease:
    """The Lease of a server that answers at once, and its holders with the time of each change."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.holders: list[tuple[float, str | None]] = []

    async def get_raw(self, api_version: str, kind: str, name: str, namespace: str = "") -> Json:
        if self.lease is None:
            raise NotFound("no such lease")
        return self.lease

    async def create_raw(self, raw: Json) -> Json:
        return await self.update_raw(raw)

    async def update_raw(self, raw: Json) -> Json:
        holder = raw["spec"]["holderIdentity"]
        if not self.holders or self.holders[-1][1] != holder:
            self.holders.append((asyncio.get_running_loop().time(), holder))
        self.lease = {**raw, "metadata": {**raw["metadata"], "resourceVersion": "1"}}
        return self.lease


class Reconciles:
    """Reconciles that take so many seconds. ``ended``: when, and how."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.ended: list[tuple[float, str]] = []

    async def reconcile(self, *_: object) -> Any:
        loop = asyncio.get_running_loop()
        how = "cancelled"
        try:
            await asyncio.sleep(self.seconds)
            how = "done"
            return NOTHING
        finally:
            self.ended.append((loop.time(), how))


@pytest.mark.parametrize(
    ("takes", "ends", "freed"),
    [(5.0, "done", 5.0), (3600.0, "cancelled", 1.0 + STOP_SECONDS)],
    ids=["a reconcile that ends meanwhile", "a reconcile that doesn't end"],
)
def test_the_lease_is_given_back_once_no_reconcile_goes_on(
    monkeypatch: pytest.MonkeyPatch, takes: float, ends: str, freed: float
) -> None:
    """The stop begins after a second. kopf kills the process after 25 s, and the Lease would last 15 s."""
    lease, reconciles = KeptLease(), Reconciles(takes)
    monkeypatch.setattr(leader, "RawObjects", lambda transport: lease)
    monkeypatch.setattr(beside_kubevirt, "reconcile", reconciles.reconcile)

    async def stopped() -> float:
        cluster = virtual_cluster()
        await vm_with_pod(cluster)
        now = asyncio.get_running_loop().time
        metrics = OperatorMetrics()
        ambient = Ambient(virtual_now, now, lambda: 0.5, lambda: "suffix")
        loop = InstanceLoop(cluster, LoopSettings(workers=1), ambient, metrics, InlineExplanations())
        transport = Transport(cast("Any", None), clock=virtual_clock())
        server = cast("KubeCluster", SimpleNamespace(transport=transport))
        background = _Background(OperatorProcess("a"), server, loop, metrics)
        background.start()
        await asyncio.sleep(1)
        await background.stop()
        return now()

    over = run_virtually(stopped())
    assert [(round(time, 1), how) for time, how in reconciles.ended] == [(freed, ends)]
    assert [(round(time, 1), holder) for time, holder in lease.holders] == [(0, "a"), (freed, None)]
    assert over == pytest.approx(freed, abs=0.1)
