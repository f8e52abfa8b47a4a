"""The map from watch events to the VMIs they affect, and the sources of a reconcile over the informers' stores. The
instance loop makes one store a kind with the indexes of this module, and calls ``affected`` with every change of a
store."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from virt_dra.api.core_v1 import Namespace, Pod
from virt_dra.api.integration.known_drivers import metadata_writers
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import ObjectT_co, TypedObject
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION, RefusedLineError, asked_profiles
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.resource_v1 import (
    Device,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.controllers.kubevirt_failures import awaits_retry
from virt_dra.controllers.loops.virtual_machines import strategy_of
from virt_dra.controllers.sources import (
    addresses_of,
    devices_of,
    ends,
    instance_keys,
    instance_uids,
    leftovers,
    pools_of,
    status_addresses,
)
from virt_dra.model.evicting.causes import device_of, rule_selects
from virt_dra.model.published import PublishedPool

UID = "uid"
"""Of VMIs: their UID."""
INSTANCE = "instance"
"""Of pods: the UIDs of VMIs that they may be of."""
INSTANCE_NAME = "instance-name"
"""Of pods: the key of the VMI that owns them by name."""
CLAIM = "claim"
"""Of pods: the keys of claims that they name."""
POOL = "pool"
"""Of slices: driver and pool; of claims: of each allocated device."""
DEVICE = "device"
"""Of claims: driver, pool and name of each allocated device."""
DRIVER = "driver"
"""Of claims: of each allocated device."""
RETRY = "retry"
"""Of VMIs for which KubeVirt failed for a reason that may be over: their namespace."""
PROFILE = "profile"
"""Of VMs and VMIs: the names of the profiles that they ask for."""
ASKING = "asking"
"""Of VMs and VMIs that ask for profiles: their namespace."""
ADDRESS = "address"
"""Of devices objects, and of VMIs' own status: each address with its node."""

Index = Callable[[Any], Iterable[Hashable]]


def _retried_in(vmi: VirtualMachineInstance) -> tuple[str, ...]:
    return (vmi.namespace,) if awaits_retry(vmi) else ()


def _annotations(obj: VirtualMachine | VirtualMachineInstance) -> Mapping[str, str]:
    """The annotations of a VMI, or of a VM's template."""
    return (obj.spec.template if isinstance(obj, VirtualMachine) else obj).metadata.annotations


def profiles_of(obj: VirtualMachine | VirtualMachineInstance) -> frozenset[str]:
    """The names of the profiles that a VM or VMI asks for; none where its line can't be read."""
    try:
        return frozenset(item.profile for item in asked_profiles(_annotations(obj)))
    except RefusedLineError:
        return frozenset()


def _asking_in(obj: VirtualMachine | VirtualMachineInstance) -> tuple[str, ...]:
    return (obj.namespace,) if DEVICES_ANNOTATION in _annotations(obj) else ()


_OF_LINES: Final[Mapping[str, Index]] = {PROFILE: profiles_of, ASKING: _asking_in}

INDEXES: Mapping[type[TypedObject], Mapping[str, Index]] = {
    VirtualMachine: _OF_LINES,
    VirtualMachineInstance: {
        **_OF_LINES,
        UID: lambda vmi: (vmi.metadata.uid,) if vmi.metadata.uid else (),
        ADDRESS: status_addresses,
        RETRY: _retried_in,
    },
    Pod: {INSTANCE: instance_uids, INSTANCE_NAME: instance_keys, CLAIM: lambda pod: pod.claim_keys},
    ResourceClaim: {
        POOL: pools_of,
        DEVICE: devices_of,
        DRIVER: lambda claim: {driver for driver, _ in pools_of(claim)},
    },
    ResourceSlice: {POOL: lambda slice_: (slice_.pool_key,)},
    DeviceTaintRule: {},
    DeviceClass: {},
    DeviceProfile: {},
    Namespace: {},
    ResourceClaimTemplate: {},
    VirtualMachineInstanceDevices: {ADDRESS: addresses_of},
}
"""The kinds to watch, and the indexes of their stores."""


class ReadStore(Protocol[ObjectT_co]):
    """The part of an informer's store that is needed here."""

    def get(self, name: str, namespace: str = "") -> ObjectT_co | None: ...

    def values(self) -> tuple[ObjectT_co, ...]: ...

    def by_index(self, index: str, value: Hashable) -> tuple[ObjectT_co, ...]: ...


