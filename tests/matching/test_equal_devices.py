"""Devices that are equal in what selectors read get one evaluation, and the answers that each would get by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.cel import Work
from virt_dra.matching.evaluating import depths_on, matching_slices
from virt_dra.matching.matcher import SelectorList
from virt_dra.matching.positions import positions_of
from virt_dra.matching.published_slice import PublishedSlice, attribute_column
from virt_dra.matching.slice_answers import SelectorDepths, SliceFault
from virt_dra.matching.slice_table import SliceGroups, SliceTable

EXPRESSIONS = (
    "device.attributes['d'].m == 'A100'",
    "device.attributes['d'].missing == 1",
    "device.capacity['d'].memory.isGreaterThan(quantity('1Gi'))",
    "device.allowMultipleAllocations",
    "device.driver == 'd'",
    "device.attributes.all(domain, domain != 'e')",
    "1 / 0 == 1",
)
ATTRIBUTES = st.dictionaries(
    st.sampled_from(["m", "d/m", "e/m"]),
    st.sampled_from(
        [{"string": "A100"}, {"string": "T4"}, {"int": 1}, {"version": "1.0.0"}, {"version": "no version"}]
    ),
    max_size=2,
)
CAPACITY = st.dictionaries(
    st.just("memory"), st.sampled_from([{"value": "1Gi"}, {"value": "1024Mi"}, {"value": "2Gi"}]), max_size=1
)
DEVICE = st.fixed_dictionaries(
    {"attributes": ATTRIBUTES, "capacity": CAPACITY}, optional={"allowMultipleAllocations": st.booleans()}
)


def published(driver: str, devices: list[Json], position: int = 0) -> PublishedSlice:
    named = [{"name": f"gpu-{number}", **device} for number, device in enumerate(devices)]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    raw = {"spec": {"driver": driver, "pool": pool, "devices": named}}
    return PublishedSlice.from_slice(ResourceSlice.from_wire(raw), {}, position)


def alone(slice_: PublishedSlice, expressions: list[str]) -> SelectorDepths:
    selectors = SelectorList(expressions)
    outcomes = [selectors.first_mismatch(device.input) for device in slice_.devices]
    faults = (
        SliceFault.truncated(outcome.selector, outcome.fault, number)
        for number, outcome in enumerate(outcomes)
        if outcome is not None and outcome.fault is not None
    )
    depths = bytes(len(expressions) if outcome is None else outcome.selector for outcome in outcomes)
    return SelectorDepths(depths, next(faults, None))


@given(
    st.lists(st.tuples(st.sampled_from("de"), st.lists(DEVICE, max_size=4)), max_size=4),
    st.lists(st.sampled_from(EXPRESSIONS), max_size=3),
)
def test_each_gets_the_answer_that_it_gets_by_itself(
    slices: list[tuple[str, list[Json]]], expressions: list[str]
) -> None:
    there = [published(driver, devices) for driver, devices in slices]
    answers = depths_on(SelectorList(expressions), there, Work())
    assert list(answers) == [(slice_, alone(slice_, expressions)) for slice_ in there]


@given(
    st.lists(st.tuples(st.sampled_from("de"), st.lists(DEVICE, max_size=4)), max_size=6),
    st.lists(st.sampled_from(EXPRESSIONS), max_size=3),
    st.integers(0, 63),
)
def test_of_each_driver_slices_are_answered_until_one_matches(
    slices: list[tuple[str, list[Json]]], expressions: list[str], positions: int
) -> None:
    there = [published(driver, devices, at) for at, (driver, devices) in enumerate(slices)]
    answers = list(matching_slices(SelectorList(expressions), SliceGroups(SliceTable(there)), positions, Work()))
    answered = {at for mask, _ in answers for at in positions_of(mask)}
    matching = {at for _, mask in answers for at in positions_of(mask)}
    asked = [slice_ for slice_ in there if positions >> slice_.position & 1]
    matched = {slice_.position for slice_ in asked if len(expressions) in alone(slice_, expressions).depths}
    assert matching <= matched
    assert answered - matching <= {slice_.position for slice_ in asked} - matched
    for driver in "de":
        of_driver = {slice_.position for slice_ in asked if slice_.pool[0] == driver}
        assert matching & of_driver if matched & of_driver else of_driver <= answered


def test_a_hundred_equal_devices_take_the_work_of_one_evaluation() -> None:
    costly = "lists.range(1000).all(x, x >= 0) && device.attributes['d'].m == 'A100'"

    def spent(devices: list[Json]) -> int:
        work = Work(10_000_000)
        assert len(list(depths_on(SelectorList([costly]), [published("d", devices)], work))) == 1
        assert work.left is not None
        return 10_000_000 - int(work.left)

    same, different = (
        [{"attributes": {"m": {"string": f"A{number * step}"}}} for number in range(100)] for step in (0, 1)
    )
    single = spent(same[:1])
    assert spent(same) < 2 * single
    assert spent(different) > 50 * single


@given(st.lists(DEVICE, max_size=3))
def test_a_column_that_is_asked_for_by_itself_is_the_one_among_all(devices: list[Json]) -> None:
    columns = published("d", devices).columns
    alone_asked = published("d", devices)
    assert {name: alone_asked.column(name) for name in columns} == columns
    assert alone_asked.column(attribute_column("d", "missing")) == 0
    assert 0 not in columns.values()
    assert alone_asked.columns == columns
