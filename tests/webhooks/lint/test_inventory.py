"""The inventory: what changes in it slice by slice is what it would be if it were made anew, and costs little."""

from __future__ import annotations

import doctest
import time
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.cel import Work
from virt_dra.matching.evaluating import ImmediateEvaluator
from webhooks.lint import DeviceInventory, named_driver
from webhooks.lint.inventory import MatchingDrivers

MODEL = 'device.attributes["a.example.com"].?model.orValue("") == "m1"'
OTHER = 'device.driver == "b.example.com"'
SELECTORS: tuple[list[str], ...] = (
    ["true"],
    [MODEL],
    [OTHER],
    [OTHER, "false"],
    ["("],
    ['device.attributes["a.example.com"].model == "m1"'],
    [],
)


def _slice(name: str, driver: str, pool: str, generation: int = 1, models: Iterable[int] = (0, 1)) -> ResourceSlice:
    devices = [
        {"name": f"{name}-d{n}", "attributes": {"model": {"string": f"m{model}"}, "serial": {"string": f"{name}-{n}"}}}
        for n, model in enumerate(models)
    ]
    spec = {
        "driver": driver,
        "nodeName": "n1",
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
        "devices": devices,
    }
    return ResourceSlice.from_wire({"metadata": {"name": name}, "spec": spec})


def _seen(inventory: DeviceInventory) -> Any:
    """All that can be asked, as plain values."""
    asked = []
    for limit in (None, 3):
        for selectors in SELECTORS:
            match = inventory.matching(selectors, limit)
            fault = (match.fault.selector, match.fault.message, str(match.fault.device)) if match.fault else None
            asked.append(
                (
                    [device.name for device in match.devices],
                    match.passed,
                    [device.name for device in match.nearest],
                    fault,
                    match.incomplete,
                )
            )
    drivers = [inventory.drivers(selectors) for selectors in SELECTORS]
    return (
        [device.name for device in inventory.devices],
        len(inventory),
        sorted(slice_.name for slice_ in inventory.slices.values()),
        asked,
        drivers,
    )


_slices = st.builds(
    _slice,
    st.sampled_from(["s1", "s2", "s3", "s4"]),
    st.sampled_from(["a.example.com", "b.example.com"]),
    st.sampled_from(["p", "q"]),
    st.integers(1, 2),
    st.lists(st.integers(0, 2), max_size=3),
)


@pytest.mark.slow
@given(
    st.lists(
        st.lists(
            st.tuples(st.just("put"), _slices) | st.tuples(st.just("gone"), st.sampled_from(["s1", "s2", "s3"])),
            max_size=4,
        )
    )
)
def test_changed_is_as_made_anew(steps: list[list[tuple[str, Any]]]) -> None:
    inventory, now = DeviceInventory(), dict[str, ResourceSlice]()
    for step in steps:
        before = _seen(inventory)
        put = {given.name: given for action, given in step if action == "put"}
        gone = {given for action, given in step if action == "gone"} - put.keys()
        now = {name: slice_ for name, slice_ in (now | put).items() if name not in gone}
        changed = inventory.changed(put.values(), gone)
        assert _seen(changed) == _seen(DeviceInventory.from_slices(now.values()))
        assert _seen(inventory) == before, "nobody who looks at the old one sees a change"
        inventory = changed


def test_two_slices_of_one_name_are_two() -> None:
    parts = [
        _slice("", "a.example.com", "p"),
        _slice("", "a.example.com", "q"),
        _slice("s", "a.example.com", "r"),
        _slice("s", "b.example.com", "p"),
    ]
    assert len(DeviceInventory.from_slices(parts)) == 8


def test_an_older_generation_counts_again_when_the_newer_one_goes() -> None:
    inventory = DeviceInventory.from_slices(
        [_slice("old", "a.example.com", "p", 1), _slice("new", "a.example.com", "p", 2)]
    )
    assert [device.device.name for device in inventory.devices] == ["new-d0", "new-d1"]
    assert inventory.get("a.example.com", "p", "old-d0") is None
    assert [device.device.name for device in inventory.changed((), ["new"]).devices] == ["old-d0", "old-d1"]


def test_what_is_said_of_named_drivers_is_true() -> None:
    assert doctest.testmod(named_driver).failed == 0


@pytest.mark.parametrize(
    ("selectors", "driver"),
    [
        (['device.driver == "gpu.example.com"'], "gpu.example.com"),
        (["device.driver=='gpu.example.com'"], "gpu.example.com"),
        (["true", 'device.driver == "gpu.example.com" &&\n  device.attributes["x"].y == 1'], "gpu.example.com"),
        (['device.driver == "gpu.example.com" && a || b'], None),
        (['device.driver == "gpu.example.com" ? true : true'], None),
        (['!(device.driver == "gpu.example.com")'], None),
        (['device.driver == "gpu.example.com" == false'], None),
        (['device.driver != "gpu.example.com"'], None),
        ([], None),
    ],
)
def test_a_driver_that_selectors_name(selectors: list[str], driver: str | None) -> None:
    assert named_driver.named_driver(selectors) == driver


@cache
def _large() -> DeviceInventory:
    """Made by the first test that asks, and shared: it takes a second."""
    return DeviceInventory.from_slices(
        _slice(f"s{n:04}", f"{'ab'[n % 2]}.example.com", f"p{n}", models=(0, 1) * 4) for n in range(5000)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("selectors", "drivers"),
    [
        ([OTHER], ("b.example.com",)),
        (['device.attributes["b.example.com"].model == "m1"'], ("b.example.com",)),
        (['has(device.attributes["b.example.com"].model)'], ("b.example.com",)),
        (['device.attributes["b.example.com"].?serial.orValue("") == "s4999-7"'], ("b.example.com",)),
        (["false"], ()),
        (["true"], ("a.example.com", "b.example.com")),
    ],
)
def test_drivers_of_forty_thousand_devices_are_found_within_what_a_review_may_take(
    selectors: list[str], drivers: tuple[str, ...]
) -> None:
    budget = Work(1_000_000)
    assert _large().drivers(selectors, ImmediateEvaluator(budget)) == MatchingDrivers(drivers)
    assert _large().drivers(selectors, ImmediateEvaluator(Work(0))) == MatchingDrivers(drivers), "the answer is kept"


def test_drivers_that_could_not_be_looked_for_are_told() -> None:
    selectors = ['device.attributes["b.example.com"].?serial.orValue("") == "s4999-6"']
    first = _large().drivers(selectors, ImmediateEvaluator(Work(10_000)))
    assert (first.names, first.incomplete) == ((), True)
    assert 0 < first.unknown < 5000
    second = _large().drivers(selectors, ImmediateEvaluator(Work(10_000)))
    assert 0 < second.unknown < first.unknown, "what was evaluated counts"


def test_a_changed_slice_costs_little_whatever_there_is() -> None:
    inventory = _large()
    for n in range(20):
        inventory.matching([MODEL], 2000)
        took = []
        for _ in range(3):  # the machine may be busy with something else
            begin = time.process_time()
            inventory = inventory.changed([_slice(f"s{n:04}", "a.example.com", f"p{n}", generation=2, models=(1,))])
            inventory.matching([MODEL], 2000)
            took.append(time.process_time() - begin)
        assert min(took) < 0.005, "seconds of the processor"