class WatchedSources:
    """Implements ``sources.Sources`` and ``InstanceSources`` over stores, and maps changes to the VMIs they affect."""

    def __init__(
        self,
        vms: ReadStore[VirtualMachine],
        vmis: ReadStore[VirtualMachineInstance],
        pods: ReadStore[Pod],
        claims: ReadStore[ResourceClaim],
        slices: ReadStore[ResourceSlice],
        rules: ReadStore[DeviceTaintRule],
        classes: ReadStore[DeviceClass],
        devices: ReadStore[VirtualMachineInstanceDevices],
        profiles: ReadStore[DeviceProfile],
        namespaces: ReadStore[Namespace],
        templates: ReadStore[ResourceClaimTemplate],
    ) -> None:
        self._vms = vms
        self._vmis = vmis
        self._pods = pods
        self._claims = claims
        self._slices = slices
        self._rules = rules
        self._classes = classes
        self._devices = devices
        self._profiles = profiles
        self._namespaces = namespaces
        self._templates = templates
        self._profiles_by_name: Mapping[str, DeviceProfile] | None = None
        self._pools: dict[tuple[str, str], PublishedPool] = {}
        """Pools that were asked for, kept up to date with every change of a slice."""
        self._sorted_rules: tuple[DeviceTaintRule, ...] | None = None
        self._writers = metadata_writers()

    # --- Sources ---

    def vm(self, key: str) -> VirtualMachine | None:
        namespace, _, name = key.rpartition("/")
        return self._vms.get(name, namespace)

    def vmi(self, key: str) -> VirtualMachineInstance | None:
        namespace, _, name = key.rpartition("/")
        return self._vmis.get(name, namespace)

    def pods_of(self, vmi: VirtualMachineInstance) -> tuple[Pod, ...]:
        return tuple(pod for pod in self._pods.by_index(INSTANCE, vmi.metadata.uid) if pod.namespace == vmi.namespace)

    def claim(self, key: str) -> ResourceClaim | None:
        namespace, _, name = key.rpartition("/")
        return self._claims.get(name, namespace)

    def template(self, key: str) -> ResourceClaimTemplate | None:
        namespace, _, name = key.rpartition("/")
        return self._templates.get(name, namespace)

    def profiles(self) -> Mapping[str, DeviceProfile]:
        if self._profiles_by_name is None:
            by_name = {profile.name: profile for profile in self._profiles.values()}
            self._profiles_by_name = MappingProxyType(by_name)
        return self._profiles_by_name

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        namespace = self._namespaces.get(name)
        return namespace.metadata.labels if namespace is not None else {}

    def pool(self, driver: str, name: str) -> PublishedPool | None:
        tracked = self._pools.get((driver, name))
        if tracked is None:
            members = self._slices.by_index(POOL, (driver, name))
            if not members:
                return None
            tracked = self._pools[driver, name] = PublishedPool(members)
        return tracked

    def taint_rules(self) -> tuple[DeviceTaintRule, ...]:
        if self._sorted_rules is None:
            self._sorted_rules = tuple(sorted(self._rules.values(), key=lambda rule: rule.name))
        return self._sorted_rules

    def writers(self) -> frozenset[str]:
        return self._writers

    def devices(self, key: str) -> VirtualMachineInstanceDevices | None:
        namespace, _, name = key.rpartition("/")
        return self._devices.get(name, namespace)

    def holders(self, address: str) -> tuple[VirtualMachineInstanceDevices, ...]:
        return self._devices.by_index(ADDRESS, address)

    def instances_at(self, address: str) -> tuple[VirtualMachineInstance, ...]:
        return self._vmis.by_index(ADDRESS, address)

    def awaiting_retry(self, namespace: str) -> int:
        return len(self._vmis.by_index(RETRY, namespace))

    def leftovers(self, key: str, uid: str) -> tuple[str, ...]:
        return leftovers(self._pods.by_index(INSTANCE_NAME, key), uid)

    # --- changes ---

    def affected(self, old: TypedObject | None, new: TypedObject | None) -> frozenset[str]:
        """The keys (``namespace/name``) of the VMIs that a change of an object may affect. Must be called with every
        change, after the store has it: cached pools, rules and writers are updated here."""
        keys: set[str] = set()
        for obj in (old, new):
            if isinstance(obj, VirtualMachineInstance):
                keys.add(obj.key)
            elif isinstance(obj, Pod):
                keys |= self._of_pod(obj)
            elif isinstance(obj, VirtualMachineInstanceDevices):
                keys.add(obj.key)
                keys |= self._sharing(obj)
            elif isinstance(obj, DeviceTaintRule):
                self._sorted_rules = None
                keys |= self._of_rule(obj)
            elif isinstance(obj, ResourceClaimTemplate):
                keys |= _of_template(obj)
        if isinstance(old or new, VirtualMachineInstance):
            keys |= self._sharing_published(old, new) | self._sharing_status(old, new)
        elif isinstance(old or new, ResourceClaim):
            keys |= self._of_claim(old, new)
        elif isinstance(old or new, ResourceSlice):
            keys |= self._of_slice(old, new)
        elif isinstance(old or new, DeviceClass):
            keys |= self._of_writers()
        elif isinstance(old or new, VirtualMachine):
            keys |= _of_vm(old, new)
        elif isinstance(old or new, DeviceProfile):
            keys |= self._of_profile(old, new)
        elif isinstance(old or new, Namespace):
            keys |= self._of_namespace(old, new)
        return frozenset(keys)

    def _of_pod(self, pod: Pod) -> set[str]:
        return {
            vmi.key
            for uid in instance_uids(pod)
            for vmi in self._vmis.by_index(UID, uid)
            if vmi.namespace == pod.namespace
        }

    def _of_claim(self, old: TypedObject | None, new: TypedObject | None) -> set[str]:
        if isinstance(old, ResourceClaim) and isinstance(new, ResourceClaim) and _unread_changes_only(old, new):
            return set()
        keys = {obj.key for obj in (old, new) if obj is not None}
        return self._using(keys)

    def _using(self, claims: Iterable[str]) -> set[str]:
        return {key for claim in claims for pod in self._pods.by_index(CLAIM, claim) for key in self._of_pod(pod)}

    def _of_slice(self, old: TypedObject | None, new: TypedObject | None) -> set[str]:
        """VMIs whose claims have devices of the pool; those with a changed device if generation and completeness
        stay."""
        before, after = (obj if isinstance(obj, ResourceSlice) else None for obj in (old, new))
        pools = {obj.pool_key for obj in (before, after) if obj is not None}
        tracked = {pool: self._pools[pool] for pool in pools if pool in self._pools}
        states = {pool: followed.state for pool, followed in tracked.items()}
        self._update_pools(before, after)
        claims: dict[str, ResourceClaim] = {}
        devices = _changed_devices(before, after)
        for pool in pools:
            followed = tracked.get(pool)
            # The state of a pool that wasn't asked for is unknown: it counts as unchanged if a slice was updated.
            same = followed.state == states[pool] if followed is not None else before is not None and after is not None
            affected: list[ResourceClaim] = []
            if same and devices is not None:
                for device in devices:
                    affected += self._claims.by_index(DEVICE, (*pool, device))
            else:
                affected += self._claims.by_index(POOL, pool)
            claims |= {claim.key: claim for claim in affected}
        return self._using(claims)

    def _update_pools(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        """Apply a change of a slice to the pools that were asked for."""
        for version, put in ((before, False), (after, True)):
            if version is None:
                continue
            pool = version.pool_key
            followed = self._pools.get(pool)
            if followed is None:
                continue
            if put:
                followed.put(version)
            else:
                followed.remove(version)
        for version in (before, after):
            pool = version.pool_key if version is not None else ("", "")
            if pool in self._pools and not self._pools[pool]:
                del self._pools[pool]

    def _of_writers(self) -> set[str]:
        """VMIs that have devices of drivers which write metadata files by one version of the classes only."""
        before, self._writers = self._writers, metadata_writers(self._classes.values())
        changed = before ^ self._writers
        return self._using({claim.key for driver in changed for claim in self._claims.by_index(DRIVER, driver)})

    def _of_rule(self, rule: DeviceTaintRule) -> set[str]:
        selector = rule.spec.device_selector
        if selector is None:
            return set()
        if selector.driver is not None and selector.pool is not None:
            claims: Iterable[ResourceClaim] = self._claims.by_index(POOL, (selector.driver, selector.pool))
        elif selector.driver is not None:
            claims = self._claims.by_index(DRIVER, selector.driver)
        else:
            claims = self._claims.values()
        allocated = (claim for claim in claims if _selected(rule, claim))
        return self._using({claim.key for claim in allocated})

    def _of_profile(self, old: TypedObject | None, new: TypedObject | None) -> set[str]:
        """VMs and VMIs that ask for the profile, unless only its status changed."""
        self._profiles_by_name = None
        before, after = (
            (obj.metadata.uid, obj.metadata.generation, obj.spec) if isinstance(obj, DeviceProfile) else None
            for obj in (old, new)
        )
        changed = old or new
        return set() if before == after or changed is None else self._asking(PROFILE, changed.name)

    def _of_namespace(self, old: TypedObject | None, new: TypedObject | None) -> set[str]:
        """VMs and VMIs of a namespace whose labels changed that ask for profiles."""
        before, after = (obj.metadata.labels if obj is not None else None for obj in (old, new))
        changed = old or new
        return set() if before == after or changed is None else self._asking(ASKING, changed.name)

    def users_of(self, profile: str) -> int:
        """The number of VMs, and of VMIs without one, that ask for a profile."""
        return len(self._asking(PROFILE, profile))

    def _asking(self, index: str, value: str) -> set[str]:
        objects = (*self._vms.by_index(index, value), *self._vmis.by_index(index, value))
        return {obj.key for obj in objects}

    def _sharing_published(self, old: TypedObject | None, new: TypedObject | None) -> set[str]:
        """VMIs with an address of a VMI that appears or terminates: it is shared only while both have it."""
        held, holds = (isinstance(obj, VirtualMachineInstance) and not ends(obj) for obj in (old, new))
        changed = (old or new) if held != holds else None
        devices = None if changed is None else self.devices(changed.key)
        return set() if devices is None else self._sharing(devices)

    def _sharing_status(self, old: TypedObject | None, new: TypedObject | None) -> set[str]:
        """VMIs that share an address which the VMI gained or lost, by a change of its status or by terminating."""
        both = [obj if isinstance(obj, VirtualMachineInstance) else None for obj in (old, new)]
        before, after = (
            frozenset(status_addresses(vmi)) if vmi is not None and not ends(vmi) else frozenset() for vmi in both
        )
        return {vmi.key for address in before ^ after for vmi in self._vmis.by_index(ADDRESS, address)}

    def _sharing(self, devices: VirtualMachineInstanceDevices) -> set[str]:
        return {other.key for address in addresses_of(devices) for other in self._devices.by_index(ADDRESS, address)}


def affected_by_vm(old: TypedObject | None, new: TypedObject | None) -> frozenset[str]:
    """The keys of the VMs that a change of a VM, of the VMI of its name, or of such a VMI's pod may affect."""
    keys: set[str] = set()
    for obj in (old, new):
        if isinstance(obj, VirtualMachine | VirtualMachineInstance):
            keys.add(obj.key)
        elif isinstance(obj, Pod):
            keys |= set(instance_keys(obj))
    return frozenset(keys)


def _of_template(template: ResourceClaimTemplate) -> set[str]:
    """The VMI of the name that a template was made for, of any UID: another may wait for the template's deletion."""
    owner = template.metadata.controller_owner
    return {f"{template.namespace}/{owner.name}"} if owner is not None else set()


def _of_vm(old: TypedObject | None, new: TypedObject | None) -> set[str]:
    """The VMI of a VM, if the change decides whether another VMI follows it, or what that asks for."""
    before, after = (
        (strategy_of(obj), _annotations(obj).get(DEVICES_ANNOTATION)) if isinstance(obj, VirtualMachine) else None
        for obj in (old, new)
    )
    return {obj.key for obj in (old, new) if obj is not None and before != after}


def _changed_devices(old: ResourceSlice | None, new: ResourceSlice | None) -> frozenset[str] | None:
    """The names of devices that differ between two versions of a slice (None: absent); None if anything else
    changed."""
    if old is not None and new is not None:
        ours, theirs = old.spec, new.spec
        if (ours.driver, ours.pool, ours.node_name) != (theirs.driver, theirs.pool, theirs.node_name):
            return None
    before, after = _devices_by_name(old), _devices_by_name(new)
    if before is None or after is None:
        return None
    return frozenset(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _devices_by_name(slice_: ResourceSlice | None) -> Mapping[str, Device] | None:
    """The devices of a slice; None if two have one name."""
    devices = slice_.spec.devices if slice_ is not None else ()
    by_name = {device.name: device for device in devices}
    return by_name if len(by_name) == len(devices) else None


def _selected(rule: DeviceTaintRule, claim: ResourceClaim) -> bool:
    return any(rule_selects(rule, device_of(result)) for result in claim.results)


def _unread_changes_only(old: ResourceClaim, new: ResourceClaim) -> bool:
    """True if the update touches only fields that no controller reads, such as finalizers and managed fields."""
    return (
        old.metadata.uid == new.metadata.uid
        and old.status == new.status
        and old.metadata.owner_references == new.metadata.owner_references
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
    )
