"""Refusals of launcher pods whose integration path can't be chosen yet (decision 0012). Pure.

The path can't be changed once the pod exists, and virt-controller retries a refused pod. So a pod is refused

* as long as an object is missing without which it can't be scheduled anyway: its template, its claim, a DeviceClass;
* for a limited time, if all of these exist and the driver of a request is unknown: a cluster autoscaler may need the
  pending pod to add the node whose devices show the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from virt_dra.api.integration.paths import (
    BY_DRIVERS,
    DRIVER_UNKNOWN,
    METADATA_SHIM,
    NATIVE,
    PATH_ANNOTATION,
    ClaimRequestPair,
    PathDecision,
)
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import parse_time
from webhooks.knowledge import Knowledge, RequestDrivers
from webhooks.verdict import NOT_FOUND, AdmissionCause

MAX_CAUSES: Final = 8
"""Limit of the causes of a refusal. Users can name hundreds of objects."""


def refusals(
    decisions: Iterable[tuple[str, PathDecision]],
    serving: Mapping[ClaimRequestPair, RequestDrivers],
    vmi: VirtualMachineInstance | None,
    knowledge: Knowledge,
) -> tuple[AdmissionCause, ...]:
    """Why the pod is refused for now; () if it isn't. ``decisions``: each with its field in the pod. ``vmi``: the
    pod's, if it is known."""
    now = knowledge.now
    if now is None:
        return ()
    by_message: dict[str, AdmissionCause] = {}
    for place, decision in decisions:
        served = serving.get(decision.pair)
        if served is None or decision.reason not in BY_DRIVERS:
            continue
        for missing in served.missing:
            # Classes are named by claims and templates, not by the VMI.
            reason = (
                missing
                if knowledge.verified or missing.namespace
                else f"a {missing.kind} of request {str(decision.pair)[:127]!r} is missing"
            )
            message = (
                f"{reason}; create it or correct the name. The pod is created once it "
                "exists: its driver decides how the pod is made"
            )
            by_message.setdefault(message, AdmissionCause(NOT_FOUND, message, place))
        if decision.reason == DRIVER_UNKNOWN and served.undecided is not None:
            until = knowledge.count_from(max(served.undecided, _created(vmi, now))) + knowledge.launcher.driver_wait
            if now < until:
                message = _undecided(decision.pair, knowledge.launcher.driver_wait)
                by_message.setdefault(str(decision.pair), AdmissionCause(NOT_FOUND, message, place))
    causes, more = tuple(by_message.values()), len(by_message) - MAX_CAUSES
    if more <= 0:
        return causes
    return (*causes[:MAX_CAUSES], AdmissionCause(NOT_FOUND, f"and {more} more", "spec.resourceClaims"))


def _undecided(pair: ClaimRequestPair, wait: timedelta) -> str:
    return (
        f"no published device matches request {str(pair)[:127]!r} and no selector "
        'begins with device.driver == "…", so it is not known '
        "which driver will serve it, which decides how the pod is made; the pod is created as soon as a device "
        f"matches, at the latest after {wait.total_seconds():.0f} s. Name the driver in the DeviceClass, or set "
        f"annotation {PATH_ANNOTATION} to {NATIVE} (the driver writes metadata files) or {METADATA_SHIM} (it doesn't)"
    )


def _created(vmi: VirtualMachineInstance | None, now: datetime) -> datetime:
    """The creation time of the VMI; now if it isn't known yet, since then it is new."""
    text = vmi.metadata.creation_timestamp if vmi is not None else None
    try:
        return parse_time(text) if text else now
    except (ValueError, OverflowError):
        return now
