"""Manifests in which VMs ask for devices by profiles, and the same manifests with what that stands for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from virt_dra.api.core_v1 import Namespace
from virt_dra.api.instancetypes.expansion import Instancetypes, expand
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceSpec
from virt_dra.api.meta import TypedObject
from virt_dra.api.profiles.asking import AskedProfile, RefusedLineError, asked_profiles
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.expansion import VmAsking, expand_profiles
from virt_dra.api.reading.documents import DocumentSource, Sourced
from virt_dra.api.reading.namespaces import in_namespace
from virt_dra.api.resource_v1 import ResourceClaimTemplate
from virt_dra.api.validation import Rules, validate_create
from virt_dra.api.validation.field_errors import FieldError, invalid, required


@dataclass(frozen=True)
class RefusedManifest:
    """An object that can't be rendered, and why not."""

    source: DocumentSource
    title: str
    error: FieldError

    def __str__(self) -> str:
        return f"{self.source}: {self.title}: {self.error}"


@dataclass(frozen=True)
class RenderedManifests:
    """``objects``: in the order of the input, templates of claims before the VM that they are made for, without
    profiles. ``unchecked``: profiles whose namespaceSelector couldn't be judged, with the namespace, since no file has
    that. ``asking``: how many VMs have a line."""

    objects: tuple[TypedObject, ...] = ()
    refused: tuple[RefusedManifest, ...] = ()
    unchecked: tuple[tuple[str, str], ...] = ()
    asking: int = 0


def rendered(inputs: Sequence[Sourced[TypedObject]], namespace: str, rules: Rules) -> RenderedManifests:
    """The objects, VMs and VMIs with the devices of their profiles. ``namespace``: of objects that name none.
    ``rules``: of the cluster that the claims are for."""
    profiles = [(sourced, sourced.object) for sourced in inputs if isinstance(sourced.object, DeviceProfile)]
    refused = [fault for sourced, profile in profiles for fault in _refused(sourced, validate_create(profile, rules))]
    if refused:
        return RenderedManifests(refused=tuple(refused))
    by_name = {profile.name: profile for _, profile in profiles}
    surroundings = _Surroundings.of_objects([sourced.object for sourced in inputs], namespace)
    made: list[TypedObject] = []
    lines: list[_Line] = []
    for sourced in inputs:
        if isinstance(sourced.object, DeviceProfile):
            continue
        try:
            line = surroundings.line_of(sourced.object)
            if line is None:
                made.append(sourced.object)
                continue
            expanded = expand_profiles(line.spec, line.asked, by_name, line.vm)
        except RefusedLineError as error:
            refused += _refused(sourced, error.errors)
            continue
        lines.append(line)
        templates = [line.beside_it(template) for template in expanded.templates]
        others = [template for template in templates if surroundings.differs(template)]
        refused += _refused(sourced, (_taken(line, template) for template in others))
        made += [template for template in templates if not surroundings.has(template)]
        made.append(line.with_spec(expanded.spec))
    return RenderedManifests(tuple(made), tuple(refused), _unchecked(lines, by_name), len(lines))


@dataclass(frozen=True)
class _Line:
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

    def with_spec(self, spec: VirtualMachineInstanceSpec) -> TypedObject:
        """The object with another spec of its VMI."""
        if isinstance(self.obj, VirtualMachineInstance):
            return self.obj.with_(spec=spec)
        template = self.obj.spec.template.with_(spec=spec)
        return self.obj.with_(spec=self.obj.spec.with_(template=template))


@dataclass(frozen=True)
class _Surroundings:
    """What a VM's line depends on besides profiles."""

    instancetypes: Instancetypes
    namespace_labels: Mapping[str, Mapping[str, str]]
    templates: Mapping[tuple[str, str], ResourceClaimTemplate]
    namespace: str

    @classmethod
    def of_objects(cls, objects: Sequence[TypedObject], namespace: str) -> _Surroundings:
        labels = {obj.name: obj.metadata.labels for obj in objects if isinstance(obj, Namespace)}
        templates = {
            (obj.namespace or namespace, obj.name): obj for obj in objects if isinstance(obj, ResourceClaimTemplate)
        }
        return cls(Instancetypes.from_objects(objects, namespace), labels, templates, namespace)

    def _written(self, template: ResourceClaimTemplate) -> ResourceClaimTemplate | None:
        return self.templates.get((template.namespace or self.namespace, template.name))

    def has(self, template: ResourceClaimTemplate) -> bool:
        """True if the files have a template of this name, as they do when they were rendered before."""
        return self._written(template) is not None

    def differs(self, template: ResourceClaimTemplate) -> bool:
        """True if that one is for other claims."""
        written = self._written(template)
        return written is not None and written.spec != template.spec

    def line_of(self, obj: TypedObject) -> _Line | None:
        """None for an object that doesn't ask for profiles. Raises :class:`RefusedLineError`."""
        if isinstance(obj, VirtualMachine):
            # KubeVirt copies an instancetype's annotations to the VMI, and takes it for its own.
            template = expand(obj, self.instancetypes, self.namespace).vm.spec.template
            annotations, above = template.metadata.annotations, "spec.template."
        elif isinstance(obj, VirtualMachineInstance):
            annotations, above = obj.metadata.annotations, ""
        else:
            return None
        asked = asked_profiles(annotations, f"{above}metadata.annotations")
        if not asked:
            return None
        if not obj.name:
            raise RefusedLineError(required("metadata.name", "the templates of its claims are called after it"))
        namespace = obj.namespace or self.namespace
        labels = self.namespace_labels.get(namespace)
        return _Line(obj, asked, VmAsking(obj.name, namespace, labels, above))


def _unchecked(lines: Iterable[_Line], profiles: Mapping[str, DeviceProfile]) -> tuple[tuple[str, str], ...]:
    pairs = [
        (item.profile, line.vm.namespace)
        for line in lines
        if line.vm.namespace_labels is None
        for item in line.asked
        if profiles[item.profile].spec.namespace_selector is not None
    ]
    return tuple(dict.fromkeys(pairs))


def _taken(line: _Line, template: ResourceClaimTemplate) -> FieldError:
    detail = "the files have another ResourceClaimTemplate of this name; rename it, or remove it to have it made anew"
    return invalid(line.vm.line_path, template.name, detail)


def _refused(sourced: Sourced[TypedObject], errors: Iterable[FieldError]) -> list[RefusedManifest]:
    title = f"{sourced.object.kind} {sourced.object.name}".rstrip()
    return [RefusedManifest(sourced.source, title, error) for error in errors]
