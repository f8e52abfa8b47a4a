"""Histories of VMs that keep their devices, with the real loops and all kinds of trouble: what the model doesn't allow
is found in none (``make conformance`` plays 20,000), and in some where a fault is put into the keeper."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from devtools.keeping.playing import found_out, played

HISTORIES = 100
AT_ONCE = 20
FAULTS = (
    "plan: the VM doesn't join the consumers",
    "plan: pods that use the claim don't count",
    "plan: claims without a VM stay held",
    "plan: no claim is made",
)
"""A sample; ``python -m devtools.keeping 60 --faults`` tries all."""


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """Without the warnings that turbulence makes the loops write."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow(seconds=20)
@pytest.mark.parametrize("start", range(HISTORIES // AT_ONCE))
def test_nothing_that_is_kept_is_lost(start: int) -> None:
    story, seen = played(AT_ONCE, start)
    assert story == ""
    assert seen["held"], "no stopped VM kept a device"


@pytest.mark.slow(seconds=4)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_out(fault: str) -> None:
    assert found_out(fault, 15)
