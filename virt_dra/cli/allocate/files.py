"""Manifests or a live cluster's dump -> which claims to allocate against what, and the answers, node by node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import TypeVar

from virt_dra.allocator import Allocated, AllocationError, Allocator, DeadlineExceeded, FatalError, Features, NodeError, Snapshot
from virt_dra.api import names
from virt_dra.api.core_v1 import Node
from virt_dra.api.defaults import apply_defaults
from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.api.meta import ObjectMeta, TypedObject
from virt_dra.api.reading.documents import Loaded, Sourced
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.validation import validate_create
from virt_dra.cel.validation import compiled_rules
from virt_dra.cli.allocate.report import ERROR, FITS, REFUSED, TIMED_OUT, AllocationAnswer, NodeAnswer
from virt_dra.cli.shared.deadline import AllocationDeadline, progress_of
from virt_dra.cli.shared.gate_options import gate_name
from virt_dra.cluster.duplicates import Replaced, applied

T = TypeVar("T", bound=TypedObject)
Told = Callable[[int, int], None]
"""Takes how many steps of how many are done."""

_CONCERNED = (Node, ResourceSlice, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate)
_NAMESPACED = (ResourceClaim, ResourceClaimTemplate)


class InputError(ValueError):
    """The input can't be worked with; ``sentences`` say everything that is wrong with it."""

    def __init__(self, *sentences: str) -> None:
        self.sentences = sentences
        super().__init__("; ".join(sentences))


@dataclass(frozen=True)
class AllocationInput:
    """What the input says of a cluster, checked and with defaults. Claims and templates by ``namespace/name``.

    ``replaced``: objects that the input has several times with different content, of which the last one counts.
    """

    nodes: tuple[Node, ...]
    slices: tuple[ResourceSlice, ...]
    classes: tuple[DeviceClass, ...]
    taint_rules: tuple[DeviceTaintRule, ...]
    claims: dict[str, ResourceClaim]
    templates: dict[str, ResourceClaimTemplate]
    replaced: tuple[Replaced, ...] = ()

    def snapshot(self) -> Snapshot:
        return Snapshot.build(self.slices, self.classes, self.claims.values(), self.taint_rules)


def gather(loaded: Loaded, namespace: str, now: str, gates: FeatureGates = PLAIN) -> AllocationInput:
    """The objects that matter for allocation; others are passed over. ``namespace``: of claims that name none. ``now``: RFC 3339.
    ``gates``: by which objects are judged, and whether DeviceTaintRules matter.

    Raises :class:`InputError` with every problem, each with its place and field path.
    """
    problems = [str(problem) for problem in loaded.problems]
    rules = compiled_rules(gates)
    given: list[Sourced[TypedObject]] = []
    for sourced in loaded.objects:
        if not isinstance(sourced.object, _CONCERNED) or (isinstance(sourced.object, DeviceTaintRule) and not gates.device_taint_rules):
            continue
        obj = apply_defaults(_placed(sourced.object, namespace), now)
        title = f"{sourced.source}: {obj.KIND} {obj.key}"
        if errors := validate_create(obj, rules):
            hint = _needed_gate(obj, gates)
            problems += [f"{title}: {error.field}: {error.message}{hint}" for error in errors]
        given.append(Sourced(obj, sourced.source))
    if problems:
        raise InputError(*problems)
    once = applied(given, namespace)
    found = [each.object for each in once.objects]
    slices = _all(found, ResourceSlice)
    return AllocationInput(
        _all(found, Node) or _nodes_of(slices),
        slices,
        _all(found, DeviceClass),
        _all(found, DeviceTaintRule),
        {claim.key: claim for claim in _all(found, ResourceClaim)},
        {template.key: template for template in _all(found, ResourceClaimTemplate)},
        once.replaced,
    )


def _needed_gate(obj: TypedObject, gates: FeatureGates) -> str:
    """A hint where one more feature gate would do."""
    for field in fields(gates):
        if not getattr(gates, field.name):
            more = replace(gates, **{field.name: True})
            if not validate_create(obj, compiled_rules(more)):
                return f" (--feature-gates {gate_name(field.name)}=true takes it)"
    return ""


def _placed(obj: TypedObject, namespace: str) -> TypedObject:
    if obj.namespace or not isinstance(obj, _NAMESPACED):
        return obj
    return obj.with_(metadata=obj.metadata.with_(namespace=namespace))


def _all(found: Sequence[TypedObject], kind: type[T]) -> tuple[T, ...]:
    return tuple(obj for obj in found if isinstance(obj, kind))


def _nodes_of(slices: Sequence[ResourceSlice]) -> tuple[Node, ...]:
    """Where no Node is given: the nodes that slices name, with their host name as the only label."""
    wanted = dict.fromkeys(name for each in slices for name in (each.spec.node_name, *(d.node_name for d in each.spec.devices)) if name)
    return tuple(Node(metadata=ObjectMeta(name=name, labels=_host_label(name))) for name in wanted)


def _host_label(name: str) -> dict[str, str]:
    return {} if names.label_value(name) else {"kubernetes.io/hostname": name}


