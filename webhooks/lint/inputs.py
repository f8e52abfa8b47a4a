"""The inputs of the lint: the objects that VMs name, and how the cluster's KubeVirt is configured. Immutable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from virt_dra.api.core_v1 import Namespace
from virt_dra.api.instancetypes import names as instancetypes
from virt_dra.api.instancetypes.expansion import Instancetypes
from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.integration.known_drivers import metadata_writers, silent_drivers
from virt_dra.api.kubevirt_v1 import KubeVirt, PermittedHostDevices, VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import AMD64, NEWEST, Gates, KubeVirtVersion, ObservedVersion
from virt_dra.api.meta import TypedObject, UnknownObject, of_kind
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.lines import LineSurroundings, pod_binding_of
from virt_dra.api.resource_v1 import (
    ADMIN_ACCESS_LABEL,
    DeviceClass,
    DeviceTaint,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from virt_dra.api.tolerations import taints_of_rules
from virt_dra.matching.published_slice import SliceDevice
from virt_dra.model.cluster import ClusterModel, DerivedValue, ModelIndex
from virt_dra.model.unknown import UnknownFact
from webhooks.lint.inventory import DeviceInventory
from webhooks.lint.manifest import Identity
from webhooks.rules.reviewed_spec import VmObject

NamespacedName = tuple[str, str]
"""Namespace and name."""

TEMPLATES: Final = ResourceClaimTemplate.KIND
CLAIMS: Final = ResourceClaim.KIND
CLASSES: Final = DeviceClass.KIND
SLICES: Final = ResourceSlice.KIND
KINDS: Final = (TEMPLATES, CLAIMS, CLASSES, SLICES)

EVERYTHING: Final = frozenset((*KINDS, *instancetypes.KINDS, instancetypes.REVISION))
"""The value of :attr:`LintInputs.known_kinds` for a whole cluster."""

DEFAULT_NAMESPACE: Final = "default"


@dataclass(frozen=True)
class KubeVirtAtHand:
    """The KubeVirt at hand: its version with the enabled gates, and permittedHostDevices, None if it isn't set (K-4.8).

    ``observed``: the version in the KubeVirt object's status; None without such an object, or if a version is given
    instead. ``own_crds``: that there is no KubeVirt, and VMs are of virt-dra's own CRDs.
    """

    gates: Gates = field(default_factory=lambda: Gates.for_version(NEWEST))
    permitted: PermittedHostDevices | None = None
    observed: ObservedVersion | None = None
    own_crds: bool = False

    @property
    def version(self) -> KubeVirtVersion:
        return self.gates.version

    @property
    def release(self) -> KubeVirtVersion | None:
        """The release whose API server stores the VMs; None for virt-dra's own CRDs."""
        return None if self.own_crds else self.version

    def __str__(self) -> str:
        """What VMs are checked against."""
        kubevirt = f"KubeVirt {self.version}"
        return f"virt-dra's own CRDs, by the rules of {kubevirt}" if self.own_crds else kubevirt

    @classmethod
    def configured(
        cls,
        kubevirt: KubeVirt | None,
        version: KubeVirtVersion | None = None,
        choices: Mapping[str, bool] | None = None,
        beside_kubevirt: bool = True,
    ) -> KubeVirtAtHand:
        """The configuration of a KubeVirt object (K-1.11, K-1.12), unless a version or gates are given; by default the
        newest release (K-1.11a), also of an object that names none. ``beside_kubevirt``: that there is a KubeVirt
        although neither an object nor a version is given, as for files; False for a cluster that has none (K-1.9)."""
        configuration, observed = (kubevirt or KubeVirt.empty()).spec.configuration, None
        if kubevirt and version is None:
            observed = ObservedVersion.parse(kubevirt.status.observed_kube_virt_version)
        release = version or (observed.version if observed else NEWEST)
        gates = Gates.configured(release, configuration.developer_configuration, choices)
        if kubevirt is not None:
            gates = replace(gates, architecture=_control_plane_architecture(kubevirt))
        own_crds = not beside_kubevirt and kubevirt is None and version is None
        return cls(gates, configuration.permitted_host_devices, observed, own_crds)


