"""Manifests in which VMs ask for devices by profiles, and the same manifests with what that stands for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from virt_dra.api.core_v1 import Namespace
from virt_dra.api.instancetypes.expansion import Instancetypes
from virt_dra.api.kubevirt_v1 import KubeVirt
from virt_dra.api.meta import TypedObject, of_kind
from virt_dra.api.profiles.asking import RefusedLineError
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.lines import LineSurroundings, VmLine, pod_binding_of
from virt_dra.api.reading.documents import DocumentSource, Sourced
from virt_dra.api.resource_v1 import ResourceClaimTemplate
from virt_dra.api.schemas.unknown_fields import unknown_fields
from virt_dra.api.validation import Rules, validate_create
from virt_dra.api.validation.field_errors import FieldError, invalid


@dataclass(frozen=True)
class RefusedManifest:
    """An object that can't be rendered, and why not."""

    source: DocumentSource
    title: str
    error: str

    def __str__(self) -> str:
        return f"{self.source}: {self.title}: {self.error}"


@dataclass(frozen=True)
class RenderedManifests:
    """Manifests with the devices of VMs' lines. ``objects``: in the order of the input, templates of claims before the
    VM that they are made for, without profiles. ``unchecked``: profiles whose namespaceSelector couldn't be judged,
    with the namespace, since no file has that. ``asking``: how many VMs have a line."""

    objects: tuple[TypedObject, ...] = ()
    refused: tuple[RefusedManifest, ...] = ()
    unchecked: tuple[tuple[str, str], ...] = ()
    asking: int = 0


def rendered(inputs: Sequence[Sourced[TypedObject]], namespace: str, rules: Rules) -> RenderedManifests:
    """The objects, VMs and VMIs with the devices of their profiles. ``namespace``: of objects that name none.
    ``rules``: of the cluster that the claims are for."""
    profiles = [(sourced, sourced.object) for sourced in inputs if isinstance(sourced.object, DeviceProfile)]
    refused = [fault for sourced, profile in profiles for fault in _refused(sourced, _faults(profile, rules))]
    if refused:
        return RenderedManifests(refused=tuple(refused))
    objects = [sourced.object for sourced in inputs]
    surroundings = LineSurroundings(
        {profile.name: profile for _, profile in profiles},
        {obj.name: obj for obj in of_kind(objects, Namespace)},
        Instancetypes.from_objects(objects, namespace),
        namespace,
        pod_binding_of(of_kind(objects, KubeVirt)),
    )
    written = {(obj.namespace or namespace, obj.name): obj for obj in of_kind(objects, ResourceClaimTemplate)}
    made: list[TypedObject] = []
    lines: list[VmLine] = []
    for sourced in inputs:
        if isinstance(sourced.object, DeviceProfile):
            continue
        try:
            line = surroundings.line_of(sourced.object)
            if line is None:
                made.append(sourced.object)
                continue
            expanded = surroundings.expanded(line)
        except RefusedLineError as error:
            refused += _refused(sourced, error.errors)
            continue
        lines.append(line)
        for template in expanded.templates:
            # The files have it if they were rendered before.
            existing = written.get((line.vm.namespace, template.name))
            if existing is None:
                made.append(line.beside_it(template))
            elif existing.spec != template.spec:
                refused += _refused(sourced, [_taken(line, template)])
        made.append(line.with_spec(expanded.spec))
    return RenderedManifests(tuple(made), tuple(refused), _unchecked(lines, surroundings.profiles), len(lines))


def _faults(profile: DeviceProfile, rules: Rules) -> Iterator[str]:
    """What the API server's strict validation has against a profile."""
    yield from (f"{field.path}: {field.message}" for field in unknown_fields(profile.to_wire()))
    yield from map(str, validate_create(profile, rules))


def _unchecked(lines: Iterable[VmLine], profiles: Mapping[str, DeviceProfile]) -> tuple[tuple[str, str], ...]:
    pairs = [
        (item.profile, line.vm.namespace)
        for line in lines
        if line.vm.namespace_labels is None
        for item in line.asked
        if profiles[item.profile].spec.namespace_selector is not None
    ]
    return tuple(dict.fromkeys(pairs))


def _taken(line: VmLine, template: ResourceClaimTemplate) -> FieldError:
    detail = "the files have another ResourceClaimTemplate of this name; rename it, or remove it to have it made anew"
    return invalid(line.vm.line_path, template.name, detail)


def _refused(sourced: Sourced[TypedObject], errors: Iterable[FieldError | str]) -> list[RefusedManifest]:
    title = f"{sourced.object.kind} {sourced.object.name}".rstrip()
    return [RefusedManifest(sourced.source, title, str(error)) for error in errors]
