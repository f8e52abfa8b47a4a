"""Whether the devices of a claim are ready to be used on the node: binding conditions that drivers report (C-6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from virt_dra.api.go_text import quoted
from virt_dra.api.meta import parse_time
from virt_dra.api.resource_v1 import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim

TIMED_OUT = "device binding timeout"
FAILED = "device binding failed"


class BindingFailed(Exception):
    """A driver reported one of the device's failure conditions."""


@dataclass(frozen=True)
class BindingDeadline:
    """The time limit for binding conditions. A claim has waited too long if its allocation is older."""

    now: datetime
    timeout: timedelta

    def passed(self, claim: ResourceClaim) -> bool:
        """Whether the claim waits for binding conditions, and its allocation is too old (C-6.3)."""
        allocation = claim.status.allocation
        if allocation is None or allocation.allocation_timestamp is None or not waits(claim):
            return False
        return parse_time(allocation.allocation_timestamp) + self.timeout < self.now

    def unusable(self, claim: ResourceClaim) -> bool:
        """True if its devices failed, or didn't become ready in time: deallocating it may help (C-5.4 item 2)."""
        if not waits(claim):
            return False
        try:
            return not ready(claim) and self.passed(claim)
        except BindingFailed:
            return True


def waits(claim: ResourceClaim) -> bool:
    """Whether a device of the claim has binding conditions."""
    return any(result.binding_conditions for result in claim.results)


def ready(claim: ResourceClaim) -> bool:
    """Whether every binding condition of every device is True, in their order (C-6.2). Raises BindingFailed."""
    if claim.status.allocation is None:
        return False
    for result in claim.results:
        if not result.binding_conditions:
            continue
        reported = _reported(claim, result)
        if reported is None:
            return False
        by_type = {condition.type: condition for condition in reversed(reported.conditions)}
        for name in result.binding_failure_conditions:
            failed = by_type.get(name)
            if failed is not None and failed.status == "True":
                raise BindingFailed(
                    f"{FAILED}: claim={claim.name}, reason={failed.reason}, message={quoted(failed.message)}"
                )
        if any(name not in by_type or by_type[name].status != "True" for name in result.binding_conditions):
            return False
    return True


def summary(claims: Iterable[ResourceClaim]) -> str:
    """What is missing, device by device, for the log (C-6.7)."""
    parts = []
    for claim in claims:
        for result in claim.results:
            if not result.binding_conditions:
                continue
            reported = _reported(claim, result)
            conditions = reported.conditions if reported is not None else ()
            true = {condition.type for condition in conditions if condition.status == "True"}
            text = f"<driver={result.driver}, pool={result.pool}> {result.device}"
            if failed := [name for name in result.binding_failure_conditions if name in true]:
                text += f" failed=[{','.join(failed)}]"
            if pending := [name for name in result.binding_conditions if name not in true]:
                text += f" pending=[{','.join(pending)}]"
            parts.append(text)
    return "; ".join(parts)


def _reported(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    """The first report about the device; its share doesn't matter."""
    wanted = (result.driver, result.pool, result.device)
    return next(
        (status for status in claim.status.devices if (status.driver, status.pool, status.device) == wanted), None
    )
