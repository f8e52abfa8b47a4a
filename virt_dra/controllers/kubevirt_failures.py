"""KubeVirt's condition ``Synchronized`` of a VMI that it failed to start, and whether to retry (K-12.8, K-12.9).
Pure."""

from __future__ import annotations

import re
from typing import Final

from virt_dra.api.integration.paths import POD_WEBHOOK
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import Condition
from virt_dra.api.wire import WireError

SYNCHRONIZED: Final = "Synchronized"
"""KubeVirt's condition; False after a failed attempt, with the first message of the failures of one reason."""
FAILED_CREATE: Final = "FailedCreate"
"""KubeVirt's reason: rendering the pod failed, or the API server refused it (a webhook, a quota, an invalid name)."""
SYNC_FAILED: Final = "Synchronizing with the Domain failed."
"""virt-handler's reason: the domain could not be started."""
_METADATA: Final = "metadata"
"""Part of every error of a launcher that doesn't find a device's address (K-7.10)."""


UNPROCESSED: Final = (None, "", "Pending")
"""Phases of a VMI without a launcher pod."""
_BY_API_SERVER: Final = "failed to create virtual machine pod"
"""KubeVirt's words before an API server's error. A pod that it can't render has others (K-12.9)."""
_REFUSERS: Final = (
    (r'admission webhook "([^"]+)" denied the request', 'admission webhook "{}"'),
    (r'failed calling webhook "([^"]+)"', 'the API server, which gets no answer of webhook "{}",'),
    (r"ValidatingAdmissionPolicy '([^']+)'", "ValidatingAdmissionPolicy {}"),
    (r"exceeded quota: ([^\s,]+)", "quota {}"),
)


def synchronized(vmi: VirtualMachineInstance) -> Condition | None:
    """The condition Synchronized where it is False, else None."""
    for raw in vmi.status.conditions:
        if raw.get("type") == SYNCHRONIZED and raw.get("status") == "False":
            try:
                return Condition.from_wire(raw)
            except WireError:
                return None
    return None


def creation_failure(vmi: VirtualMachineInstance) -> Condition | None:
    """The condition Synchronized where it says that the launcher pod can't be created."""
    failure = synchronized(vmi) if vmi.status.phase in UNPROCESSED else None
    return failure if failure is not None and failure.reason.startswith(FAILED_CREATE) else None


def refuser(failure: Condition) -> str:
    """The component that refused the launcher pod, by a condition of :func:`creation_failure`."""
    message = failure.message or ""
    for pattern, words in _REFUSERS:
        named = re.search(pattern, message)
        if named is not None:
            return words.format(named[1])
    return "the API server" if _BY_API_SERVER in message else "virt-controller"


def start_failure(vmi: VirtualMachineInstance) -> Condition | None:
    """The condition Synchronized where it says that the guest can't be started with the pod that exists. A condition
    about the pod's creation was written before there was a pod, and KubeVirt replaces it soon."""
    failure = synchronized(vmi) if vmi.status.phase in ("Scheduling", "Scheduled") else None
    return failure if failure is not None and not failure.reason.startswith(FAILED_CREATE) else None


def lacks_metadata(failure: Condition | None) -> bool:
    """True if the launcher doesn't find a device's address in metadata files."""
    return failure is not None and failure.reason == SYNC_FAILED and _METADATA in (failure.message or "")


def awaits_retry(vmi: VirtualMachineInstance) -> bool:
    """True if KubeVirt failed to start the VMI for a reason that may be over without KubeVirt noticing."""
    return retryable_failure(vmi) is not None


def retryable_failure(vmi: VirtualMachineInstance) -> Condition | None:
    if vmi.metadata.deletion_timestamp is not None:
        return None
    failure = synchronized(vmi)
    if failure is None:
        return None
    message = failure.message or ""
    if vmi.status.phase in UNPROCESSED:
        return failure if failure.reason == FAILED_CREATE and POD_WEBHOOK in message else None
    return failure if vmi.status.phase == "Scheduled" and lacks_metadata(failure) else None
