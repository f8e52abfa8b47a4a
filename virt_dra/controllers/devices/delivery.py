"""Whether a device's address can reach the VM through the pod as it was made (K-4.5, K-11.1, 0012). Pure. What is in
the way was decided when the pod was created, so only another pod helps: for a VM, a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.paths import (
    ASKED_FOR,
    CHOOSE_OTHERWISE,
    CHOOSE_SHIM,
    DEVICE_CLAIMS_ANNOTATION,
    DEVICE_PLUGIN,
    DRIVER_UNKNOWN,
    DRIVERS_DIFFER,
    METADATA_SHIM,
    NATIVE,
    NATIVE_NOT_READ,
    NO_DEVICE_CLAIMS,
    NO_METADATA_READ,
    NONE,
    NOT_KNOWN_TO_WRITE,
    PATH_ANNOTATION,
    ClaimRequestPair,
)
from virt_dra.api.integration.record import Integration, RecordedPair
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.controllers.devices.networks import used_pairs
from virt_dra.controllers.devices.options import DEFAULTS, ResolutionOptions, moment_after
from virt_dra.controllers.devices.outcomes import DeviceResolution, OutcomeState, ResolvedDevice, UnresolvedDevice
from virt_dra.controllers.devices.report import entries_in
from virt_dra.controllers.events import shortened
from virt_dra.controllers.kubevirt_failures import lacks_metadata, start_failure
from virt_dra.controllers.pods.launcher_pods import COMPUTE

_MESSAGE: Final = 2048
NOTHING_UNFILLED: Final[Mapping[str, str]] = MappingProxyType({})

METADATA_CLASH: Final = "MetadataClash"
"""The driver mounts a metadata file of its own where the pod has a volume of ours: the container can't be made."""
NO_METADATA_FILE: Final = "NoMetadataFile"
"""Path native, and the driver isn't known to write metadata files. Pending, as it may; an error once the launcher finds
none, or the guest hasn't started a grace period after its pod was ready: the file is there before the container."""
GUEST_NOT_STARTED: Final = "GuestNotStarted"
"""KubeVirt can't start the guest with the pod, as its condition Synchronized says. Pending for the grace period of
K-5.9, as the address of path metadata-shim comes a minute late; then an error."""
REQUEST_NOT_USED: Final = "RequestNotUsed"
"""The container compute doesn't use the device's request, so it gets no device of it (K-4.5)."""
NO_INTEGRATION_PATH: Final = "NoIntegrationPath"
"""Nothing brings the device's address to this KubeVirt: path none."""
NOT_IN_RECORD: Final = "NotInIntegrationRecord"
"""virt-dra's record on the pod can't be read, or has nothing of this request: nothing is filled in for it."""

REASONS: Final = (
    REQUEST_NOT_USED, NOT_IN_RECORD, NO_INTEGRATION_PATH, METADATA_CLASH, NO_METADATA_FILE, GUEST_NOT_STARTED
)  # fmt: skip
"""In the order in which they are checked; what keeps a pod from being filled in (``metadata_shim``) is before the
last."""

NOT_FILLED_IN: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({
    **dict.fromkeys(("MixedAddresses", "SharedVariable", "NotTheVmisDevice"), (DEVICE_PLUGIN,)),
    "AnnotationsTooLarge": (DEVICE_PLUGIN, METADATA_SHIM),
})  # fmt: skip
"""Reasons for which nothing is written for any device of these paths: variables are written together or not at all."""


def with_obstacles(
    resolution: DeviceResolution,
    vmi: VirtualMachineInstance,
    pod: Pod | None,
    record: Integration | None,
    writers: frozenset[str],
    *,
    running: bool,
    unfilled: Mapping[str, str] = NOTHING_UNFILLED,
    options: ResolutionOptions = DEFAULTS,
) -> DeviceResolution:
    """The resolution, with an obstacle for each resolved device whose address can't reach the VM. ``record``: what the
    pod webhook did to the pod, None where it left it alone. ``writers``: drivers that write metadata files.
    ``running``: the guest runs with this pod, so nothing is in the way. ``unfilled``: why the pod can't be filled in,
    by :data:`NOT_FILLED_IN`."""
    if pod is None or running:
        return resolution
    resolved = [outcome for outcome in resolution.outcomes if isinstance(outcome, ResolvedDevice)]
    candidates = [
        _obstacle(outcome, vmi, pod, record, writers, options)
        or _unfilled(outcome, record, unfilled)
        or _not_started(outcome, vmi, record, options)
        for outcome in resolved
    ]
    obstacles = tuple(candidate for candidate in candidates if candidate is not None)
    return replace(resolution, obstacles=obstacles) if obstacles else resolution


