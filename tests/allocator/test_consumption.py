"""What a request takes of a capacity: properties of the rounding, in both units, and where the fault lies when there is
none."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sampling import sample
from virt_dra.allocator.features.consumption import Consumption, Fault, Refusal, resolve
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import DeviceCapacity

Json = dict[str, Any]
DRIVER = "gpu.example.com"


def taken(capacity: Json, wanted: str | None, *, fractional: bool = True) -> str:
    """The amount, or what is wrong."""
    wish = {} if wanted is None else {"c": Quantity(wanted)}
    resolution = resolve(DRIVER, {"c": DeviceCapacity.from_wire(capacity)}, wish, fractional=fractional)
    match resolution:
        case Consumption():
            return str(resolution.quantities["c"])
        case Refusal():
            return resolution.detail
        case Fault():
            return resolution.text


def ranged(value: str, **range_: str) -> Json:
    return {"value": value, "requestPolicy": {"default": range_["min"], "validRange": range_}}


MILLI = st.integers(0, 5000)


@settings(max_examples=sample(200), deadline=None)
@given(MILLI, st.integers(1, 2000), MILLI)
def test_a_fractional_range_takes_the_least_step_that_is_enough(least: int, step: int, wanted: int) -> None:
    if least % 1000 == 0 and step % 1000 == 0:
        step += 1
    got = Quantity(taken(ranged("1M", min=f"{least}m", step=f"{step}m"), f"{wanted}m")).as_fraction() * 1000
    assert got >= wanted
    assert (got - least) % step == 0
    assert got == least or got - step < wanted


@settings(max_examples=sample(200), deadline=None)
@given(MILLI, st.integers(1, 2000), MILLI)
def test_whole_units_round_bounds_and_wishes_up(least: int, step: int, wanted: int) -> None:
    got = Quantity(taken(ranged("1M", min=f"{least}m", step=f"{step}m"), f"{wanted}m", fractional=False)).as_fraction()
    if wanted < least:
        assert got == Fraction(least, 1000)
        return
    first, every, enough = (-(-amount // 1000) for amount in (least, step, wanted))
    assert got >= enough
    assert (got - first) % every == 0
    assert got == first or got - every < enough


@settings(max_examples=sample(100), deadline=None)
@given(st.integers(0, 9), st.integers(1, 9), st.integers(0, 99), st.sampled_from(["", "Ki", "Gi", "M"]))
def test_an_integer_range_takes_the_same_with_and_without_the_gate(
    least: int, step: int, wanted: int, unit: str
) -> None:
    capacity = ranged("1E", min=f"{least}{unit}", step=f"{step}{unit}")
    assert taken(capacity, f"{wanted}{unit}") == taken(capacity, f"{wanted}{unit}", fractional=False)


@pytest.mark.parametrize(
    ("step", "wanted", "amount"),
    [
        ("512Mi", "1.1Gi", "1536Mi"),
        ("500M", "1.1Gi", "1573741824"),
        ("5e8", "1.1Gi", "1573741824"),
        ("1e8", "2e9", "2073741824"),
        ("536870912", "1.1Gi", "1610612736"),
    ],
)
def test_a_rounded_amount_is_written_as_the_step_is(step: str, wanted: str, amount: str) -> None:
    assert taken(ranged("8Gi", min="1Gi", step=step), wanted) == amount


@pytest.mark.parametrize(
    ("capacity", "wanted", "text"),
    [
        (
            ranged("1", min="0", step="1"),
            "9223372036854775807",
            "capacity c: wanted 9223372036854775807, the device has 1",
        ),
        (
            ranged("1", min="1", step="2"),
            "9223372036854775808",
            'capacity "c": capacity request cannot be represented in the device\'s range arithmetic: '
            "request 9223372036854775808 exceeds MaxInt64",
        ),
        (
            ranged("1", min="500m", step="250m"),
            "9223372036854775.8",
            'capacity "c": capacity request cannot be represented in the device\'s range arithmetic: '
            "rounding request 9223372036854775800m up to the next step passes the milli-value range",
        ),
        (
            ranged("1", min="500m", step="250m"),
            "1.123456",
            'capacity "c": capacity request cannot be represented in the device\'s range arithmetic: '
            "request 1.123456 is not a representable milli value",
        ),
        ({"value": "1"}, "-1", 'capacity "c": capacity value is negative'),
        (ranged("1", min="-2", step="1"), "-1", 'capacity "c": capacity value is negative'),
        (ranged("9", min="1", step="-1"), "3", 'capacity "c": request policy has a step of -1, which is not positive'),
        (
            {"value": "9", "requestPolicy": {"validRange": {"step": "1"}}},
            "3",
            'capacity "c": request policy has a step of 1, but no min',
        ),
    ],
)
def test_what_is_wrong_is_said(capacity: Json, wanted: str, text: str) -> None:
    assert taken(capacity, wanted) == text


@pytest.mark.parametrize(
    ("range_", "wanted", "amount"),
    [
        ({"min": "1", "step": "500u"}, "1.2", "2"),  # a step finer than thousandths: whole units, where it counts as 1
        ({"min": "1", "step": "1", "max": "1.5"}, "1", "1"),
        (
            {"min": "9223372036854776", "step": "500m"},
            "9223372036854776.5",
            "9223372036854777",
        ),  # thousandths don't fit in 64 bits
    ],
)
def test_thousandths_only_where_all_bounds_are_some(range_: dict[str, str], wanted: str, amount: str) -> None:
    assert taken(ranged("1E", **range_), wanted) == amount


@pytest.mark.parametrize(
    ("default", "wanted", "amount"),
    [
        ("6Gi", None, "6Gi"),
        ("6Gi", "6Gi", "6Gi"),
        ("6Gi", "6442450944", "capacity c: 6442450944 is none of the valid values 1Gi"),
        (
            "1.5Gi",
            None,
            "capacity c: 1536Mi is none of the valid values 1Gi",
        ),  # as the reference, which compares by reference here
    ],
)
def test_only_the_default_as_it_is_spelled_may_break_its_policy(default: str, wanted: str | None, amount: str) -> None:
    assert taken({"value": "8Gi", "requestPolicy": {"default": default, "validValues": ["1Gi"]}}, wanted) == amount