def _control_plane_architecture(kubevirt: KubeVirt) -> str | None:
    """The architecture of virt-operator's binary, and so of virt-api's, which it writes into the status; None where the
    configuration names a default, which the status repeats (K-2.47)."""
    chosen = kubevirt.spec.configuration.architecture_configuration
    if chosen is not None and chosen.default_architecture:
        return None
    return kubevirt.status.default_architecture or AMD64


class Trial(Protocol):
    """Tries to start a VM on a cluster without pods. Each method returns why it would fail, None if it wouldn't."""

    def pod(self, subject: VmObject, namespace: str) -> str | None:
        """Why the VM gets no launcher pod."""

    def placement(self, subject: VmObject, namespace: str) -> str | None:
        """Why no node could take the VM's pod and serve its claims."""

    def unchecked(self, subject: VmObject, namespace: str) -> str | None:
        """The limit of virt-dra that ended the latest :meth:`placement` without a result; None without one."""

    def unknown(self) -> tuple[UnknownFact, ...]:
        """What the answers of :meth:`placement` so far couldn't take into account."""

    def domain(self, subject: VmObject, namespace: str) -> tuple[str, str] | None:
        """Why the VM gets no libvirt domain: the field of the VMI, and the reason. Unknown devices are left out."""


@dataclass(frozen=True, eq=False)
class LintInputs:
    """The objects of a cluster, in a model that a server changes and shares, so that making the inputs for each review
    costs nothing.

    ``known_kinds``: kinds of which all objects are given. A missing object of another kind is no finding. ``refused``:
    objects of the input that an API server would refuse, by kind, namespace and name, with the reason; they count as
    missing. ``trial``: runs scheduler, allocator and launcher; None at admission. ``has_keeper``: False for a cluster
    that certainly has none.
    """

    model: ClusterModel = field(default_factory=ClusterModel)
    configuration: KubeVirtAtHand = field(default_factory=KubeVirtAtHand)
    inventory: DeviceInventory = field(default_factory=DeviceInventory)
    known_kinds: frozenset[str] = frozenset(KINDS)
    refused: Mapping[Identity, str] = field(default_factory=dict)
    trial: Trial | None = None
    instancetypes: Instancetypes = field(default_factory=Instancetypes)
    has_keeper: bool = True

    @classmethod
    def from_objects(
        cls,
        objects: Iterable[TypedObject],
        *,
        version: KubeVirtVersion | None = None,
        gates: Mapping[str, bool] | None = None,
        beside_kubevirt: bool = True,
        namespace: str = DEFAULT_NAMESPACE,
        known_kinds: Collection[str] | None = None,
        address_keys: Iterable[DriverKeys] = (),
        refused: Mapping[Identity, str] | None = None,
        has_keeper: bool = True,
    ) -> LintInputs:
        """The inputs from objects in any order. Of two with one name the later counts; objects without a namespace are
        in ``namespace``.

        ``known_kinds`` is inferred if it is None: all templates and claims are given, since they are written beside the
        VMs that name them. All slices are given if any is, and all classes if any class or slice is, refused ones
        included. All namespaced instancetypes and preferences are given if any is; cluster-wide ones are mostly
        KubeVirt's. ``address_keys``: of drivers, as configured (K-6.6).
        """
        objects = tuple(objects)
        if known_kinds is None:
            kinds = {obj.kind or obj.KIND for obj in objects} | {kind for kind, _, _ in refused or ()}
            known_kinds = {TEMPLATES, CLAIMS, *((CLASSES,) if kinds & {CLASSES, SLICES} else ()), *(kinds & {SLICES})}
            known_kinds |= kinds.intersection(instancetypes.NAMESPACED_KINDS)
        kubevirt = next((obj for obj in objects if isinstance(obj, KubeVirt)), None)
        return cls(
            ClusterModel(objects, namespace),
            KubeVirtAtHand.configured(kubevirt, version, gates, beside_kubevirt),
            DeviceInventory.from_slices(of_kind(objects, ResourceSlice), address_keys),
            frozenset(known_kinds),
            refused or {},
            instancetypes=Instancetypes.from_objects(objects, namespace),
            has_keeper=has_keeper,
        )

    @classmethod
    def from_model(
        cls,
        model: ClusterModel,
        known_kinds: Collection[str],
        configuration: KubeVirtAtHand,
        address_keys: Iterable[DriverKeys] = (),
    ) -> LintInputs:
        """The inputs of a cluster's model. Without ``address_keys`` its devices are read once, whoever asks."""
        keys = tuple(address_keys)
        slices = model.of(ResourceSlice)
        inventory = DeviceInventory.from_slices(slices, keys) if keys else _inventory(model)
        given = Instancetypes.from_objects(model.of(UnknownObject), DEFAULT_NAMESPACE)
        return cls(model, configuration, inventory, frozenset(known_kinds), instancetypes=given)

    def lines(self, namespace: str) -> LineSurroundings:
        """What the lines of VMs depend on. ``namespace``: of VMs that name none."""
        profiles, namespaces = self.model.by_key(DeviceProfile), self.model.by_key(Namespace)
        binding = pod_binding_of(self.model.of(KubeVirt))
        return LineSurroundings(profiles, namespaces, self.instancetypes, namespace, binding)

    def template(self, namespace: str, name: str) -> ResourceClaimTemplate | None:
        return self.model.by_key(ResourceClaimTemplate).get(f"{namespace}/{name}")

    def claim(self, namespace: str, name: str) -> ResourceClaim | None:
        return self.model.claims.get(f"{namespace}/{name}")

    def users(self, namespace: str, claim: str) -> tuple[str, ...]:
        """The VMs and VMIs that name a claim directly, as ``VirtualMachine "a"``; a VMI made by a VM isn't listed
        beside it."""
        vms, vmis = _vms_of_claim(self.model, (namespace, claim)), _vmis_of_claim(self.model, (namespace, claim))
        return (*map(title, vms), *map(title, vmis))

    @property
    def writers(self) -> frozenset[str]:
        """The drivers that write metadata files, as far as the DeviceClasses are known."""
        return _writers(self.model)

    @property
    def silent(self) -> frozenset[str]:
        """The drivers that certainly write no metadata files, as far as the DeviceClasses are known."""
        return _silent(self.model)

    def permits_admin_access(self, namespace: str) -> bool:
        """True if the namespace has the label that permits admin access (A-22.10)."""
        obj = self.model.by_key(Namespace).get(namespace)
        return obj is not None and obj.metadata.labels.get(ADMIN_ACCESS_LABEL) == "true"

    def is_stored(self, kind: str, namespace: str, name: str) -> bool:
        """True for a template or claim that was read from a cluster, whose API server accepted it."""
        obj = self.claim(namespace, name) if kind == CLAIMS else self.template(namespace, name)
        return obj is not None and bool(obj.metadata.uid)

    def taints(self, published: SliceDevice) -> tuple[DeviceTaint, ...]:
        """The taints of a device: from its slice, and from DeviceTaintRules (A-24)."""
        rules = self.model.of(DeviceTaintRule)
        added = taints_of_rules(rules, published.driver, published.pool, published.device.name) if rules else ()
        return (*published.device.taints, *added)


def direct_claims(subject: VmObject) -> tuple[NamespacedName, ...]:
    """The claims that a VM or VMI names directly, each once; none for a VMI that a VM made."""
    owner = subject.metadata.controller_owner
    if isinstance(subject, VirtualMachineInstance) and owner is not None and owner.kind == VirtualMachine.KIND:
        return ()
    spec = subject.spec.template.spec if isinstance(subject, VirtualMachine) else subject.spec
    named = (entry.resource_claim_name for entry in spec.resource_claims)
    return tuple(dict.fromkeys((subject.namespace, name) for name in named if name))


_inventory = DerivedValue(lambda model: DeviceInventory.from_slices(model.of(ResourceSlice)), (ResourceSlice,))
_writers = DerivedValue(lambda model: metadata_writers(model.of(DeviceClass)), (DeviceClass,))
_silent = DerivedValue(lambda model: silent_drivers(model.of(DeviceClass)), (DeviceClass,))
_vms_of_claim = ModelIndex(VirtualMachine, direct_claims)
_vmis_of_claim = ModelIndex(VirtualMachineInstance, direct_claims)


def title(subject: VmObject) -> str:
    """``VirtualMachine "a"``."""
    return f'{subject.KIND} "{subject.name or subject.metadata.generate_name}"'
