"""Domains of random VMIs, half of them with hostile texts: ``make conformance`` judges 100,000."""

from __future__ import annotations

import pytest

from devtools.domains import judging
from devtools.domains.judging import Judgement, judged, outcomes
from devtools.domains.random_vmis import RELEASES, random_vmi

pytestmark = [pytest.mark.libvirt, pytest.mark.usefixtures("libvirt")]


def test_a_random_vmi_has_a_domain_that_libvirt_allows_or_a_typed_error() -> None:
    counts, fault = outcomes(range(400))
    assert fault == ""
    assert counts.keys() >= {
        "domain", "NoAddress", "MalformedAddress", "UnwritableText", "InvalidDomain", "CountMismatch",
    }  # fmt: skip
    assert counts["domain"] > 100, "too few VMIs are valid"


def test_random_vmis_reach_every_release_source_and_host() -> None:
    drawn = [random_vmi(seed) for seed in range(200)]
    assert {given.kubevirt for given in drawn} == set(RELEASES)
    assert {given.topology is None for given in drawn} == {True, False}
    assert any(given.sources.env for given in drawn)
    assert any(given.sources.files for given in drawn)
    assert any(given.vmi["status"]["deviceStatus"]["gpuStatuses"] for given in drawn)


def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    valid = next(given for given in map(random_vmi, range(0, 100, 2)) if judged(given) == Judgement("domain"))
    monkeypatch.setattr(judging, "schema_faults", lambda xml: ("line 1: no",))
    assert judged(valid).fault.startswith("libvirt's schema: line 1: no\n<domain")
    monkeypatch.undo()
    monkeypatch.setattr(judging, "_undeclared", lambda page: ["<evil/>"])
    assert judged(valid).fault.startswith("elements that nobody declared: ['<evil/>']")
    monkeypatch.setattr(judging, "convert", lambda *given, **options: int("x"))
    assert judged(valid).outcome == "exception"
    assert judged(valid).fault.startswith("ValueError: invalid literal")
