"""VMs as admitted: with the devices that their lines ask for, by profiles, instancetypes and namespaces. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from virt_dra.api.core_v1 import Namespace
from virt_dra.api.instancetypes.expansion import Instancetypes, expand
from virt_dra.api.keeping.claims import with_templates
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceSpec
from virt_dra.api.meta import TypedObject
from virt_dra.api.profiles.alignment import PreferredAlignment
from virt_dra.api.profiles.asking import AskedProfile, RefusedLineError, asked_profiles
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.expansion import (
    DEFAULT_POD_BINDING,
    POD_BINDINGS,
    ExpandedVm,
    VmAsking,
    expand_profiles,
    template_name,
)
from virt_dra.api.reading.namespaces import in_namespace
from virt_dra.api.resource_v1 import ResourceClaimTemplate
from virt_dra.api.validation.field_errors import FieldError


@dataclass(frozen=True)
class VmLine:
    """A VM or VMI that asks for profiles."""

    obj: VirtualMachine | VirtualMachineInstance
    asked: tuple[AskedProfile, ...]
    vm: VmAsking

    @property
    def spec(self) -> VirtualMachineInstanceSpec:
        return self.obj.spec.template.spec if isinstance(self.obj, VirtualMachine) else self.obj.spec

    def beside_it(self, template: ResourceClaimTemplate) -> ResourceClaimTemplate:
        """The template where the VM is: one without a namespace is created with the VM in whichever is chosen then."""
        return in_namespace(template, self.obj.namespace) if self.obj.namespace else template

    def with_spec(self, spec: VirtualMachineInstanceSpec) -> VirtualMachine | VirtualMachineInstance:
        """The object with another spec of its VMI."""
        if isinstance(self.obj, VirtualMachineInstance):
            return self.obj.with_(spec=spec)
        template = self.obj.spec.template.with_(spec=spec)
        return self.obj.with_(spec=self.obj.spec.with_(template=template))


@dataclass(frozen=True)
class AdmittedVm:
    """A VM or VMI with the devices of its line, and the templates that their claims are made from. ``preferences``:
    alignments that these don't have. ``refusals``: what is wrong with the line, for which the VMI isn't admitted; then
    ``vm`` is as it was written."""

    vm: VirtualMachine | VirtualMachineInstance
    templates: tuple[ResourceClaimTemplate, ...] = ()
    preferences: tuple[PreferredAlignment, ...] = ()
    refusals: tuple[FieldError, ...] = ()


@dataclass(frozen=True)
class LineSurroundings:
    """What the lines of VMs depend on. ``namespaces``: by name; profiles are for every namespace that isn't among them.
    ``namespace``: of VMs that name none. ``pod_binding``: by which KubeVirt binds a VM's pod network."""

    profiles: Mapping[str, DeviceProfile] = field(default_factory=dict)
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    instancetypes: Instancetypes = field(default_factory=Instancetypes)
    namespace: str = "default"
    pod_binding: str = DEFAULT_POD_BINDING

    def line_of(self, obj: TypedObject) -> VmLine | None:
        """The line of an object; None for one that doesn't ask for profiles, or whose line was written out before by
        profiles that aren't at hand. Raises :class:`RefusedLineError`."""
        if isinstance(obj, VirtualMachine):
            # KubeVirt copies an instancetype's annotations to the VMI, and takes it for its own.
            template = expand(obj, self.instancetypes, self.namespace).vm.spec.template
            annotations, above = template.metadata.annotations, "spec.template."
        elif isinstance(obj, VirtualMachineInstance):
            # What it keeps was made from templates, which are what the line stands for.
            obj, annotations, above = with_templates(obj), obj.metadata.annotations, ""
        else:
            return None
        asked = tuple(
            item
            for item in asked_profiles(annotations, f"{above}metadata.annotations")
            if item.profile in self.profiles or not _was_written_out(item, obj)
        )
        if not asked:
            return None
        namespace = obj.namespace or self.namespace
        home = self.namespaces.get(namespace)
        labels = None if home is None else home.metadata.labels
        return VmLine(obj, asked, VmAsking(obj.name, namespace, labels, above, self.pod_binding))

    def admitted(self, obj: VirtualMachine | VirtualMachineInstance) -> AdmittedVm:
        """The VM or VMI as its VMI is admitted. Raises nothing."""
        try:
            line = self.line_of(obj)
            if line is None:
                return AdmittedVm(obj)
            if isinstance(obj, VirtualMachine):
                typed = expand(obj, self.instancetypes, self.namespace).vm
                if _devices(typed) != _devices(obj):
                    # KubeVirt has applied it before a line is written out, and refuses a VM that lists devices itself.
                    line = replace(line, obj=typed)
            expanded = self.expanded(line)
        except RefusedLineError as error:
            return AdmittedVm(obj, refusals=error.errors)
        templates = tuple(in_namespace(template, line.vm.namespace) for template in expanded.templates)
        return AdmittedVm(line.with_spec(expanded.spec), templates, expanded.preferences)

    def expanded(self, line: VmLine) -> ExpandedVm:
        """The spec of the VM's VMI with the devices of its line. Raises :class:`RefusedLineError`."""
        return expand_profiles(line.spec, line.asked, self.profiles, line.vm)


def pod_binding_of(kubevirts: Iterable[KubeVirt]) -> str:
    """The binding of pod networks that a cluster's KubeVirt adds. ``kubevirts``: none where it isn't known."""
    settings = (kubevirt.spec.configuration.network.default_network_interface for kubevirt in kubevirts)
    return next((setting for setting in settings if setting in POD_BINDINGS), DEFAULT_POD_BINDING)


def was_admitted(obj: VirtualMachine | VirtualMachineInstance) -> bool:
    """True for a VMI of a cluster, which has the devices that it was created with."""
    return isinstance(obj, VirtualMachineInstance) and bool(obj.metadata.uid)


def _was_written_out(item: AskedProfile, obj: VirtualMachine | VirtualMachineInstance) -> bool:
    """True if the VM has the item's claim already."""
    spec = obj.spec.template.spec if isinstance(obj, VirtualMachine) else obj.spec
    claim = item.name or item.profile
    template = template_name(obj.name, claim)
    return any(entry.name == claim and entry.resource_claim_template_name == template for entry in spec.resource_claims)


def _devices(vm: VirtualMachine) -> tuple[object, ...]:
    devices = vm.spec.template.spec.domain.devices
    return devices.gpus, devices.host_devices
