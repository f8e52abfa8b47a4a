"""The metrics of the claim controller (C-10.16)."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from virt_dra.api.resource_v1 import EXTENDED_RESOURCE_CLAIM_ANNOTATION, POD_CLAIM_NAME_ANNOTATION, ResourceClaim
from virt_dra.controllers.loops.context import LoopMetrics

CLAIMS = "dynamic_resource_allocation_resource_claims"
CREATES = "dynamic_resource_allocation_resourceclaim_creates_total"


def count_creation(metrics: LoopMetrics, claim: ResourceClaim, status: Literal["success", "failure"]) -> None:
    """Count a try to create a claim, by what its owner is."""
    owner = claim.metadata.controller_owner
    group, kind = ("", "") if owner is None else (owner.api_version.rpartition("/")[0], owner.kind)
    metrics.count(CREATES, status=status, admin_access=_admin_access(claim), owner_api_group=group, owner_api_kind=kind)


class ClaimGauges:
    """Keeps the numbers of claims, by state and source, without ever counting all of them."""

    def __init__(self, metrics: LoopMetrics) -> None:
        self._metrics = metrics
        self._numbers: Counter[tuple[str, str, str]] = Counter()

    def changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        before, after = _labels(old), _labels(new)
        if before == after:
            return
        for labels, by in ((before, -1), (after, 1)):
            if labels is not None:
                self._numbers[labels] += by
                allocated, admin_access, source = labels
                self._metrics.gauge(
                    CLAIMS, self._numbers[labels], allocated=allocated, admin_access=admin_access, source=source
                )


def _labels(claim: ResourceClaim | None) -> tuple[str, str, str] | None:
    if claim is None:
        return None
    annotations = claim.metadata.annotations
    if annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) == "true":
        source = "extended_resource"
    else:
        source = "resource_claim_template" if annotations.get(POD_CLAIM_NAME_ANNOTATION) else ""
    return ("false" if claim.status.allocation is None else "true"), _admin_access(claim), source


def _admin_access(claim: ResourceClaim) -> str:
    asks = any(request.exactly is not None and request.exactly.admin_access for request in claim.spec.devices.requests)
    return "true" if asks else "false"
