"""Refusals as JSON."""

from __future__ import annotations

from typing import TypedDict

from virt_dra.scheduling.framework.refusals import Reason
from virt_dra.scheduling.why.groups import RefusalGroup


class ReasonJson(TypedDict):
    """A reason, which has a page: virt-dra explain REASON."""

    reason: str
    """A name of docs/reasons."""
    text: str
    """The same for everything that misses in the same way."""
    detail: str | None
    """Of one example, e.g. how much is missing."""
    term: str | None
    """The term of the selector that is false."""


class DeviceReasonJson(ReasonJson):
    """A reason of devices."""

    count: int
    examples: list[str]
    """driver/pool/device"""


class RefusalGroupJson(TypedDict):
    """Nodes that are refused alike."""

    nodes: list[str]
    claim: str | None
    request: str | None
    """The request that can't be served."""
    wanted: int
    """Devices that the request wants."""
    placed: int
    """Devices that it got at best."""
    node: list[ReasonJson]
    """Reasons of the nodes themselves."""
    devices: list[DeviceReasonJson]
    """The nearest reasons of devices."""
    lacking: ReasonJson | None
    """The reason where it is none of a single device."""


def group_json(group: RefusalGroup) -> RefusalGroupJson:
    """Nodes that are refused alike: ``node`` has the reasons of the nodes themselves, ``devices`` those of devices."""
    return {
        "nodes": list(group.nodes),
        "claim": group.claim or None,
        "request": group.request or None,
        "wanted": group.wanted,
        "placed": group.placed,
        "node": [reason_json(reason) for reason in group.node_reasons],
        "devices": [
            {**reason_json(reason), "count": number, "examples": [str(device) for device in group.examples[reason]]}
            for reason, number in group.devices.most_common()
        ],
        "lacking": None if group.common_reason is None else reason_json(group.common_reason),
    }


def reason_json(reason: Reason) -> ReasonJson:
    """``reason`` has a page: ``virt-dra explain REASON``."""
    return {"reason": reason.code, "text": reason.text, "detail": reason.detail or None, "term": reason.term or None}
