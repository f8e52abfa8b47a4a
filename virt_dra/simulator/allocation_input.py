"""The objects, claims and nodes of an allocation, out of manifests or a live cluster's dump. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Final

from virt_dra.allocator import Snapshot
from virt_dra.api import names
from virt_dra.api.core_v1 import Node
from virt_dra.api.counting import listed
from virt_dra.api.defaults import apply_defaults
from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.api.meta import ObjectMeta, TypedObject, of_kind
from virt_dra.api.reading.documents import Loaded, Sourced
from virt_dra.api.reading.namespaces import in_namespace
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.validation import validate_create
from virt_dra.cel.validation import compiled_rules
from virt_dra.cluster.duplicates import Replaced, applied
from virt_dra.model.kinds import READ

_READ: Final = READ["allocate"].all
"""The kinds that matter to an allocation."""


class InputError(ValueError):
    """Input that can't be used; ``sentences`` say everything that is wrong with it."""

    def __init__(self, *sentences: str) -> None:
        self.sentences = sentences
        super().__init__("; ".join(sentences))


@dataclass(frozen=True)
class AllocationInput:
    """The validated and defaulted objects of the input. Claims and templates by ``namespace/name``. ``replaced``:
    objects that the input has several times with different content, of which the last one counts."""

    nodes: tuple[Node, ...]
    slices: tuple[ResourceSlice, ...]
    classes: tuple[DeviceClass, ...]
    taint_rules: tuple[DeviceTaintRule, ...]
    claims: dict[str, ResourceClaim]
    templates: dict[str, ResourceClaimTemplate]
    replaced: tuple[Replaced, ...] = ()

    def snapshot(self) -> Snapshot:
        """The allocator's snapshot, in which allocated claims are in use."""
        return Snapshot.build(self.slices, self.classes, self.claims.values(), self.taint_rules)


def allocation_input(loaded: Loaded, namespace: str, now: str, gates: FeatureGates = PLAIN) -> AllocationInput:
    """The objects that matter for allocation; others are ignored. ``namespace``: of claims that name none. ``now``: RFC
    3339. ``gates``: by which objects are validated, and whether DeviceTaintRules count. Raises :class:`InputError` with
    every problem."""
    problems = [str(problem) for problem in loaded.problems]
    rules = compiled_rules(gates)
    given: list[Sourced[TypedObject]] = []
    for sourced in loaded.objects:
        if not isinstance(sourced.object, _READ) or (
            isinstance(sourced.object, DeviceTaintRule) and not gates.device_taint_rules
        ):
            continue
        obj = apply_defaults(in_namespace(sourced.object, namespace), now)
        title = f"{sourced.source}: {obj.KIND} {obj.key}"
        if errors := validate_create(obj, rules):
            hint = _needed_gate(obj, gates)
            problems += [f"{title}: {error.field}: {error.message}{hint}" for error in errors]
        given.append(Sourced(obj, sourced.source))
    if problems:
        raise InputError(*problems)
    once = applied(given, namespace)
    objects = [sourced.object for sourced in once.objects]
    slices = tuple(of_kind(objects, ResourceSlice))
    return AllocationInput(
        tuple(of_kind(objects, Node)) or _nodes_of(slices),
        slices,
        tuple(of_kind(objects, DeviceClass)),
        tuple(of_kind(objects, DeviceTaintRule)),
        {claim.key: claim for claim in of_kind(objects, ResourceClaim)},
        {template.key: template for template in of_kind(objects, ResourceClaimTemplate)},
        once.replaced,
    )


def _needed_gate(obj: TypedObject, gates: FeatureGates) -> str:
    """A hint that names the one further feature gate with which an object would be valid, else ""."""
    for field in fields(gates):
        if not getattr(gates, field.name):
            more = replace(gates, **{field.name: True})
            if not validate_create(obj, compiled_rules(more)):
                return f" (--feature-gates {_gate_name(field.name)}=true accepts it)"
    return ""


def _gate_name(attribute: str) -> str:
    """The Kubernetes name of a gate, by its attribute of FeatureGates."""
    alone = FeatureGates(**{field.name: field.name == attribute for field in fields(FeatureGates)})
    return next(
        name for name, _, value in (setting.partition("=") for setting in str(alone).split(",")) if value == "true"
    )


def _nodes_of(slices: Sequence[ResourceSlice]) -> tuple[Node, ...]:
    """The nodes that slices name, for an input without Nodes."""
    wanted = dict.fromkeys(
        name
        for slice_ in slices
        for name in (slice_.spec.node_name, *(d.node_name for d in slice_.spec.devices))
        if name
    )
    return tuple(map(_node, wanted))


def _node(name: str) -> Node:
    """A Node whose only label is its host name."""
    labels = {} if names.label_value(name) else {"kubernetes.io/hostname": name}
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def choose_nodes(given: AllocationInput, wanted: str | None) -> tuple[Node, ...]:
    """The nodes to try, in the order of the input. Raises :class:`InputError` for a node that the input lacks."""
    if wanted is None:
        if not given.nodes:
            raise InputError(
                "no node to allocate on: neither a Node nor a ResourceSlice that names one; --node NAME makes one up"
            )
        return given.nodes
    chosen = tuple(node for node in given.nodes if node.name == wanted)
    if chosen or not given.nodes:
        return chosen or (_node(wanted),)
    raise InputError(f"no node {wanted} in the input{_suggestion(wanted, [node.name for node in given.nodes])}")


def choose_claims(
    given: AllocationInput, wanted: Sequence[str], namespace: str
) -> tuple[tuple[ResourceClaim, ...], ...]:
    """The claims to allocate, grouped: those that are named are placed together, as one pod's; without names, every
    claim that has no allocation, each on its own; without claims, a claim of each template. ``wanted``:
    ``NAMESPACE/NAME``, or a name in ``namespace``. Raises :class:`InputError`."""
    if wanted:
        return (tuple(_named(given, name if "/" in name else f"{namespace}/{name}") for name in dict.fromkeys(wanted)),)
    pending = [
        c for c in given.claims.values() if c.status.allocation is None and c.metadata.deletion_timestamp is None
    ]
    if pending:
        return tuple((claim,) for claim in pending)
    if given.claims:
        names = list(given.templates)[:3]
        advice = f"; --claim NAME allocates a claim of a template: {', '.join(names)}" if names else ""
        raise InputError(f"every claim of the input is already allocated{advice}")
    if not given.templates:
        raise InputError("the input has no ResourceClaim (and no ResourceClaimTemplate) to allocate")
    return tuple((_of_template(template),) for template in given.templates.values())


def _named(given: AllocationInput, key: str) -> ResourceClaim:
    claim = given.claims.get(key)
    if claim is None:
        template = given.templates.get(key)
        if template is None:
            raise InputError(
                f"no claim or template {key} in the input{_suggestion(key, [*given.claims, *given.templates])}"
            )
        return _of_template(template)
    if claim.status.allocation is not None:
        raise InputError(f"claim {key} is already allocated; remove its status.allocation to have it allocated again")
    return claim


def _of_template(template: ResourceClaimTemplate) -> ResourceClaim:
    metadata = ObjectMeta(name=template.name, namespace=template.namespace)
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)


def _suggestion(wrong: str, names: Sequence[str]) -> str:
    close = get_close_matches(wrong, names, n=3)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; it has {listed(names, 3)}" if names else ""
