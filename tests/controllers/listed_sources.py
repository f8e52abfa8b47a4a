"""The sources of a reconcile over lists that are read once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Self

from virt_dra.api.core_v1 import Namespace, Pod
from virt_dra.api.integration.known_drivers import metadata_writers
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.expansion import PROFILE_LABEL
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.cluster.port import Reader
from virt_dra.controllers.kubevirt_failures import awaits_retry
from virt_dra.controllers.sources import addresses_of, instance_keys, instance_uids, leftovers, status_addresses
from virt_dra.model.published import PublishedDevices, PublishedPool


class ListedSources:
    """Implements :class:`Sources` and :class:`InstanceSources` over lists: for tests, the embedded cluster, and a
    single pass."""

    def __init__(
        self,
        vmis: Iterable[VirtualMachineInstance] = (),
        pods: Iterable[Pod] = (),
        claims: Iterable[ResourceClaim] = (),
        slices: Iterable[ResourceSlice] = (),
        rules: Iterable[DeviceTaintRule] = (),
        devices: Iterable[VirtualMachineInstanceDevices] = (),
        classes: Iterable[DeviceClass] = (),
        vms: Iterable[VirtualMachine] = (),
        profiles: Iterable[DeviceProfile] = (),
        namespaces: Iterable[Namespace] = (),
        templates: Iterable[ResourceClaimTemplate] = (),
    ) -> None:
        self._profiles = {profile.name: profile for profile in profiles}
        self._namespace_labels = {namespace.name: namespace.metadata.labels for namespace in namespaces}
        self._templates = {template.key: template for template in templates}
        self._vms = {vm.key: vm for vm in vms}
        self._vmis = {vmi.key: vmi for vmi in vmis}
        self._claims = {claim.key: claim for claim in claims}
        self._pools = PublishedDevices.from_slices(slices)
        self._rules = tuple(sorted(rules, key=lambda rule: rule.name))
        self._writers = metadata_writers(classes)
        self._devices = {device.key: device for device in devices}
        self._pods: dict[str, list[Pod]] = defaultdict(list)
        self._all_pods = tuple(pods)
        for pod in self._all_pods:
            for uid in instance_uids(pod):
                self._pods[uid].append(pod)

    @classmethod
    async def read(cls, reader: Reader, namespace: str = "") -> Self:
        """Everything of one namespace, or of all."""
        return cls(
            (await reader.list(VirtualMachineInstance, namespace)).items,
            (await reader.list(Pod, namespace)).items,
            (await reader.list(ResourceClaim, namespace)).items,
            (await reader.list(ResourceSlice)).items,
            (await reader.list(DeviceTaintRule)).items,
            (await reader.list(VirtualMachineInstanceDevices, namespace)).items,
            (await reader.list(DeviceClass)).items,
            (await reader.list(VirtualMachine, namespace)).items,
            (await reader.list(DeviceProfile)).items,
            (await reader.list(Namespace)).items,
            (await reader.list(ResourceClaimTemplate, namespace, labels=PROFILE_LABEL)).items,
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """Of all VMIs, sorted."""
        return tuple(sorted(self._vmis))

    def vm(self, key: str) -> VirtualMachine | None:
        return self._vms.get(key)

    def vmi(self, key: str) -> VirtualMachineInstance | None:
        return self._vmis.get(key)

    def pods_of(self, vmi: VirtualMachineInstance) -> tuple[Pod, ...]:
        return tuple(pod for pod in self._pods.get(vmi.metadata.uid, ()) if pod.namespace == vmi.namespace)

    def claim(self, key: str) -> ResourceClaim | None:
        return self._claims.get(key)

    def profiles(self) -> Mapping[str, DeviceProfile]:
        return self._profiles

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        return self._namespace_labels.get(name, {})

    def template(self, key: str) -> ResourceClaimTemplate | None:
        return self._templates.get(key)

    def pool(self, driver: str, name: str) -> PublishedPool | None:
        return self._pools.pool(driver, name)

    def taint_rules(self) -> tuple[DeviceTaintRule, ...]:
        return self._rules

    def writers(self) -> frozenset[str]:
        return self._writers

    def devices(self, key: str) -> VirtualMachineInstanceDevices | None:
        return self._devices.get(key)

    def holders(self, address: str) -> tuple[VirtualMachineInstanceDevices, ...]:
        return tuple(device for device in self._devices.values() if address in addresses_of(device))

    def instances_at(self, address: str) -> tuple[VirtualMachineInstance, ...]:
        return tuple(vmi for vmi in self._vmis.values() if address in status_addresses(vmi))

    def awaiting_retry(self, namespace: str) -> int:
        return sum(awaits_retry(vmi) for vmi in self._vmis.values() if vmi.namespace == namespace)

    def leftovers(self, key: str, uid: str) -> tuple[str, ...]:
        return leftovers((pod for pod in self._all_pods if key in instance_keys(pod)), uid)
