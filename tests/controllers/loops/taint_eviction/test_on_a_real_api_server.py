"""Our eviction and pool status in the place of Kubernetes' own, beside its scheduler and its other controllers: the
recorded answers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from devtools.cluster.control_plane import ControlPlane
from devtools.scenarios import scheduler_configuration
from tests.scenarios.test_scenarios import cases, real_answers
from virt_dra.api.feature_gates import FeatureGates
from virt_dra.cluster.kube.cluster import connect
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.simulator.control_plane import LOOPS, AmbientSources, control_plane
from virt_dra.simulator.scenario.comparing import differences
from virt_dra.simulator.scenario.player import Play
from virt_dra.simulator.scenario.reading import read_scenario
from virt_dra.simulator.scenario.server_target import server_target

pytestmark = [pytest.mark.control_plane, pytest.mark.slow]

OURS = ("device taint eviction", "pool status")
PLAYED = (
    "taint of a slice evicts a running pod",
    "changing the effect cancels and starts again",
    "effect None is a dry run",
    "generated claims and their pods",
    "evicted and then the rule goes",
    "toleration with an empty effect doesnt protect from eviction",
    "pool status counts devices",
    "incomplete pools are never answered",
    "shared devices in use",
)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Without the two controllers."""
    with ControlPlane(gates={"DRAResourcePoolStatus": True}) as running:
        running.start_scheduler(scheduler_configuration({}))
        running.start_controllers("resourceclaim-controller", "garbage-collector-controller")
        yield running


@pytest.mark.parametrize("name", PLAYED)
async def test_our_loops_answer_as_those_of_kubernetes(plane: ControlPlane, name: str) -> None:
    """C-11, C-12, C-21.13, C-21.14: what they write passes a real API server."""
    scenario = read_scenario(cases()[name])
    loops = tuple(loop for loop in LOOPS if loop.name in OURS)
    sources = AmbientSources(lambda: datetime.now(UTC), lambda: uuid4().hex[:16], lambda: 0.5)
    async with connect(str(plane.kubeconfig), limits=ClientLimits(qps=0, attempts=1)) as cluster:
        gates = FeatureGates(resource_pool_status=True)
        async with (
            control_plane(cluster, sources, gates=gates, loops=loops),
            server_target(cluster, scenario) as target,
        ):
            answer = await Play(scenario, target).perform()
    assert list(differences(real_answers()[name], answer)) == []
