"""A VM's objects come in every order: it runs without a restart, or it says truly why not (K-11.16, K-12.8)."""

from __future__ import annotations

import asyncio
import random
from itertools import permutations
from pathlib import Path

import pytest

from tests.controllers.operator.start_orders import LOOSE, NAMED, STEPS, Origin, Outcome, Plan, Step, site
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.simulator.virtual_time import run_virtually

pytestmark = pytest.mark.slow

GAPS = (0.0, 0.05, 0.3, 1.0, 3.0, 10.0)


def plan(
    number: int, order: tuple[Step, ...], writes: bool, source: Origin, selector: str, dice: random.Random
) -> Plan:
    moment, moments = 0.0, dict[Step, float]()
    for step in order:
        moments[step] = moment
        moment += dice.choice(GAPS)
    return Plan(f"vm{number}", writes, source, selector, moments)


def outcomes(
    folder: Path, plans: list[Plan], patience: float = 60.0, version: str = "1.9.0", *, operator: bool = True
) -> list[Outcome]:
    async def lived() -> list[Outcome]:
        async with site(folder, plans, version=version, operator=operator) as here:
            return list(await asyncio.gather(*(here.outcome(plan, patience) for plan in plans)))

    return run_virtually(lived())


def orders(selector: str, *, writes: bool) -> list[Plan]:
    """Every order, with templates and claims by turns."""
    dice = random.Random(int(writes))
    origins: tuple[Origin, Origin] = ("template", "claim")
    return [
        plan(number, order, writes, origins[(number + writes) % 2], selector, dice)
        for number, order in enumerate(permutations(STEPS))
    ]


@pytest.mark.parametrize("selector", [NAMED, LOOSE], ids=["named", "loose"])
@pytest.mark.parametrize("writes", [True, False], ids=["writer", "silent"])
def test_every_order_ends_with_a_running_vm(tmp_path: Path, selector: str, writes: bool) -> None:
    plans = orders(selector, writes=writes)
    for start in range(0, len(plans), 12):
        for outcome in outcomes(tmp_path / str(start), plans[start : start + 12]):
            told = str(outcome)
            assert outcome.running_at is not None, told
            assert (outcome.pods, outcome.ready, outcome.resolved.reason) == (1, "1/1", "AllDevicesResolved"), told
            assert outcome.path == ("native" if outcome.plan.writes else "metadata-shim"), told
            waited = outcome.ready_at - outcome.plan.moments["vm"]
            assert outcome.running_at - outcome.ready_at < 3.0 + 0.15 * waited, told


def late(name: str, *, writes: bool, selector: str = NAMED, strategy: str | None = None, **moments: float) -> Plan:
    """Everything at once, but for what comes at other moments."""
    delays: dict[Step, float] = {step: moments.get(step.replace("class", "class_"), 0.0) for step in STEPS}
    return Plan(name, writes, "template", selector, delays, strategy)


@pytest.mark.parametrize("writes", [True, False], ids=["writer", "silent"])
def test_a_template_that_comes_after_ten_minutes_is_used_within_a_minute(tmp_path: Path, writes: bool) -> None:
    (outcome,) = outcomes(tmp_path, [late("vm", writes=writes, source=600.0)], 300.0)
    assert outcome.running_at is not None
    assert outcome.running_at - 600 < 62
    assert (outcome.pods, outcome.ready) == (1, "1/1")
    assert outcome.tries < 120


def test_kubevirt_alone_would_take_minutes(tmp_path: Path) -> None:
    """What the operator is for: the same without it."""
    (outcome,) = outcomes(tmp_path, [late("vm", writes=True, source=700.0)], 500.0, operator=False)
    assert outcome.running_at is None or outcome.running_at - 700 > 300


def test_many_waiting_vms_of_a_namespace_cost_five_tries_a_second_at_most(tmp_path: Path) -> None:
    plans = [late(f"vm{number}", writes=bool(number % 2), source=120.0) for number in range(60)]
    ends = outcomes(tmp_path, plans, 120.0)
    assert all(outcome.running_at is not None and outcome.pods == 1 for outcome in ends)
    # 15 tries each are KubeVirt's own in that time.
    assert sum(outcome.tries for outcome in ends) < 60 * 16 + 5 * 125


@pytest.mark.parametrize("version", ["1.8.4", "1.9.0"])
def test_a_driver_that_nothing_names_and_that_comes_too_late(tmp_path: Path, version: str) -> None:
    """After the wait the pod is made, so that an autoscaler sees it. Then a driver that writes metadata clashes, and it
    says so."""
    silent, writer = outcomes(
        tmp_path,
        [
            late(name, writes=writes, selector=LOOSE, slice=150.0)
            for name, writes in (("silent", False), ("writer", True))
        ],
        60.0,
        version,
    )
    assert (silent.running_at is not None, silent.pods, silent.path, silent.ready) == (True, 1, "metadata-shim", "1/1")
    assert (writer.running_at, writer.pods, writer.path, writer.ready) == (None, 1, "metadata-shim", "0/1")
    assert writer.resolved.reason == "MetadataClash"
    assert writer.resolved.message == (
        "gpus/gpu: driver writer.example.com mounts a metadata file of its own where "
        "the pod has virt-dra's volume, so its container can't "
        "be made: no device that matches the request was known when the pod was made. Restart the VM"
    )


@pytest.mark.parametrize("strategy", ["Always", "RerunOnFailure"])
def test_the_pod_of_a_vm_is_replaced_where_its_driver_came_too_late(tmp_path: Path, strategy: str) -> None:
    """KubeVirt takes the VMI for failed and makes another after its back-off, which has the driver's own file."""
    (outcome,) = outcomes(
        tmp_path, [late("vm", writes=True, selector=LOOSE, strategy=strategy, slice=150.0)], 120.0, "1.9.0"
    )
    assert outcome.running_at is not None
    assert 10 < outcome.running_at - outcome.ready_at < 20
    assert (outcome.pods, outcome.path, outcome.ready) == (1, "native", "1/1")


def test_no_vm_is_failed_that_kubevirt_would_not_start_again(tmp_path: Path) -> None:
    (outcome,) = outcomes(
        tmp_path, [late("vm", writes=True, selector=LOOSE, strategy="Once", slice=150.0)], 60.0, "1.9.0"
    )
    assert (outcome.running_at, outcome.pods, outcome.ready) == (None, 1, "0/1")
    assert outcome.resolved.reason == "MetadataClash"


def test_a_webhook_that_was_away_for_15_minutes_is_asked_again_within_a_minute(tmp_path: Path) -> None:
    async def lived() -> tuple[Outcome, str]:
        plans = [late("vm", writes=False)]
        async with site(tmp_path, plans) as here:
            here.own.answers = False
            waiting = asyncio.create_task(here.outcome(plans[0], 1200.0))
            await asyncio.sleep(900)
            status = (await here.memory.get(VirtualMachineInstanceDevices, "vm", "test")).status
            here.own.answers = True
            return await waiting, status.devices[0].message or ""

    outcome, told = run_virtually(lived())
    assert (
        "KubeVirt can't create the launcher pod (FailedCreate): failed to "
        "create virtual machine pod: Internal error occurred" in told
    )
    assert outcome.running_at is not None
    assert outcome.running_at - 900 < 62
