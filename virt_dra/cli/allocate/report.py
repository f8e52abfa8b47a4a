"""The report of ``virt-dra allocate``, as data (JSON, YAML) and as text: a table of devices, the scheduler's line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypedDict

from virt_dra.allocator import Explanation
from virt_dra.allocator.explain import RequestExplanation
from virt_dra.api.resource_v1 import DeviceRequestAllocationResult
from virt_dra.api.wire import Json
from virt_dra.cli.shared.aligned import aligned
from virt_dra.simulator.allocation import FITS, AllocationAnswer, NodeAnswer

# --- data ---------------------------------------------------------------------------------------------------------


class PoolRefusalJson(TypedDict):
    """A pool whose devices can't be allocated."""

    pool: str
    reason: str
    detail: str


class DeviceRefusalJson(TypedDict):
    """A device that a request can't have."""

    device: str
    """driver/pool/device"""
    reason: str
    summary: str
    detail: str


class RequestExplanationJson(TypedDict):
    """What refused each device for a request."""

    claim: str
    request: str
    wanted: int
    placed: int
    """Devices that it got at best."""
    overLimit: bool
    rejections: list[DeviceRefusalJson]


class ExplanationJson(TypedDict):
    """Why a node can't serve the claims."""

    node: str
    reason: str
    summary: str
    devices: int
    pools: list[PoolRefusalJson]
    requests: list[RequestExplanationJson]


class NodeAnswerJson(TypedDict):
    """The answer of one node."""

    node: str
    verdict: str
    """fits, refused, error or timed out"""
    summary: str | None
    results: list[Json] | None
    """AllocationResults of resource.k8s.io/v1, in the order of the claims."""
    explanation: ExplanationJson | None


class ClaimsAnswerJson(TypedDict):
    """The outcome for claims that are placed together."""

    claims: list[str]
    allocated: bool
    node: str | None
    message: str | None
    """kube-scheduler's, where nothing is allocated."""
    nodes: list[NodeAnswerJson]


class AllocationReportJson(TypedDict):
    """Which devices claims get, and why not."""

    allocated: bool
    answers: list[ClaimsAnswerJson]


def answer_json(answer: AllocationAnswer) -> ClaimsAnswerJson:
    return {
        "claims": list(answer.claims),
        "allocated": answer.allocated,
        "node": answer.fitting[0].node if answer.allocated else None,
        "message": answer.message,
        "nodes": [_node_json(node) for node in answer.nodes],
    }


def _node_json(answer: NodeAnswer) -> NodeAnswerJson:
    return {
        "node": answer.node,
        "verdict": answer.verdict,
        "summary": answer.summary or None,
        "results": [result.to_wire() for result in answer.results] if answer.verdict == FITS else None,
        "explanation": explanation_json(answer.explanation) if answer.explanation is not None else None,
    }


def explanation_json(explanation: Explanation) -> ExplanationJson:
    """The tree of refusals: pools that can't be used, then per request what refused each device."""
    return {
        "node": explanation.node,
        "reason": explanation.reason,
        "summary": explanation.summary,
        "devices": explanation.devices,
        "pools": [{"pool": str(pool.pool), "reason": pool.reason, "detail": pool.detail} for pool in explanation.pools],
        "requests": [_request_json(request) for request in explanation.requests],
    }


def _request_json(request: RequestExplanation) -> RequestExplanationJson:
    return {
        "claim": request.claim,
        "request": request.request,
        "wanted": request.wanted,
        "placed": request.placed,
        "overLimit": request.over_limit,
        "rejections": [
            {"device": str(of.device), "reason": of.reason, "summary": of.summary, "detail": of.detail}
            for of in request.rejections
        ],
    }


# --- text ---------------------------------------------------------------------------------------------------------

HEADINGS = ("CLAIM", "NODE", "REQUEST", "DEVICE", "DETAILS")


def table(answers: Iterable[AllocationAnswer], *, every_node: bool) -> list[str]:
    """One line per allocated device, in aligned columns, and one per unallocated claim; ``every_node``: also one per
    refusing node."""
    return aligned(HEADINGS, [row for answer in answers for row in _rows(answer, every_node=every_node)])


def _rows(answer: AllocationAnswer, *, every_node: bool) -> Iterator[tuple[str, ...]]:
    if not answer.allocated:
        yield ", ".join(answer.claims), "-", "-", "-", answer.message or ""
        return
    for node in answer.nodes:
        if node.verdict != FITS:
            if every_node:
                yield ", ".join(answer.claims), node.node, "-", "-", node.summary
            continue
        for claim, result in zip(answer.claims, node.results, strict=True):
            if not result.devices.results:
                yield claim, node.node, "-", "-", "requests no devices"
            for device in result.devices.results:
                name = f"{device.driver}/{device.pool}/{device.device}"
                yield claim, node.node, device.request, name, _details(device)


def _details(device: DeviceRequestAllocationResult) -> str:
    words = ["admin access"] if device.admin_access else []
    words += [f"{name} {amount}" for name, amount in (device.consumed_capacity or {}).items()]
    return ", ".join(words)