def _obstacle(
    outcome: ResolvedDevice, vmi: VirtualMachineInstance, pod: Pod, record: Integration | None, writers: frozenset[str],
    options: ResolutionOptions,
) -> UnresolvedDevice | None:  # fmt: skip
    subject = outcome.subject
    pair = ClaimRequestPair(subject.claim_name, subject.request_name)

    if _is_left_out(pod, pair):
        return outcome.withheld(
            REQUEST_NOT_USED,
            f"container {COMPUTE} of pod {pod.name} doesn't use request {pair.request} of claim {pair.claim}, so it "
            "gets no device of it: KubeVirt before 1.8.3 uses one request of a claim only, and none of a kind of "
            "devices whose feature gate is off. Give the device a claim of its own, or turn the gate on, and restart "
            "the VM",
        )
    if record is None:
        return None
    recorded = next((candidate for candidate in record.pairs if candidate.pair == pair), None)
    if recorded is None:
        return outcome.withheld(
            NOT_IN_RECORD,
            f"virt-dra's record on pod {pod.name} can't be read or has nothing of request {pair.request} of claim "
            f"{pair.claim}, so its address is not handed on. Restart the VM",
        )
    if recorded.path == NONE and not _served_by_kubevirt(vmi, subject.kind, subject.name):
        return outcome.withheld(NO_INTEGRATION_PATH, f"{_no_path(recorded)}, and restart the VM")
    # No driver mounts anything at the directory of the older layout (K-7.11).
    shimmed = recorded.path == METADATA_SHIM and recorded.layout == "KEP-5304"
    if shimmed and outcome.result.driver in writers:
        return outcome.withheld(
            METADATA_CLASH,
            f"driver {outcome.result.driver} mounts a metadata file of its own where the pod has virt-dra's volume, so "
            f"its container can't be made: {_why_shimmed(recorded)}",
        )
    failure = start_failure(vmi)
    if failure is not None and not lacks_metadata(failure):
        return None  # KubeVirt says what is in the way
    doubtful = recorded.path == NATIVE and recorded.reason in (ASKED_FOR, DRIVERS_DIFFER)
    if doubtful and outcome.result.driver not in writers:
        why = NOT_KNOWN_TO_WRITE.format(outcome.result.driver)
        advice = CHOOSE_OTHERWISE if recorded.reason == ASKED_FOR else "use a DeviceClass that selects one driver"
        message = f"path {NATIVE} needs a metadata file, and {why}: {advice}. Then restart the VM"
        missing = failure is not None or _is_over(_ready_overdue_at(pod, options), options)
        return outcome.withheld(NO_METADATA_FILE, message, "error" if missing else "pending")
    return None


def _not_started(
    outcome: ResolvedDevice, vmi: VirtualMachineInstance, record: Integration | None, options: ResolutionOptions
) -> UnresolvedDevice | None:
    """The obstacle of a guest that doesn't start; none for a while where the pod lacks virt-dra's own metadata: the
    kubelet brings them a moment after the pod's start, and KubeVirt tries again (K-5.34)."""
    failure = start_failure(vmi)
    if failure is None:
        return None
    overdue = _failure_overdue_at(vmi, options)
    state: OutcomeState = "pending" if overdue and options.now and options.now < overdue else "error"
    shimmed = record is not None and any(recorded.path == METADATA_SHIM for recorded in record.pairs)
    if state == "pending" and shimmed and lacks_metadata(failure):
        return None
    said = f"({failure.reason or 'no reason'}): {shortened(failure.message or '', _MESSAGE)}"
    text = f"KubeVirt can't start the guest with the device {said}. It retries; see the VMI's events"
    return outcome.withheld(GUEST_NOT_STARTED, text, state)


