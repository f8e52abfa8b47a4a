"""The current launcher pod of a VMI, and its migration's target (K-5.1, K-10.5)."""

from __future__ import annotations

from collections.abc import Iterable

from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance

CREATED_BY_LABEL = "kubevirt.io/created-by"
"""On a launcher pod: the UID of its VMI (K-4.2)."""
MIGRATION_LABEL = "kubevirt.io/migrationJobUID"
"""On a migration's target pod; it stays there when the pod becomes the current one."""
EPHEMERAL_ANNOTATION = "kubevirt.io/ephemeral-provisioning"
"""On pods that only provision storage and never run the VM."""


def launcher_pods_of(vmi: VirtualMachineInstance, pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """The pods that a VMI with a UID owns, finished ones and migration targets too."""
    uid = vmi.metadata.uid
    return tuple(pod for pod in pods if uid and pod.namespace == vmi.namespace and uid in owner_uids(pod))


def current_pod(vmi: VirtualMachineInstance, pods: Iterable[Pod], *, migration_target: bool = False) -> Pod | None:
    """The current pod among a VMI's pods (:func:`not_current`); of several the one on the VMI's node, then the
    newest."""
    candidates = [pod for pod in pods if not not_current(vmi, pod, migration_target=migration_target)]
    return max(candidates, key=lambda pod: _preference(vmi, pod, migration_target), default=None)


def migration_target(vmi: VirtualMachineInstance, pods: Iterable[Pod]) -> Pod | None:
    """The newest of a VMI's pods that it may migrate to: neither current, nor finished, nor being deleted (K-10.5)."""
    targets = [
        pod
        for pod in pods
        if MIGRATION_LABEL in pod.metadata.labels
        and pod.metadata.deletion_timestamp is None
        and not not_current(vmi, pod, migration_target=True)
        and not_current(vmi, pod)
    ]
    return max(
        targets, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.name, pod.metadata.uid), default=None
    )


def _preference(vmi: VirtualMachineInstance, pod: Pod, migration_target: bool) -> tuple[bool, bool, str, str, str]:
    on_node = bool(vmi.status.node_name) and pod.spec.node_name == vmi.status.node_name
    asked_for = migration_target and MIGRATION_LABEL in pod.metadata.labels and not on_node
    return asked_for, on_node, pod.metadata.creation_timestamp or "", pod.name, pod.metadata.uid


def not_current(vmi: VirtualMachineInstance, pod: Pod, *, migration_target: bool = False) -> str:
    """Why a pod is not the VMI's current launcher pod, or "". Only what objects say counts, not a missing label."""
    uid = vmi.metadata.uid
    if vmi.namespace and pod.namespace and vmi.namespace != pod.namespace:
        return f"it is in namespace {pod.namespace}, the VMI in {vmi.namespace}"
    owners = owner_uids(pod)
    if uid and owners and uid not in owners:
        return f"its owner has UID {owners[0]}, the VMI {uid}"
    created_by = pod.metadata.labels.get(CREATED_BY_LABEL)
    if uid and created_by is not None and created_by != uid:
        return f"its label {CREATED_BY_LABEL} is {created_by}, the VMI's UID {uid}"
    if pod.finished:
        return f"it has finished (phase {pod.status.phase})"
    if EPHEMERAL_ANNOTATION in pod.metadata.annotations:
        return f"it only provisions storage (annotation {EPHEMERAL_ANNOTATION})"
    # A migration that is over leaves the label on what is now the current pod; the VMI's node decides, as in KubeVirt.
    arrived = bool(vmi.status.node_name) and vmi.status.node_name == pod.spec.node_name
    if MIGRATION_LABEL in pod.metadata.labels and not arrived and not migration_target:
        return f"it is the target of a migration (label {MIGRATION_LABEL})"
    return ""


def owner_uids(pod: Pod) -> tuple[str, ...]:
    """The UID of the controlling owner; of hand-made owners, which may not say that they control, those of all."""
    owners = pod.metadata.owner_references
    controlling = tuple(owner.uid for owner in owners if owner.controller and owner.uid)
    return controlling or tuple(owner.uid for owner in owners if owner.controller is None and owner.uid)
