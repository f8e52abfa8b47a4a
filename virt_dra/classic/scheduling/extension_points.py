"""The scheduler's part in classic DRA: what it decides at each extension point, as pure functions (C-18.6).

    pre_enqueue → pre_filter → filter_node for each node → post_filter, if none fits
                                                         → negotiate (PreScore, Reserve, the first half of PreBind)

Upstream chooses at random among equal nodes, potential nodes and claims to deallocate. Here everything is in order, and
nodes that were tried for the pod already come last: two drivers that exclude each other's nodes don't go in circles.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from virt_dra.api.core_v1 import Node, NodeSelector, Pod
from virt_dra.api.policies.node_selection import NodeMatcher
from virt_dra.cel import Work
from virt_dra.classic.driver_plans import AnyClass, class_requests, is_structured
from virt_dra.classic.named_resources import BUDGET
from virt_dra.classic.objects import (
    NODES_MAX,
    ClassicAllocation,
    ClassicClaim,
    ClassicDeviceClass,
    PodSchedulingContext,
    ResourceClass,
    SchedulingContextSpec,
)
from virt_dra.classic.pod_claims import ClaimLookup, MissingClaim, is_reservable, is_reserved, resolve_claims
from virt_dra.classic.release import ClassicRelease
from virt_dra.classic.structured import (
    Inventory,
    NoStructuredFit,
    ParametersNotFound,
    StructuredParameters,
    allocate_on,
)

DEALLOCATED: Final = "deallocation of ResourceClaim completed"
NEED_INFORMATION: Final = "waiting for resource driver to provide information"
NEED_ALLOCATION: Final = "waiting for resource driver"
NEED_ALLOCATION_BEFORE_29: Final = "waiting for resource driver to allocate resource"
UNSUITABLE: Final = "resourceclaim cannot be allocated for the node (unsuitable)"
NOT_HERE: Final = "resourceclaim not available on the node"
EXCLUDED: Final = "excluded by resource class node filter"
EXCLUDED_31: Final = "excluded by device class node filter"
NOTHING_TO_DEALLOCATE: Final = "no new claims to deallocate"
STILL_NOT: Final = "still not schedulable"


@dataclass(frozen=True)
class NotNow:
    """The pod can't be scheduled in this attempt. ``pending``: an answer of a driver is awaited, and wakes it without
    back-off. ``error``: tried again after a back-off without waiting for an event."""

    message: str
    pending: bool = False
    error: bool = False


@dataclass(frozen=True)
class ClaimState:
    """A claim of the pod and what limits its nodes. ``unsuitable``: None as long as its driver hasn't answered."""

    entry: str
    claim: ClassicClaim
    class_nodes: tuple[NodeMatcher, ...] = ()
    available: NodeMatcher | None = None
    unsuitable: frozenset[str] | None = None
    structured: StructuredParameters | None = None

    @property
    def allocated(self) -> bool:
        return self.claim.status.allocation is not None

    @property
    def awaits_driver(self) -> bool:
        return not self.allocated and self.structured is None


@dataclass(frozen=True)
class SchedulingState:
    """The claims of the pod, in its order, and what was negotiated so far."""

    pod: Pod
    claims: tuple[ClaimState, ...]
    context: PodSchedulingContext | None
    inventory: Inventory | None = None
    """None where no claim is to be allocated of it."""
    work: Work = field(default_factory=lambda: Work(BUDGET), compare=False)
    """What expressions may still cost in this attempt."""

    @property
    def awaiting(self) -> tuple[ClaimState, ...]:
        """The claims that drivers have to allocate."""
        return tuple(claim_state for claim_state in self.claims if claim_state.awaits_driver)

    @property
    def selected(self) -> str:
        return self.context.spec.selected_node if self.context is not None else ""


@dataclass(frozen=True)
class ClassicView:
    """What the scheduler knows. ``parameters`` raises ParametersNotFound; ``inventory``: for structured claims only."""

    claim: ClaimLookup
    context: Callable[[str, str], PodSchedulingContext | None]
    resource_class: Callable[[str], ResourceClass | None]
    device_class: Callable[[str], ClassicDeviceClass | None]
    parameters: Callable[[ClassicClaim, ResourceClass], StructuredParameters]
    inventory: Callable[[], Inventory]
    release: ClassicRelease


