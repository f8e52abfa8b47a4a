"""Semantic versions: strict reading in Kubernetes' words, precedence, normalization."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.semver import SemVer, SemVerError

ASCENDING = [
    "0.0.0-0",
    "0.0.0-a",
    "0.0.0",
    "0.0.1",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0-1",
    "2.0.0-1.0",
    "2.0.0-10",
    "2.0.0--",
    "2.0.0-1a",
    "2.0.0-A",
    "2.0.0-a",
    "2.0.0",
    "18446744073709551616.0.0",
    "99999999999999999999999.0.0",
]


def test_order_is_semver_precedence() -> None:
    versions = [SemVer.parse(text) for text in ASCENDING]
    for i, a in enumerate(versions):
        for j, b in enumerate(versions):
            assert (a.compare(b), a < b, a == b, a >= b) == ((i > j) - (i < j), i < j, i == j, i >= j)


def test_build_metadata_counts_for_the_text_only() -> None:
    a, b = SemVer.parse("1.2.3-rc.1+build.007"), SemVer.parse("1.2.3-rc.1+other")
    assert (a == b, hash(a) == hash(b), a.compare(b)) == (True, True, 0)
    assert str(a) == "1.2.3-rc.1+build.007"
    assert (a.major, a.minor, a.patch, a.prerelease, a.build) == (1, 2, 3, ("rc", 1), ("build", "007"))
    assert SemVer.parse("1.0.0+a-b").build == ("a-b",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Version string empty"),
        ("1", "No Major.Minor.Patch elements found"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("v1.2.3", 'Invalid character(s) found in major number "v1"'),
        (" 1.2.3", 'Invalid character(s) found in major number " 1"'),
        ("1.x.3", 'Invalid character(s) found in minor number "x"'),
        ("1.2.3.4", 'Invalid character(s) found in patch number "3.4"'),
        ("1.2.٣", 'Invalid character(s) found in patch number "٣"'),
        ("01.2.3", 'Major number must not contain leading zeroes "01"'),
        ("1.02.3", 'Minor number must not contain leading zeroes "02"'),
        ("1.2.03", 'Patch number must not contain leading zeroes "03"'),
        ("1..3", 'strconv.ParseUint: parsing "": invalid syntax'),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3-a..b", "Prerelease is empty"),
        ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.2.3-a_b", 'Invalid character(s) found in prerelease "a_b"'),
        ("1.2.3+", "Build meta data is empty"),
        ("1.2.3+a+b", 'Invalid character(s) found in build meta data "a+b"'),
        ("9" * 5000 + ".0.0", "version is too long: 5004 characters, at most 4000"),
    ],
)
def test_anything_else_is_refused_in_kubernetes_words(text: str, message: str) -> None:
    with pytest.raises(SemVerError) as error:
        SemVer.parse(text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("v1.2.3", "1.2.3"),
        ("1", "1.0.0"),
        ("v1.2", "1.2.0"),
        ("01.002.0003", "1.2.3"),
        ("000.00.0", "0.0.0"),
        ("1.2.03-rc1", "1.2.3-rc1"),
        ("1.2.0-rc1", "1.2.0-rc1"),
        ("1.2.00-x", "1.2.0-x"),
        ("1.2.3", "1.2.3"),
    ],
)
def test_normalizes_on_demand(text: str, canonical: str) -> None:
    assert str(SemVer.parse(text, normalize=True)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.2-rc", "short version cannot contain PreRelease/Build meta data"),
        ("vv1", 'Invalid character(s) found in major number "0v1"'),
        ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("", 'strconv.ParseUint: parsing "": invalid syntax'),
        (" 1.0.0", 'Invalid character(s) found in major number "0 1"'),
    ],
)
def test_normalizing_has_its_limits(text: str, message: str) -> None:
    with pytest.raises(SemVerError) as error:
        SemVer.parse(text, normalize=True)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.18446744073709551616.x", 'strconv.ParseUint: parsing "18446744073709551616": value out of range'),
        ("1.x.18446744073709551616", 'Invalid character(s) found in minor number "x"'),
        ("1.2.3-18446744073709551616.!", 'strconv.ParseUint: parsing "18446744073709551616": value out of range'),
    ],
)
def test_numbers_beyond_64_bits_can_be_refused_where_they_stand(text: str, message: str) -> None:
    with pytest.raises(SemVerError) as error:
        SemVer.parse(text, uint64=True)
    assert str(error.value) == message


def test_numbers_are_exact() -> None:
    assert SemVer.parse("1.18446744073709551616.0").minor == 2**64
    assert SemVer.parse("18446744073709551615.0.0", uint64=True).major == 2**64 - 1


NUMBER = st.integers(0, 10**30)
WORD = st.from_regex(r"[0-9]*[A-Za-z-][0-9A-Za-z-]*", fullmatch=True)
VERSIONS = st.builds(
    SemVer,
    NUMBER,
    NUMBER,
    NUMBER,
    st.lists(NUMBER | WORD, max_size=3).map(tuple),
    st.lists(WORD, max_size=2).map(tuple),
)


@given(VERSIONS)
def test_text_reads_back(version: SemVer) -> None:
    again = SemVer.parse(str(version))
    assert (again, str(again), again.build, again.prerelease) == (
        version,
        str(version),
        version.build,
        version.prerelease,
    )


@given(st.text(), st.booleans())
def test_any_text_is_a_version_or_a_semver_error(text: str, normalize: bool) -> None:
    try:
        version = SemVer.parse(text, normalize)
    except SemVerError:
        return
    assert SemVer.parse(str(version)) == version
