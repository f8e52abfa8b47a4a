"""The sources of a reconcile, implemented over informers' stores (``operator.affected_vmis``) and by tests over
lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.controllers.pods.current_pod import CREATED_BY_LABEL, owner_uids
from virt_dra.model.published import PublishedPool


class ProfileSources(Protocol):
    """The sources that a VM's line of device profiles is read with."""

    def profiles(self) -> Mapping[str, DeviceProfile]:
        """All profiles, by name."""

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; empty for one that isn't in the informer yet: no profile that selects labels is
        for it."""


class Sources(ProfileSources, Protocol):
    """The objects that a reconcile of a VMI reads. Keys are ``namespace/name``; nothing blocks."""

    def vmi(self, key: str) -> VirtualMachineInstance | None: ...

    def vm(self, key: str) -> VirtualMachine | None: ...

    def pods_of(self, vmi: VirtualMachineInstance) -> tuple[Pod, ...]:
        """The pods that name the VMI's UID as their owner or creator, finished ones too."""

    def claim(self, key: str) -> ResourceClaim | None: ...

    def template(self, key: str) -> ResourceClaimTemplate | None:
        """A template that was made of a profile."""

    def pool(self, driver: str, name: str) -> PublishedPool | None: ...

    def taint_rules(self) -> tuple[DeviceTaintRule, ...]: ...

    def writers(self) -> frozenset[str]:
        """The drivers that write metadata files."""

    def devices(self, key: str) -> VirtualMachineInstanceDevices | None: ...

    def holders(self, address: str) -> tuple[VirtualMachineInstanceDevices, ...]:
        """The objects that publish an address of :func:`addresses_of`."""

    def instances_at(self, address: str) -> tuple[VirtualMachineInstance, ...]:
        """The VMIs whose own status has an address of :func:`status_addresses`."""

    def awaiting_retry(self, namespace: str) -> int:
        """The number of VMIs of a namespace that await a retry (``kubevirt_failures.awaits_retry``)."""


class InstanceSources(ProfileSources, Protocol):
    """The objects that a reconcile of a VM reads."""

    def vmi(self, key: str) -> VirtualMachineInstance | None: ...

    def leftovers(self, key: str, uid: str) -> tuple[str, ...]:
        """The names of unfinished pods of a VMI of that name (``namespace/name``) with another UID."""


def ends(vmi: VirtualMachineInstance) -> bool:
    """True if the VMI terminates or has finished, so that another VMI may get its devices."""
    return vmi.metadata.deletion_timestamp is not None or vmi.finished


def leftovers(pods: Iterable[Pod], uid: str) -> tuple[str, ...]:
    """The names of pods, of VMIs of one name, that haven't finished and are of another UID."""
    return tuple(sorted(pod.name for pod in pods if not pod.finished and uid not in owner_uids(pod)))


def instance_keys(pod: Pod) -> tuple[str, ...]:
    """``namespace/name`` of the VMI that the pod's controlling owner names, whatever its UID."""
    owner = pod.metadata.controller_owner
    return (f"{pod.namespace}/{owner.name}",) if owner is not None and owner.kind == VirtualMachineInstance.KIND else ()


def instance_uids(pod: Pod) -> tuple[str, ...]:
    """UIDs of the VMIs that a pod may be of."""
    created_by = pod.metadata.labels.get(CREATED_BY_LABEL, "")
    return tuple(dict.fromkeys(uid for uid in (*owner_uids(pod), created_by) if uid))


def claim_keys(vmi: VirtualMachineInstance, pod: Pod | None) -> tuple[str, ...]:
    """The keys of the claims that entries of the VMI or of its pod may lead to."""
    names = [entry.resource_claim_name for entry in vmi.spec.resource_claims if entry.resource_claim_name]
    keys = [f"{vmi.namespace}/{name}" for name in names]
    return tuple(dict.fromkeys((*keys, *(pod.claim_keys if pod is not None else ()))))


def devices_of(claim: ResourceClaim) -> frozenset[tuple[str, str, str]]:
    """Driver, pool and name of each device that is allocated to a claim."""
    return frozenset((result.driver, result.pool, result.device) for result in claim.results)


def pools_of(claim: ResourceClaim) -> tuple[tuple[str, str], ...]:
    """Driver and pool of each allocated device."""
    return tuple(dict.fromkeys((result.driver, result.pool) for result in claim.results))


def addresses_of(devices: VirtualMachineInstanceDevices) -> tuple[str, ...]:
    """The addresses that an object publishes, with the node, as addresses repeat between nodes."""
    node = devices.status.node_name
    if not node:
        return ()
    held = (device for device in devices.status.devices if device.pci_address or device.mdev_uuid)
    return tuple(dict.fromkeys(address_on(node, device.pci_address, device.mdev_uuid) for device in held))


def status_addresses(vmi: VirtualMachineInstance) -> tuple[str, ...]:
    """The addresses in a VMI's own status, with its node."""
    node, status = vmi.status.node_name, vmi.status.device_status
    identities = (entry.attributes for entry in (status.entries if status is not None and node else ()))
    held = (
        address_on(node or "", identity.pci_address, identity.mdev_uuid)
        for identity in identities
        if identity is not None and (identity.pci_address or identity.mdev_uuid)
    )
    return tuple(dict.fromkeys(held))


def address_on(node: str, pci: str | None, mdev: str | None) -> str:
    """The key of an address on a node (K-5.23): the mdev UUID, else the PCI address, in lower case."""
    return f"{node}: mdev {mdev.lower()}" if mdev else f"{node}: PCI {(pci or '').lower()}"
