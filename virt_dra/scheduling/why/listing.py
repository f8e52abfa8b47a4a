"""Every refusal of a node in a line of its own, indented by level."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.api.counting import counted
from virt_dra.scheduling.framework.refusals import Reason
from virt_dra.scheduling.why.tree import NodeRefusal, RequestRefusal


def refusal_lines(node: NodeRefusal) -> Iterator[str]:
    reasons = (*node.node_reasons, *node.device_reasons)
    reached = f" ({counted(node.devices.reachable, 'device')} reachable)" if node.devices is not None else ""
    yield f"node {node.node}: {'; '.join(reason.text for reason in reasons)}{reached}"
    yield from (f"  {_reason(reason)}" for reason in reasons if reason.detail)
    if node.devices is not None:
        yield from (f"  pool {problem.pool}: {problem.reason}: {problem.detail}" for problem in node.devices.pools)
        for request in node.devices.requests:
            yield from _request_lines(request)


def _request_lines(request: RequestRefusal) -> Iterator[str]:
    of = f"claim {request.claim}, request {request.request}"
    yield f"  {of}: {request.placed} of {counted(request.wanted, 'device')} at best"
    yield from (f"    {refused.device}: {_reason(refused.reason)}" for refused in request.devices)


def _reason(reason: Reason) -> str:
    """``SelectorMismatch: model is "T4": device.attributes…``"""
    return ": ".join(filter(None, (reason.code, reason.text, reason.detail, reason.term)))