def pre_enqueue(pod: Pod, view: ClassicView) -> NotNow | None:
    """None if all claims of the pod are there (C-5.1)."""
    resolved = resolve_claims(pod, view.claim, view.release)
    return NotNow(resolved.message) if isinstance(resolved, MissingClaim) else None


def pre_filter(pod: Pod, view: ClassicView) -> SchedulingState | NotNow:
    """Checks that hold for all nodes, and what restricts nodes."""
    resolved = resolve_claims(pod, view.claim, view.release)
    if isinstance(resolved, MissingClaim):
        return NotNow(resolved.message)
    context = view.context(pod.namespace, pod.name) if resolved else None
    if context is not None and not context.is_controlled_by(pod):
        whose = f"with UID {context.metadata.uid} is not owned by Pod {pod.key}"
        return NotNow(f"PodSchedulingContext object {whose}", error=True)
    states: list[ClaimState] = []
    for pod_claim in resolved:
        state = _claim_state(pod, pod_claim.entry, pod_claim.claim, context, view)
        if isinstance(state, NotNow):
            return state
        states.append(state)
    structured = any(state.structured is not None and not state.allocated for state in states)
    return SchedulingState(pod, tuple(states), context, view.inventory() if structured else None)


def _claim_state(
    pod: Pod, entry: str, claim: ClassicClaim, context: PodSchedulingContext | None, view: ClassicView
) -> ClaimState | NotNow:
    allocation = claim.status.allocation
    if claim.deallocating:
        return NotNow("resourceclaim must be reallocated")
    if allocation is not None:
        if not is_reserved(claim, pod) and not is_reservable(claim):
            return NotNow("resourceclaim in use")
        return ClaimState(entry, claim, available=_matcher(allocation.available_on_nodes))
    classes = _classes_of(claim, view)
    if isinstance(classes, NotNow):
        return classes
    selectors = [cls.suitable_nodes if isinstance(cls, ResourceClass) else cls.spec.suitable_nodes for cls in classes]
    nodes = tuple(matcher for selector in selectors if (matcher := _matcher(selector)) is not None)
    answer = context.unsuitable(entry) if context is not None else None
    if not (classes and is_structured(classes[0])):
        delayed = ClaimState(entry, claim, nodes, None, answer)
        return delayed if claim.delayed else NotNow("unallocated immediate resourceclaim")
    cls = classes[0]
    if not isinstance(cls, ResourceClass) or not view.release.structured_parameters:
        return NotNow(f"resource class {cls.name} has structured parameters, which this release doesn't know")
    try:
        structured = view.parameters(claim, cls)
    except ParametersNotFound as error:
        return NotNow(str(error))
    return ClaimState(entry, claim, nodes, None, answer, structured)


def _classes_of(claim: ClassicClaim, view: ClassicView) -> list[AnyClass] | NotNow:
    if claim.spec.controller is None:
        cls = view.resource_class(claim.spec.resource_class_name)
        return NotNow(f"resource class {claim.spec.resource_class_name} does not exist") if cls is None else [cls]
    classes: list[AnyClass] = []
    for request, name in class_requests(claim):
        if not name:
            return NotNow(f"request {request}: unsupported request type", error=True)
        device_class = view.device_class(name)
        if device_class is None:
            return NotNow(f"request {request}: device class {name} does not exist")
        classes.append(device_class)
    return classes


def _matcher(selector: NodeSelector | None) -> NodeMatcher | None:
    """Terms that can't be read select nothing: a driver may have written them."""
    return None if selector is None else NodeMatcher(selector, lenient=True)


@dataclass(frozen=True)
class NodeFits:
    """``structured``: what the scheduler would allocate on the node, by the index of the claim."""

    structured: Mapping[int, ClassicAllocation] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeRefused:
    """``unavailable``: the indices of allocated, delayed claims that exclude the node; deallocating one may help."""

    message: str
    unavailable: tuple[int, ...] = ()


