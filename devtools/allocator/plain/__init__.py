"""The rules of docs/spec/allocation.md once more, plainly: A-7.2 as it is written, nothing left out of the search,
nothing remembered.

A second allocator to hold against ours and against the reference: each correction of section 28.2 is a switch here.
With all of them the answer must be ours; with none it must be the reference's. It shares with ours only the types,
quantities, selectors of nodes and CEL, and (consumption.py) the arithmetic of request policies. Slow on purpose: for
small problems.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from unittest.mock import patch

from devtools.allocator.plain.errors import Fatal, NodeOnly, TooLong
from devtools.allocator.plain.facts import Facts
from devtools.allocator.plain.pools import visible_pools
from devtools.allocator.plain.requests import read_claims
from devtools.allocator.plain.result import results
from devtools.allocator.plain.search import Search
from virt_dra.allocator.features import consumption
from virt_dra.api.resource_v1 import CapacityRequestPolicyRange

__all__ = ["CORRECTIONS", "TooLong", "plain_answer"]

Json = dict[str, Any]

CORRECTIONS = (
    "AC-1",
    "AC-2",
    "AC-3",
    "AC-4/15/16",
    "AC-5",
    "AC-6",
    "AC-7",
    "AC-8",
    "AC-9",
    "AC-10",
    "AC-11",
    "AC-12",
    "AC-13",
    "AC-14",
    "AC-18",
    "AC-21a",
    "AC-23",
)
"""All that the allocator's answers show, but AC-17 and AC-22: there the reference's answer is a matter of luck, or of
quantities."""


def plain_answer(problem: Json, corrected: Collection[str] = CORRECTIONS, *, step_limit: int = 200_000) -> Json:
    """``{"results", "error", "node_error"}`` of a problem in the protocol's form. Raises :class:`TooLong`."""
    facts = Facts(problem, frozenset(corrected))
    with patch.object(consumption, "in_milli", consumption.in_milli if facts.fixed("AC-11") else _in_milli):
        try:
            pools = visible_pools(facts)
            search = Search(facts, pools, read_claims(facts, pools), step_limit)
            written = results(facts, search) if search.run() else None
        except NodeOnly as error:
            return {"results": None, "error": str(error), "node_error": True}
        except Fatal as error:
            return {"results": None, "error": str(error), "node_error": False}
    return {"results": written, "error": None, "node_error": False}


def _in_milli(range_: CapacityRequestPolicyRange, *, fractional: bool) -> bool:
    """AC-11 not corrected: also where every bound is an integer, if thousandths of it fit in 64 bits."""
    bounds = [bound.nano for bound in (range_.min, range_.max, range_.step) if bound is not None]
    representable = all(nano % 10**6 == 0 and -(2**63) <= nano // 10**6 < 2**63 for nano in bounds)
    return fractional and representable and (range_.step is None or range_.step.nano >= 10**6)
