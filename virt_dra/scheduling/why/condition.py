"""The message of the operator's condition Allocatable (K-12.4): the groups of nodes, with their claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from virt_dra.api.counting import counted
from virt_dra.model.unknown import UnknownFact
from virt_dra.scheduling.why.groups import grouped, named_group_text
from virt_dra.scheduling.why.tree import NodeRefusal

_GROUPS: Final = 8
"""Groups that a message lists at most."""


def unknown_text(facts: Sequence[UnknownFact], *, sampled: bool) -> str:
    """What a condition says after "it fits". ``sampled``: not all nodes were tried."""
    of = " of the tried nodes" if sampled else ""
    return f". Not known{of}: {'; '.join(fact.text for fact in facts)}" if facts else ""


def allocatable_text(nodes: Iterable[NodeRefusal], total: int) -> str:
    """The message for a pod that fits on none of the given nodes, of ``total`` in the cluster."""
    groups = grouped(nodes)
    tried = sum(len(group.nodes) for group in groups)
    none = (
        f"0 of {total:,} nodes"
        if tried >= total
        else f"0 of {counted(tried, 'tried node')} (the cluster has {total:,})"
    )
    parts = [named_group_text(group) for group in groups[:_GROUPS]]
    if len(groups) > _GROUPS:
        parts.append(counted(len(groups) - _GROUPS, "other group") + " of nodes")
    return f"{none} can take the pod: {'; '.join(parts)}"
