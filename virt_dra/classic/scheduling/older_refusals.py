"""What the other filters of the scheduler refused, as it was said until 1.31. Pure (C-18.6)."""

from __future__ import annotations

from dataclasses import replace

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.scheduling.filters.node_resources import INSUFFICIENT
from virt_dra.scheduling.filters.taints import TAINTED, untolerated
from virt_dra.scheduling.framework.messages import Diagnosis
from virt_dra.scheduling.framework.node_table import NodeTable
from virt_dra.scheduling.framework.refusals import FilterRefusal


def as_of_its_time(diagnosis: Diagnosis, pod: Pod, table: NodeTable) -> Diagnosis:
    """The diagnosis of a pod on the nodes of the table, as a scheduler of 1.26 to 1.31 makes it."""
    refusals = {}
    for name, refusal in diagnosis.refusals.items():
        state = table.get(name)
        refusals[name] = refusal if state is None else _older(refusal, pod, state.node)
    return replace(diagnosis, refusals=refusals)


def _older(refusal: FilterRefusal, pod: Pod, node: Node) -> FilterRefusal:
    """The first taint is named, and victims are looked for where even an empty node would be too small."""
    if refusal.code == INSUFFICIENT:
        return replace(refusal, resolvable=True)
    if refusal.code == TAINTED:
        taint = next(untolerated(pod, node))
        return replace(refusal, reasons=(f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}",))
    return refusal
