"""What a kubelet of 1.26 to 1.31 asks a driver's plugin to prepare: a function from a claim to calls (C-18.8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from virt_dra.api.core_v1 import Pod
from virt_dra.classic.objects import ClassicClaim, StructuredHandle
from virt_dra.classic.pod_claims import is_reserved
from virt_dra.classic.release import NEWEST_STRUCTURED, ClassicRelease


class NotPreparable(ValueError):
    """The kubelet doesn't ask for the claim: it isn't allocated, or not reserved for the pod."""


@dataclass(frozen=True)
class ClaimToPrepare:
    """One claim in a call: its identity, the driver's opaque data, and what was allocated by structured parameters."""

    namespace: str
    name: str
    uid: str
    resource_handle: str
    structured: StructuredHandle | None = None


Calls = Mapping[str, tuple[tuple[ClaimToPrepare, ...], ...]]
"""Driver -> its calls, each with the claims in it."""


def prepare_calls(pod: Pod, claims: Iterable[ClassicClaim], release: ClassicRelease = NEWEST_STRUCTURED) -> Calls:
    """The calls of NodePrepareResource (1.26: one for each claim) or NodePrepareResources (one for each driver).
    Without handles an allocation goes to the claim's driver with empty data. Raises :class:`NotPreparable`."""
    by_driver: dict[str, list[ClaimToPrepare]] = {}
    for claim in claims:
        allocation = claim.status.allocation
        if allocation is None:
            raise NotPreparable(f"ResourceClaim {claim.key} is not allocated")
        if not is_reserved(claim, pod):
            raise NotPreparable(f"ResourceClaim {claim.key} is not reserved for pod {pod.key}")
        own = claim.status.driver_name
        asked = [
            (handle.driver_name or own, handle.data, handle.structured_data) for handle in allocation.resource_handles
        ]
        for driver, data, structured in asked or [(own, "", None)]:
            by_driver.setdefault(driver, []).append(
                ClaimToPrepare(claim.namespace, claim.name, claim.metadata.uid, data, structured)
            )
    if release.batches_prepare:
        return {driver: (tuple(prepared),) for driver, prepared in by_driver.items()}
    return {driver: tuple((prepared_claim,) for prepared_claim in prepared) for driver, prepared in by_driver.items()}