def choose_nodes(cluster: AllocationInput, wanted: str | None) -> tuple[Node, ...]:
    """The nodes to try, in the order of the input. Raises :class:`InputError` for a node that isn't there."""
    if wanted is None:
        if not cluster.nodes:
            raise InputError("no node to allocate on: neither a Node nor a ResourceSlice that names one; --node NAME makes one up")
        return cluster.nodes
    chosen = tuple(node for node in cluster.nodes if node.name == wanted)
    if chosen or not cluster.nodes:
        return chosen or (Node(metadata=ObjectMeta(name=wanted, labels=_host_label(wanted))),)
    raise InputError(f"no node {wanted} in the input{_meant(wanted, [node.name for node in cluster.nodes])}")


def choose_claims(cluster: AllocationInput, wanted: Sequence[str], namespace: str) -> tuple[tuple[ResourceClaim, ...], ...]:
    """The claims to allocate: those named together as one pod's; else every one that has no allocation, each on its own; else templates.

    A template stands for one claim of its name. ``wanted``: ``NAMESPACE/NAME``, or a name in ``namespace``. Raises :class:`InputError`.
    """
    if wanted:
        return (tuple(_named(cluster, name if "/" in name else f"{namespace}/{name}") for name in dict.fromkeys(wanted)),)
    pending = [c for c in cluster.claims.values() if c.status.allocation is None and c.metadata.deletion_timestamp is None]
    if pending:
        return tuple((claim,) for claim in pending)
    if cluster.claims:
        known = list(cluster.templates)[:3]
        advice = f"; --claim NAME allocates a claim of a template: {', '.join(known)}" if known else ""
        raise InputError(f"every claim of the input is allocated already{advice}")
    if not cluster.templates:
        raise InputError("the input has no ResourceClaim (and no ResourceClaimTemplate) to allocate")
    return tuple((_of_template(template),) for template in cluster.templates.values())


def _named(cluster: AllocationInput, key: str) -> ResourceClaim:
    claim = cluster.claims.get(key)
    if claim is None:
        template = cluster.templates.get(key)
        if template is None:
            raise InputError(f"no claim or template {key} in the input{_meant(key, [*cluster.claims, *cluster.templates])}")
        return _of_template(template)
    if claim.status.allocation is not None:
        raise InputError(f"claim {key} is allocated already; without its status.allocation it would be pending")
    return claim


def _of_template(template: ResourceClaimTemplate) -> ResourceClaim:
    metadata = ObjectMeta(name=template.name, namespace=template.namespace)
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)


def _meant(wrong: str, known: Sequence[str]) -> str:
    close = get_close_matches(wrong, known, n=3)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; there is {', '.join(known[:3])}" + (" and more" if len(known) > 3 else "") if known else ""


def allocate_each(
    cluster: AllocationInput,
    subjects: Sequence[tuple[ResourceClaim, ...]],
    nodes: Sequence[Node],
    features: Features,
    *,
    everywhere: bool,
    explain: bool,
    told: Told,
    deadline: AllocationDeadline,
) -> Iterator[AllocationAnswer]:
    """The answer to each subject. With ``everywhere`` all nodes are tried and nothing is taken, else the first node that fits is taken.

    ``explain``: also the refusals of nodes that were passed before one fitted. ``told`` hears of every node tried.
    ``deadline``: of each attempt on one node; where it passes, the next node is tried, as a scheduler does.
    """
    snapshot = cluster.snapshot()
    total = len(subjects) * len(nodes)
    for number, claims in enumerate(subjects):
        allocator = Allocator(snapshot, claims, features, interrupt=deadline)
        keys = tuple(claim.key for claim in claims)
        tried: list[NodeAnswer] = []
        error: str | None = None
        for position, node in enumerate(nodes):
            told(number * len(nodes) + position, total)
            try:
                tried.append(_try(allocator, node, deadline))
            except FatalError as fatal:
                error = str(fatal)
                break
            if tried[-1].verdict == FITS and not everywhere:
                snapshot = snapshot.with_allocation(*tried[-1].results)
                break
        fits = any(answer.verdict == FITS for answer in tried)
        if error is None and (explain or everywhere or not fits):
            tried = [_explained(allocator, answer, node, deadline) for answer, node in zip(tried, nodes, strict=False)]
        yield AllocationAnswer(keys, tuple(tried), len(nodes), error)
    told(total, total)


def _try(allocator: Allocator, node: Node, deadline: AllocationDeadline) -> NodeAnswer:
    """Raises FatalError."""
    deadline.start()
    try:
        found = allocator.allocate(node, explain=False)
    except DeadlineExceeded as error:
        return NodeAnswer(node.name, TIMED_OUT, f"timed out after {deadline}{progress_of(error)}")
    except NodeError as error:
        return NodeAnswer(node.name, ERROR, str(error))
    if isinstance(found, Allocated):
        return NodeAnswer(node.name, FITS, results=found.results)
    return NodeAnswer(node.name, REFUSED, "cannot allocate all claims")


def _explained(allocator: Allocator, answer: NodeAnswer, node: Node, deadline: AllocationDeadline) -> NodeAnswer:
    """With the refusals of the node's devices: worth a second search only for those who ask."""
    if answer.verdict in (FITS, TIMED_OUT):
        return answer
    deadline.start()
    try:
        why = allocator.explain(node)
    except AllocationError:
        return answer  # the error is about the request itself, or the search was cut off: there is nothing to add
    summary = why.summary if answer.verdict == REFUSED else answer.summary
    return NodeAnswer(answer.node, answer.verdict, summary, explanation=why)