def filter_node(state: SchedulingState, node: Node) -> NodeFits | NodeRefused:
    """Whether the claims allow the node: the first refusal in the claims' order, then those allocated elsewhere."""
    unavailable: list[int] = []
    elsewhere = False
    structured: dict[int, ClassicAllocation] = {}
    left = {} if state.inventory is None else state.inventory.free_on(node.name)
    for index, claim_state in enumerate(state.claims):
        if claim_state.allocated:
            if claim_state.available is not None and not claim_state.available.matches(node):
                elsewhere = True
                unavailable += [index] if claim_state.claim.delayed else []
        elif not all(matcher.matches(node) for matcher in claim_state.class_nodes):
            return NodeRefused(EXCLUDED if claim_state.claim.spec.controller is None else EXCLUDED_31)
        elif claim_state.structured is not None:
            made = allocate_on(claim_state.structured, node.name, left, state.work)
            if isinstance(made, NoStructuredFit):
                return NodeRefused(made.message)
            structured[index] = made
        elif claim_state.unsuitable is not None and node.name in claim_state.unsuitable:
            return NodeRefused(UNSUITABLE)
    return NodeRefused(NOT_HERE, tuple(unavailable)) if elsewhere else NodeFits(structured)


@dataclass(frozen=True)
class RequestDeallocation:
    """Clear the context's ``selectedNode``, then ask for the claim to be deallocated, a structured one at once."""

    claim: ClassicClaim
    context: PodSchedulingContext | None


def post_filter(state: SchedulingState, unavailable: Collection[int]) -> RequestDeallocation | None:
    """The claim to deallocate when no node fits: the first one that excluded a node and has no other consumer."""
    for index in sorted(unavailable):
        claim = state.claims[index].claim
        if all(consumer.uid == state.pod.metadata.uid for consumer in claim.status.reserved_for):
            return RequestDeallocation(claim, state.context if state.selected else None)
    return None


def potential_nodes(
    state: SchedulingState, feasible: Sequence[str], asked: Mapping[str, int]
) -> tuple[str, ...] | None:
    """The nodes to ask drivers about, sorted, at most 128, or None if they were asked about all feasible ones
    (PreScore). ``asked``: how often drivers were asked about a node for this pod; those never asked about come
    first."""
    current = state.context.spec.potential_nodes if state.context is not None else ()
    if not state.awaiting or set(feasible) <= set(current):
        return None
    return tuple(sorted(sorted(feasible, key=lambda node: (asked.get(node, 0), node))[:NODES_MAX]))


def chosen_node(
    state: SchedulingState, scores: Mapping[str, int], tried: Mapping[str, int], selected: Mapping[str, int]
) -> str:
    """The node of this attempt: the one selected before if it still fits, else one that drivers know of, tried least
    for this pod, with the highest score, selected for the fewest other waiting pods, first by name. ``scores``: of the
    nodes that fit. ``selected``: how many waiting pods have a node selected, lest all compete for the first one."""
    current = frozenset(state.context.spec.potential_nodes if state.context is not None else ())
    return min(
        scores,
        key=lambda node: (
            node != state.selected, node not in current, tried.get(node, 0), -scores[node], selected.get(node, 0), node
        ),
    )  # fmt: skip


@dataclass(frozen=True)
class Negotiation:
    """What to publish (None: nothing new) and why the pod waits (None: it can be bound)."""

    spec: SchedulingContextSpec | None
    waits: NotNow | None


def negotiate(
    state: SchedulingState, node: str, feasible: Sequence[str], asked: Mapping[str, int], release: ClassicRelease
) -> Negotiation:
    """Reserve and negotiate: select the node if there is one pending claim only or all drivers have answered."""
    if not state.awaiting:
        return Negotiation(None, None)
    spec = state.context.spec if state.context is not None else SchedulingContextSpec()
    potential = potential_nodes(state, feasible, asked) if len(feasible) > 1 else None
    if len(feasible) == 1 and not set(feasible) <= set(spec.potential_nodes):
        potential = (node,)
    wanted = spec if potential is None else spec.with_(potential_nodes=potential)
    informed = len(state.awaiting) == 1 or all(claim_state.unsuitable is not None for claim_state in state.awaiting)
    if informed:
        wanted = wanted.with_(selected_node=node)
    if wanted == spec and state.context is not None:
        return Negotiation(None, NotNow(NEED_INFORMATION, pending=True))
    text = NEED_ALLOCATION
    if release.writes_in_reserve:
        text = NEED_ALLOCATION_BEFORE_29 if wanted.selected_node != spec.selected_node else NEED_INFORMATION
    return Negotiation(wanted, NotNow(text, pending=True))
