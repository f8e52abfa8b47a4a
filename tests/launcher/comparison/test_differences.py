"""Differences of two domains, as cases; and domains of ours beside what libvirt makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from lxml import etree

from devtools.libvirt import witness as libvirt_witness
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


GOLDEN = Path(__file__).parents[1]
DOMAINS = (
    GOLDEN / "golden/claimed-vgpu.xml",
    GOLDEN / "placement/golden/mirrored.xml",
    GOLDEN / "placement/golden/mirrored-by-pcie-root.xml",
)


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize("path", DOMAINS, ids=lambda path: path.stem)
def test_what_libvirt_fills_in_is_no_difference(path: Path) -> None:
    ours = path.read_text(encoding="utf-8")
    completed = libvirt_witness.define(ours, libvirt_witness.QEMU)
    assert len(completed) > len(ours)
    assert differing(ours, completed) == []
