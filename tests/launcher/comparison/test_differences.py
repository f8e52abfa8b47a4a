"""Differences of two domains, as cases; and domains of ours beside what libvirt makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from lxml import etree

from launcher.comparison.differences import differences
from launcher.comparison.facts import facts

CASES = yaml.load((Path(__file__).parent / "cases/differences.yaml").read_text(), yaml.CSafeLoader)


def differing(ours: str, other: str) -> list[str]:
    return list(map(str, differences(*(facts(etree.fromstring(xml)) for xml in (ours, other)))))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_domains_differ_in_what_they_mean(case: dict[str, Any]) -> None:
    ours, other = (f"<domain>{case[name]}</domain>" for name in ("ours", "other"))
    assert differing(ours, other) == case["want"]
    assert differing(ours, ours) == differing(other, other) == []
