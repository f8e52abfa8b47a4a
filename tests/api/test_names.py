"""Names, with apimachinery's texts (compared with k8s.io/apimachinery v0.37.2 on 3000 random texts when this was
written)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api import names

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters "
    "or '-', and must start and end with an alphanumeric "
    "character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
    "characters, '-' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
CASELESS = (
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character "
    r"(e.g. 'Example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an "
    "alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyName',  or "
    "'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, "
    "'-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
IDENTIFIER = (
    "a valid C identifier must start with alphabetic character or '_', "
    "followed by a string of alphanumeric characters or '_' "
    "(e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("a", ()),
        ("0", ()),
        ("a-1", ()),
        ("x" * 63, ()),
        ("x" * 64, ("must be no more than 63 characters",)),
        ("a.b", ("must not contain dots",)),
        ("", (LABEL,)),
        ("A", (LABEL,)),
        ("-a", (LABEL,)),
        ("a-", (LABEL,)),
        ("a\n", (LABEL,)),
        ("é" * 32, ("must be no more than 63 characters", LABEL)),
    ],
)
def test_dns_label(text: str, faults: tuple[str, ...]) -> None:
    assert names.dns1123_label(text) == faults


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("a.b-c.d", ()),
        ("a." * 126 + "a", ()),
        ("a." * 127 + "a", ("must be no more than 253 characters",)),
        ("", (SUBDOMAIN,)),
        ("a..b", (SUBDOMAIN,)),
        ("a.B", (SUBDOMAIN,)),
        ("a_b", (SUBDOMAIN,)),
    ],
)
def test_dns_subdomain(text: str, faults: tuple[str, ...]) -> None:
    assert names.dns1123_subdomain(text) == faults


def test_newer_checks_speak_of_bytes() -> None:
    assert names.dns1123_label("x" * 64, "bytes") == ("must be no more than 63 bytes",)
    assert names.dns1123_subdomain("x" * 254, "bytes") == ("must be no more than 253 bytes",)


def test_a_caseless_subdomain_tolerates_upper_case() -> None:
    assert names.dns1123_subdomain_caseless("Example.COM") == ()
    assert names.dns1123_subdomain_caseless("a_b") == (CASELESS,)


def test_a_1035_label_starts_with_a_letter() -> None:
    assert names.dns1035_label("a-1") == ()
    assert names.dns1035_label("1-a") == (LABEL_1035,)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("MyName", ()),
        ("example.com/My_name.1", ()),
        (
            "a/b/c",
            (f"a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",),
        ),
        ("/a", ("prefix part must be non-empty",)),
        ("A/a", (f"prefix part {SUBDOMAIN}",)),
        ("a/", ("name part must be non-empty", f"name part {KEY}")),
        ("", ("name part must be non-empty", f"name part {KEY}")),
        ("x" * 64, ("name part must be no more than 63 bytes",)),
        ("a b", (f"name part {KEY}",)),
        ("x" * 254 + "/a", ("prefix part must be no more than 253 bytes",)),
    ],
)
def test_label_key(text: str, faults: tuple[str, ...]) -> None:
    assert names.label_key(text) == faults


@pytest.mark.parametrize(
    ("text", "faults"),
    [("", ()), ("My_value.1", ()), ("x" * 64, ("must be no more than 63 bytes",)), ("-", (VALUE,)), ("a/b", (VALUE,))],
)
def test_label_value(text: str, faults: tuple[str, ...]) -> None:
    assert names.label_value(text) == faults


@pytest.mark.parametrize(
    ("text", "faults"), [("_a1", ()), ("A", ()), ("", (IDENTIFIER,)), ("1a", (IDENTIFIER,)), ("a-b", (IDENTIFIER,))]
)
def test_c_identifier(text: str, faults: tuple[str, ...]) -> None:
    assert names.c_identifier(text) == faults


@pytest.mark.parametrize(("prefix", "checked"), [("gpu-", "gpa"), ("gpu", "gpu"), ("-", "-"), ("", ""), ("a-", "a")])
def test_the_dash_at_the_end_of_a_generate_name_is_fine(prefix: str, checked: str) -> None:
    assert names.without_trailing_dash(prefix) == checked


@given(st.text())
def test_any_text_gets_a_verdict_and_labels_are_subdomains_and_values(text: str) -> None:
    if not names.dns1123_label(text):
        assert names.dns1123_subdomain(text) == names.label_value(text) == names.label_key(text) == ()
    assert names.byte_length(text) >= len(text)


def test_long_hostile_text_is_judged_quickly() -> None:
    assert names.label_key("a" * 200_000 + "!")[-1] == f"name part {KEY}"
    assert names.dns1123_subdomain("a-" * 100_000)[-1] == SUBDOMAIN


def test_lone_surrogates_have_a_length() -> None:
    assert names.byte_length("\ud800") == 3
