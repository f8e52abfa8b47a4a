"""The reason why a view of a pool can't be computed."""

from __future__ import annotations

from dataclasses import dataclass

MOST_ITEMS = 32
"""Entries of a list in the status."""

TYPE_MISSING = "PartitionTypeMissing:"
COST_MISMATCH = "PartitionCostMismatch:"
PARTITIONS_OVER_CAP = "PartitionSummaryOverCap:"
SHAREABLE_OVER_CAP = "ShareableSummaryOverCap:"


@dataclass(frozen=True)
class ViewProblem:
    """Why a view can't be computed. ``message`` begins with one of the prefixes above."""

    message: str
