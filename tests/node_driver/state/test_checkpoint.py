"""The checkpoint survives what happens to files, and says what it can't read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from devtools.node.disk import Disk, MemoryLocks, ProcessDisk
from devtools.node.faults import Fault, Process, no_faults
from node_driver.devices import DeviceKind, Sanitizing
from node_driver.host.changes import HostChange, HostProperty
from node_driver.state.checkpoint import Checkpoint, CheckpointError, StateEncoder, decoded
from node_driver.state.records import ClaimRecord, DeviceRecord, DriverState, Stage, StuckChange, UncleanDevice

CHANGE = HostChange(HostProperty.DRIVER, "0000:01:00.0", "nvme/", "vfio-pci/vfio-pci")
DEVICE = DeviceRecord(
    "nic", DeviceKind.SRIOV, "gpu/big", "0000:01:00.0", members=("0000:01:00.0",), sanitizing=Sanitizing.ERASE,
    attributes={"numaNode": {"int": 1}}, network='{"vlan": 7}', changes=(CHANGE,),
)  # fmt: skip
STATE = DriverState(
    "boot-1",
    {"uid": ClaimRecord("uid", "default", "nic", Stage.REMOVING, ("pod",), "gpu", (DEVICE,), 3, ("/a", "/b"))},
    {"0000:02:00.0": UncleanDevice("drive", Sanitizing.RESET, ("0000:02:00.0",), "it was in use")},
    {"0000:01:00.0": StuckChange(CHANGE, "no answer")},
)


def test_a_state_is_read_as_it_was_written() -> None:
    assert decoded(StateEncoder().encoded(STATE)) == STATE


def test_each_state_is_written_whole_whatever_was_written_before() -> None:
    claim = STATE.claims["uid"]
    other = replace(claim, uid="ano\u0308ther", stage=Stage.STARTED)
    states = (
        STATE,
        STATE.with_claim(other),
        STATE.with_claim(other).with_claim(replace(claim, generation=4)),
        STATE.with_claim(replace(other, files=())),
        replace(STATE.without_claim("uid"), boot_id="boot-2", unclean={}, stuck={}),
        STATE,
    )
    encoder = StateEncoder()
    texts = [encoder.encoded(state) for state in states]

    assert texts == [StateEncoder().encoded(state) for state in states]
    assert [decoded(text) for text in texts] == list(states)


WHOLE = StateEncoder().encoded(STATE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "{}",
        "[]\n[]",
        "nonsense",
        WHOLE[:-20],
        WHOLE.replace("nvme", "nvmf"),
        WHOLE.splitlines()[1],
        "[" * 100_000,
    ],
    ids=["empty", "blank", "object", "lists", "nonsense", "cut", "changed", "headless", "deep"],
)
async def test_a_damaged_file_is_kept_and_nothing_else_is_read_or_written(text: str) -> None:
    disk = Disk({"/plugin/checkpoint.json": text})
    checkpoint = Checkpoint("/plugin", ProcessDisk(disk, Process()), MemoryLocks(), "boot-1")

    for _ in range(2):
        with pytest.raises(CheckpointError, match=r"kept as /plugin/checkpoint.json.bad"):
            await checkpoint.update(lambda state: (DriverState("boot-1"), None))
    assert disk.contents == {"/plugin/checkpoint.json.bad": text}


async def test_a_newer_drivers_file_is_left_alone() -> None:
    text = WHOLE.replace('"version": 1', '"version": 2')
    disk = Disk({"/plugin/checkpoint.json": text})
    checkpoint = Checkpoint("/plugin", ProcessDisk(disk, Process()), MemoryLocks(), "boot-1")

    with pytest.raises(CheckpointError, match="a newer driver wrote the checkpoint"):
        await checkpoint.read()
    assert disk.contents == {"/plugin/checkpoint.json": text}


async def test_an_earlier_boots_state_is_changed_only_by_who_adapts_it() -> None:
    disk = Disk({"/plugin/checkpoint.json": WHOLE})
    checkpoint = Checkpoint("/plugin", ProcessDisk(disk, Process()), MemoryLocks(), "boot-2")

    with pytest.raises(CheckpointError, match="hasn't looked through the node since its reboot"):
        await checkpoint.update(lambda state: (DriverState("boot-2"), None))
    assert disk.contents == {"/plugin/checkpoint.json": WHOLE}
    await checkpoint.update(lambda state: (DriverState("boot-2"), None), after_reboot=True)
    assert await checkpoint.read() == DriverState("boot-2")


def adding(uid: str) -> Callable[[DriverState], tuple[DriverState, str]]:
    return lambda state: (state.with_claim(ClaimRecord(uid, "default", uid, Stage.STARTED)), uid)


def refusing(state: DriverState) -> tuple[DriverState, str]:
    raise KeyError("no")


async def test_steps_that_come_together_are_written_together_and_each_has_its_own_outcome() -> None:
    disk, writes = Disk(), 0

    def written() -> None:
        nonlocal writes
        writes += 1

    checkpoint = Checkpoint("/plugin", ProcessDisk(disk, Process()), MemoryLocks(), "boot-1", written)
    steps = [adding(f"uid-{index}") for index in range(50)]

    outcomes = await asyncio.gather(*map(checkpoint.update, [*steps, refusing]), return_exceptions=True)

    assert outcomes[:-1] == [f"uid-{index}" for index in range(50)]
    assert isinstance(outcomes[-1], KeyError)
    assert (await checkpoint.read()).claims.keys() == set(outcomes[:-1])
    assert writes <= 2


async def test_a_failed_write_fails_its_steps_and_a_cancelled_writer_leaves_nobody_waiting() -> None:
    disk = Disk()
    full = Process(lambda step: Fault.REFUSED)
    checkpoint = Checkpoint("/plugin", ProcessDisk(disk, full), MemoryLocks(), "boot-1")
    outcomes = await asyncio.gather(*map(checkpoint.update, [adding("a"), adding("b")]), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [CheckpointError] * 2
    assert disk.contents == {}

    full.faults = no_faults
    first = asyncio.create_task(checkpoint.update(adding("a")))
    second = asyncio.create_task(checkpoint.update(adding("b")))
    await asyncio.sleep(0)
    first.cancel()
    cancelled, other = await asyncio.gather(first, second, return_exceptions=True)
    assert isinstance(cancelled, asyncio.CancelledError)
    assert other == "b" or isinstance(other, CheckpointError)
    assert await checkpoint.update(adding("c")) == "c"
