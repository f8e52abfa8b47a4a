"""Refusals as JSON; the schema of explanations is docs/schemas/explain.schema.json."""

from __future__ import annotations

from virt_dra.api.wire import Json
from virt_dra.scheduling.framework.refusals import Reason
from virt_dra.scheduling.why.groups import RefusalGroup


def group_json(group: RefusalGroup) -> Json:
    """Nodes that are refused alike: ``node`` has the reasons of the nodes themselves, ``devices`` those of devices."""
    return {
        "nodes": group.nodes,
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


def reason_json(reason: Reason) -> Json:
    """``reason`` has a page: ``virt-dra explain REASON``."""
    return {"reason": reason.code, "text": reason.text, "detail": reason.detail or None, "term": reason.term or None}
