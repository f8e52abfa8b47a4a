"""Rules beside devices that are judged before anything is created: how a VM runs, and which volumes its disks show
(K-2.45, K-2.46).

Our webhook leaves them to KubeVirt, which checks them beside it. The lint, and whoever asks it, says them beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineSpec
from webhooks.rules.reviewed_spec import ReviewedSpec, VmObject
from webhooks.verdict import INVALID, AdmissionCause

RUN_STRATEGIES: Final = ("Halted", "Manual", "Always", "RerunOnFailure", "Once", "WaitAsReceiver")
"""WaitAsReceiver needs a feature gate, which isn't judged."""
NOT_JUDGED: Final = (
    "memory, hugepages, CPU (requests, limits, pinning, NUMA, realtime, features) and machine type",
    "firmware, ACPI, launch security, TPM, watchdog, input, sound, video and panic devices",
    "host name and subdomain, DNS policy and configuration, start strategy, architectures that KubeVirt doesn't know",
    "boot orders, kinds of disks, I/O threads, empty CD-ROM drives, volumes without a disk and sources of volumes",
    "container disks, file systems, DataVolume templates, access credentials, persistent reservations",
    "probes, affinity and topology spread constraints, live migration and live update",
    "feature gates of what isn't a device, among them that of the run strategy WaitAsReceiver",
)
"""KubeVirt's rules that no check of ours knows (K-2.44); docs/lint/kubevirt-refuses.md has them, too."""


def left_to_kubevirt(subject: VmObject, reviewed: ReviewedSpec) -> Iterator[AdmissionCause]:
    """The causes that our webhook doesn't look for, in KubeVirt's order. ``reviewed``: the subject's spec."""
    yield from volumes_of_disks(reviewed)
    if isinstance(subject, VirtualMachine) and subject.spec.given("template"):
        yield from run_strategy(subject.spec)


def run_strategy(spec: VirtualMachineSpec) -> Iterator[AdmissionCause]:
    """Exactly one of ``running`` and a known ``runStrategy`` (K-2.45)."""
    strategy = spec.run_strategy
    if spec.running is not None and strategy is not None:
        advice = "Note that Running is deprecated, please use RunStrategy instead"
        yield AdmissionCause(INVALID, f"Running and RunStrategy are mutually exclusive. {advice}", "spec.running")
    if spec.running is None and strategy is None:
        yield AdmissionCause(INVALID, "RunStrategy must be specified", "spec.running")
    if strategy is not None and strategy not in RUN_STRATEGIES:
        yield AdmissionCause(INVALID, f"Invalid RunStrategy ({strategy})", "spec.runStrategy")


def volumes_of_disks(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """A disk shows the volume of its name (K-2.46). Of an empty CD-ROM drive a feature gate decides, which isn't
    judged; the schema refuses a disk without a name."""
    volumes = {volume.get("name") for volume in subject.spec.volumes}
    for index, disk in enumerate(subject.spec.domain.devices.disks):
        if disk.name and disk.name not in volumes and (disk.model_extra or {}).get("cdrom") is None:
            path = f"domain.devices.disks[{index}]"
            yield subject.cause(INVALID, f"{path}.name", f"{subject.path(path)}.Name '{disk.name}' not found.")
