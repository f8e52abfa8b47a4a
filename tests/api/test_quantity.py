"""Quantities: Kubernetes' answers (quantity_upstream.jsonl, made by devtools/upstream/quantity), and exact
arithmetic."""

from __future__ import annotations

import copy
import json
import pickle
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.quantity import UPSTREAM_FORMAT, UPSTREAM_SUFFIX, Quantity, QuantityError, QuantityFormat
from virt_dra.api.resource_v1 import DeviceCapacity
from virt_dra.api.wire import WireError

UPSTREAM = [json.loads(line) for line in (Path(__file__).parent / "quantity_upstream.jsonl").read_text().splitlines()]
SATURATED = str((2**63 - 1) * 10**9)


def answer(line: str) -> dict[str, str]:
    left, *rest = line.split("\t")
    try:
        quantity = Quantity(left)
        match rest:
            case ["+", right]:
                quantity = quantity + Quantity(right)
            case ["-", right]:
                quantity = quantity - Quantity(right)
            case ["*", right]:
                quantity = quantity * int(right)
    except QuantityError as error:
        return {"text": line, "error": error.upstream}
    nano = quantity.as_fraction() * 10**9
    return {"text": line, "canonical": str(quantity), "format": quantity.format.value, "nano": str(nano.numerator)}


@pytest.mark.parametrize("want", UPSTREAM, ids=lambda want: want["text"])
def test_agrees_with_upstream(want: dict[str, str]) -> None:
    got = answer(want["text"])
    if want.get("nano", "").lstrip("-") == SATURATED and want["format"] == "BinarySI":
        assert abs(int(got["nano"])) > int(SATURATED), "AC-22: exact where upstream saturates"
    else:
        assert got == want


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1000E", "1000E"),
        ("1e21", "1e21"),
        ("1000000000000000000000", "1000E"),
        ("10Ei", "10Ei"),
        ("1024Ei", "1024Ei"),
        ("-16Ei", "-16Ei"),
        ("12345678901234567890123456789", "12345678901234567890123456789"),
        ("1.001", "1001m"),
        ("+5", "5"),
        ("1E3", "1e3"),
        ("1e1000", "10e999"),
        ("0e99999999999", "0"),
        ("1e-99999999999", "1e-9"),
    ],
)
def test_exact_value_and_canonical_text_where_upstream_has_none(text: str, canonical: str) -> None:
    assert str(Quantity(text)) == canonical


DIGITS = st.text("0123456789", min_size=0, max_size=25)


@given(
    st.sampled_from(["", "-", "+"]),
    DIGITS,
    DIGITS,
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ei", "e5", "E-4"]),
)
def test_value_is_the_exact_fraction_rounded_up_to_nano(sign: str, whole: str, decimals: str, suffix: str) -> None:
    exact = Fraction(f"{whole or '0'}.{decimals or '0'}")
    powers: dict[str, int | Fraction] = {
        "": 1,
        "n": Fraction(1, 10**9),
        "u": Fraction(1, 10**6),
        "m": Fraction(1, 1000),
        "k": 10**3,
        "M": 10**6,
        "G": 10**9,
        "T": 10**12,
        "P": 10**15,
        "E": 10**18,
        "Ki": 2**10,
        "Mi": 2**20,
        "Gi": 2**30,
        "Ei": 2**60,
        "e5": 10**5,
        "E-4": Fraction(1, 10**4),
    }
    nano = exact * powers[suffix] * 10**9
    rounded = Fraction(-(-nano.numerator // nano.denominator), 10**9) * (-1 if sign == "-" else 1)
    quantity = Quantity(f"{sign}{whole}.{decimals}{suffix}")
    assert quantity.as_fraction() == rounded
    again = Quantity(str(quantity))
    assert (again, str(again)) == (quantity, str(quantity))


NUMBERS = st.fractions(max_denominator=10**9).map(lambda f: Fraction(round(f * 10**9), 10**9))
QUANTITIES = st.builds(Quantity.from_number, NUMBERS | st.integers(), st.sampled_from(list(QuantityFormat)))


@given(QUANTITIES, QUANTITIES, st.integers(-(2**40), 2**40))
def test_arithmetic_and_order_are_those_of_fractions(a: Quantity, b: Quantity, n: int) -> None:
    x, y = a.as_fraction(), b.as_fraction()
    assert ((a + b).as_fraction(), (a - b).as_fraction(), (-a).as_fraction(), (a * n).as_fraction()) == (
        x + y,
        x - y,
        -x,
        x * n,
    )
    assert (a == b, a < b, a <= b, a > b, a >= b) == (x == y, x < y, x <= y, x > y, x >= y)
    assert (hash(a) == hash(b)) or a != b
    assert (a.sign(), bool(a), a.is_integer()) == ((x > 0) - (x < 0), x != 0, x.denominator == 1)


@given(QUANTITIES)
def test_text_reads_back_as_the_same_value(quantity: Quantity) -> None:
    assert Quantity(str(quantity)) == quantity


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("1", 1, 1000),
        ("1.5", 2, 1500),
        ("-1.5", -2, -1500),
        ("1u", 1, 1),
        ("-1u", -1, -1),
        ("0", 0, 0),
        ("1Ei", 2**60, 2**60 * 1000),
    ],
)
def test_whole_units_round_away_from_zero(text: str, value: int, milli: int) -> None:
    assert (Quantity(text).value(), Quantity(text).milli_value()) == (value, milli)