def start_overdue_times(vmi: VirtualMachineInstance, pod: Pod, options: ResolutionOptions) -> tuple[datetime, ...]:
    """The times at which what keeps a guest from starting becomes an error, as far as known; none for one that runs."""
    if vmi.status.phase == "Running":
        return ()
    times = (_failure_overdue_at(vmi, options), _ready_overdue_at(pod, options))
    return tuple(time for time in times if time is not None)


def _failure_overdue_at(vmi: VirtualMachineInstance, options: ResolutionOptions) -> datetime | None:
    """The time at which a failed start becomes an error; None if KubeVirt says none, or not since when."""
    failure = start_failure(vmi)
    return moment_after(failure.last_transition_time, options.grace, options.count_from) if failure else None


def _ready_overdue_at(pod: Pod, options: ResolutionOptions) -> datetime | None:
    """The time at which a guest that hasn't started becomes an error; None for a pod that isn't ready."""
    ready = pod.condition("Ready")
    if ready is None or ready.status != "True":
        return None
    return moment_after(ready.last_transition_time, options.grace, options.count_from)


def _is_over(due: datetime | None, options: ResolutionOptions) -> bool:
    return due is not None and options.now is not None and due <= options.now


def _unfilled(
    outcome: ResolvedDevice, record: Integration | None, unfilled: Mapping[str, str]
) -> UnresolvedDevice | None:
    subject = outcome.subject
    path = record.path_of(ClaimRequestPair(subject.claim_name, subject.request_name)) if record is not None else NATIVE
    for reason, message in unfilled.items():
        if path in NOT_FILLED_IN.get(reason, ()):
            text = f"the device's address is not handed to the pod: {message}. Then restart the VM"
            return outcome.withheld(reason, text)
    return None


def _is_left_out(pod: Pod, pair: ClaimRequestPair) -> bool:
    """True if the container compute doesn't use the request; False for a hand-made pod without that container."""
    if all(container.name != COMPUTE for container in pod.spec.containers):
        return False
    used = used_pairs(pod)
    return pair not in used and ClaimRequestPair(pair.claim, "") not in used


def _served_by_kubevirt(vmi: VirtualMachineInstance, kind: str, name: str) -> bool:
    """KubeVirt 1.6 and 1.7 resolve some drivers' devices themselves, into the VMI's status (K-5.16)."""
    return (kind, name) in entries_in(vmi.status.device_status)


_NO_PATH: Final[Mapping[str, str]] = MappingProxyType({
    NO_METADATA_READ: "this KubeVirt reads no metadata files, so the device's address does not reach it: use KubeVirt "
    f"1.8.0 or newer, or give the device a deviceName and the VM the annotation {DEVICE_CLAIMS_ANNOTATION}",
    NATIVE_NOT_READ: f"path {NATIVE} was asked for, and this KubeVirt looks for metadata files where no driver writes "
    f"them: use KubeVirt 1.8.3 or newer, or {CHOOSE_SHIM}",
    NO_DEVICE_CLAIMS: f"path device-plugin was asked for and no annotation {DEVICE_CLAIMS_ANNOTATION} says which claim "
    "it is: add that",
})  # fmt: skip


def _no_path(recorded: RecordedPair) -> str:
    reason = recorded.reason or "no reason given"
    other = f"nothing brings the device's address to KubeVirt ({reason}): name the claim and one request of it"
    return _NO_PATH.get(reason, other)


def _why_shimmed(recorded: RecordedPair) -> str:
    if recorded.reason == ASKED_FOR:
        asked = f"annotation {PATH_ANNOTATION} asked for path {METADATA_SHIM}"
        return f"{asked}. Remove it or set it to {NATIVE}, and restart the VM"
    if recorded.reason == DRIVER_UNKNOWN:
        return "no device that matches the request was known when the pod was made. Restart the VM"
    return (
        "the devices that matched the request when the pod was made were of "
        "drivers that write no such file. Restart the VM"
    )