def test_numbers_finer_than_nano_round_away_from_zero() -> None:
    assert str(Quantity.from_number(Fraction(1, 10**12))) == "1n"
    assert str(Quantity.from_number(Fraction(-1, 3))) == "-333333334n"
    assert str(Quantity.from_number(2**33, QuantityFormat.BINARY_SI)) == "8Gi"


def test_is_immutable_hashable_and_survives_copies() -> None:
    quantity = Quantity("1.5Gi")
    with pytest.raises(AttributeError, match="a Quantity can't be changed"):
        quantity.format = QuantityFormat.DECIMAL_SI
    assert len({quantity, Quantity("1536Mi"), Quantity("1610612736")}) == 1
    for copied in (copy.copy(quantity), copy.deepcopy(quantity), pickle.loads(pickle.dumps(quantity))):
        assert (copied, str(copied), copied.format) == (quantity, "1536Mi", QuantityFormat.BINARY_SI)
    assert repr(quantity) == "Quantity('1536Mi')"
    assert quantity != "1536Mi"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("10Gi", "10Gi"),
        (" 10Gi\n", "10Gi"),
        (5, "5"),
        (2000, "2k"),
        (-3, "-3"),
        (1.5, "1500m"),
        (1000.0, "1k"),
        (1e15, "1P"),
        (1e17, "100P"),
        (1.5e16, "15P"),
        (1e21, "1e21"),
        (1e22, "10e21"),
        (1e-5, "10u"),
        (1.25e-06, "1250n"),
        (-2.5e-7, "-250e-9"),
        (None, "0"),
        (Quantity("7"), "7"),
    ],
)
def test_reads_json_strings_and_numbers_as_kubernetes_does(value: object, text: str) -> None:
    assert str(Quantity.from_json(value)) == text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "200K",
            'value: "200K" is not a quantity: unknown suffix "K" (write "k" for 1000 or "Ki" for 1024); '
            "known are n u m k M G T P E, Ki Mi Gi Ti Pi Ei and exponents such as e3",
        ),
        (
            "",
            'value: "" is not a quantity: it is empty; write a number with an '
            'optional unit such as "500m", "2" or "10Gi"',
        ),
        ("10 Gi", 'value: "10 Gi" is not a quantity: it must not contain white space: write "10Gi", not "10 Gi"'),
        (
            "10GB",
            'value: "10GB" is not a quantity: units have no "B": write "10Gi" '
            'for 10·2^30 bytes or "10G" for 10·10^9 bytes',
        ),
        (
            "ten",
            'value: "ten" is not a quantity: write a number with an optional unit such as "500m", "2", "1.5" or "10Gi"',
        ),
        ("1e999999999", 'value: "1e999999999" is not a quantity: it has more than 4000 digits'),
        pytest.param(10**5000, 'value: "..." is not a quantity: it has more than 4000 digits', id="huge integer"),
        (float("inf"), 'value: "inf" is not a quantity: it must be a finite number'),
        (True, 'value: must be a quantity (a string such as "500m", "2" or "10Gi", or a number), not a boolean'),
        ({}, 'value: must be a quantity (a string such as "500m", "2" or "10Gi", or a number), not an object'),
    ],
)
def test_a_bad_quantity_is_named_with_its_field(value: object, message: str) -> None:
    with pytest.raises(WireError) as error:
        DeviceCapacity.from_wire({"value": value})
    assert str(error.value) == message


def test_keeps_the_words_of_kubernetes() -> None:
    for text, upstream in (("1K", UPSTREAM_SUFFIX), ("x", UPSTREAM_FORMAT), ("", UPSTREAM_FORMAT)):
        with pytest.raises(QuantityError) as error:
            Quantity(text)
        assert error.value.upstream == upstream


@pytest.mark.parametrize(
    "text",
    ["0" * 60_000 + "x", "1" * 60_000, "1" * 60_000 + "x", "." + "0" * 60_000 + "k" * 60_000, "1e" + "9" * 60_000],
)
def test_hostile_lengths_are_refused_at_once(text: str) -> None:
    with pytest.raises(QuantityError):
        Quantity(text)


def test_results_of_absurd_size_are_refused() -> None:
    with pytest.raises(QuantityError, match="more than 4000 digits"):
        Quantity("1e3990") * 10**20


@given(st.text())
def test_any_text_is_a_quantity_or_a_quantity_error(text: str) -> None:
    try:
        quantity = Quantity(text)
    except QuantityError:
        return
    assert Quantity(str(quantity)) == quantity


def test_the_longest_amounts_can_still_be_added_up() -> None:
    longest = Quantity("9e3999")
    assert longest + longest - longest == longest
    assert longest + longest > longest


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("1Gi", "1Gi", True),
        ("1Gi", "1024Mi", False),  # equal amounts; of the first, the text is kept
        ("8Gi", "8192Mi", True),
        ("1.001", "1001m", False),
        ("1000m", "1", False),
        ("0", "0Gi", False),
    ],
)
def test_spelling_tells_equal_amounts_apart_as_upstreams_structs_do(one: str, other: str, equal: bool) -> None:
    assert Quantity(one) == Quantity(other)
    assert (Quantity(one).spelling == Quantity(other).spelling) is equal
    assert pickle.loads(pickle.dumps(Quantity(one))).spelling == Quantity(one).spelling
