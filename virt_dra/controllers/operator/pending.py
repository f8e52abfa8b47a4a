"""The condition Allocatable: why the pod of a VMI gets no node because of its claims, by claim and request (K-12.4).
Pure.

It runs the allocator on a limited sample of the nodes and of the devices that they can use, so that the cost doesn't
grow with the cluster, and many VMIs share the sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import nsmallest
from typing import Final, NamedTuple, TypeVar

from virt_dra.allocator import DEFAULT, Features, Interrupt
from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.counting import counted
from virt_dra.api.meta import Condition, ObjectMeta, format_time
from virt_dra.api.resource_v1 import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from virt_dra.api.virt_dra_v1alpha1 import ALLOCATABLE
from virt_dra.controllers.devices.options import CountFrom, as_stated, moment_of
from virt_dra.controllers.events import MESSAGE_LIMIT, shortened
from virt_dra.model.cluster import ClusterModel
from virt_dra.scheduling.claim_checks import SCHEDULER_ERROR
from virt_dra.scheduling.fit import FitOptions, fit, read_beforehand
from virt_dra.scheduling.placement import Placement, Unplaced, place
from virt_dra.scheduling.pod_requests import unknown_to
from virt_dra.scheduling.why.condition import allocatable_text, unknown_text

T = TypeVar("T")

FITS: Final = "ClaimsFit"
"""True: the claims can be allocated on some node; the pod waits for something else, or for its turn."""
NO_NODE_FITS: Final = "NoNodeFits"
"""False: none of the nodes that were tried can allocate the claims."""
CLAIMS_NOT_READY: Final = "ClaimsNotReady"
"""False: a claim is missing, can't be used or asks for what doesn't exist, whatever the node."""
NOT_DECIDED: Final = "NotDecided"
"""Unknown: the allocator came to no decision within its limits, or the input is invalid, as the message says."""


@dataclass(frozen=True)
class ExplainLimits:
    """Limits of explaining. ``nodes``: tried for one pod; ``steps``: of the search on one node; ``after``: how long a
    pod must have waited; ``every``: the pause until it is explained again, doubled each time it exceeds the deadline,
    up to ``longest_pause``; ``age``: of a view; ``seconds``: the deadline for one pod; ``devices``: in a view;
    ``pairs``: of nodes and devices that they can use."""

    nodes: int = 64
    steps: int = 2_000
    after: timedelta = timedelta(seconds=10)
    every: timedelta = timedelta(minutes=1)
    longest_pause: timedelta = timedelta(hours=1)
    age: timedelta = timedelta(seconds=15)
    seconds: float = 1.0
    devices: int = 10_000
    pairs: int = 100_000


LIMITS: Final = ExplainLimits()


@dataclass(frozen=True)
class Sample:
    """The objects that a view is made of. ``total``: nodes in the cluster; ``left_out``: devices that the sampled nodes
    could use, beyond the limit. ``claims``: those that have devices of sampled pools, by name and allocation alone."""

    nodes: tuple[Node, ...]
    total: int
    slices: tuple[ResourceSlice, ...]
    classes: tuple[DeviceClass, ...]
    rules: tuple[DeviceTaintRule, ...]
    claims: tuple[ResourceClaim, ...]
    at: datetime
    left_out: int = 0


@dataclass(frozen=True)
class View:
    """A snapshot of a sample, taken at ``at``. ``nodes``: in the whole cluster; ``left_out``: as in :class:`Sample`."""

    model: ClusterModel
    nodes: int
    at: datetime
    left_out: int = 0


_CHUNK: Final = 1000
"""Objects between two yields: less than a millisecond."""
_FEWEST: Final = 4
"""Nodes that are tried in any case, however many devices they can use."""


def sampling(
    nodes: Iterable[Node],
    claims: Iterable[ResourceClaim],
    slices: Iterable[ResourceSlice],
    classes: Iterable[DeviceClass],
    rules: Iterable[DeviceTaintRule],
    now: datetime,
    limits: ExplainLimits = LIMITS,
) -> Generator[None, None, Sample]:
    """A generator that returns the sample, and yields every millisecond, for an event loop. Nodes with devices of their
    own first: a claim that fits nowhere there can only be served by devices for all nodes. Of the pools that several
    nodes see, those with the fewest devices first; each as a whole, or not at all (A-5)."""
    slices, listed = tuple(slices), tuple(nodes)
    with_devices, sizes, shared = yield from _census(slices)
    everywhere = min(sum(sizes[pool] for pool in shared), limits.devices)
    most = min(limits.nodes, max(_FEWEST, limits.pairs // max(everywhere, 1)))
    chosen = tuple(nsmallest(most, listed, key=lambda node: (node.name not in with_devices, node.name)))
    names = {node.name for node in chosen}
    yield
    on_chosen = yield from _selected(slices, lambda slice_: slice_.spec.node_name in names)
    pools, left_out = _pools_within(limits.devices, {slice_.pool_key for slice_ in on_chosen} - shared, shared, sizes)
    kept = yield from _selected(slices, lambda slice_: slice_.pool_key in pools)
    using = yield from _selected(claims, lambda claim: _uses(claim, pools))
    holding = tuple([_holder(claim) for claim in using])
    return Sample(chosen, len(listed), tuple(kept), tuple(classes), tuple(rules), holding, now, left_out)


def _holder(claim: ResourceClaim) -> ResourceClaim:
    """The name and allocation of a claim: a pod's own claim takes its place, so that its devices count once."""
    metadata = ObjectMeta(name=claim.name, namespace=claim.namespace, uid=claim.metadata.uid)
    allocation = claim.status.allocation
    held = None if allocation is None else allocation.without("node_selector")
    return ResourceClaim(metadata=metadata, status=ResourceClaimStatus(allocation=held))


_Pool = tuple[str, str]
"""Driver and name."""


def _census(slices: Iterable[ResourceSlice]) -> Generator[None, None, tuple[set[str], Counter[_Pool], set[_Pool]]]:
    """The nodes with devices of their own, the number of devices of each pool, and the pools that several nodes see."""
    with_devices: set[str] = set()
    sizes: Counter[_Pool] = Counter()
    shared: set[_Pool] = set()
    for number, slice_ in enumerate(slices):
        if number % _CHUNK == 0:
            yield
        sizes[slice_.pool_key] += len(slice_.spec.devices)
        if slice_.spec.node_name:
            with_devices.add(slice_.spec.node_name)
        else:
            shared.add(slice_.pool_key)
    return with_devices, sizes, shared


def _selected(objects: Iterable[T], matches: Callable[[T], bool]) -> Generator[None, None, list[T]]:
    """The objects that match, yielding after every chunk."""
    selected: list[T] = []
    for number, obj in enumerate(objects):
        if number % _CHUNK == 0:
            yield
        if matches(obj):
            selected.append(obj)
    return selected


def _pools_within(
    room: int, local: set[_Pool], shared: set[_Pool], sizes: Mapping[_Pool, int]
) -> tuple[set[_Pool], int]:
    """The pools of the sample, of nodes first, small before large; and the number of devices left out."""
    pools: set[_Pool] = set()
    left_out = 0
    for group in (local, shared):
        for pool in sorted(group, key=lambda pool: (sizes[pool], pool)):
            if sizes[pool] <= room:
                room -= sizes[pool]
                pools.add(pool)
            else:
                left_out += sizes[pool]
    return pools, left_out


def _uses(claim: ResourceClaim, pools: set[_Pool]) -> bool:
    return any((result.driver, result.pool) in pools for result in claim.results)


def view_of(sample: Sample) -> View:
    """The view of a sample. Takes up to a second: don't call it on an event loop, and share the view between VMIs."""
    objects = (*sample.nodes, *sample.slices, *sample.classes, *sample.rules, *sample.claims)
    model = ClusterModel(objects, unread=(Pod, Namespace))
    read_beforehand(model, DEFAULT)  # here, not at the first pod's expense
    return View(model, sample.total, sample.at, sample.left_out)


def waits_for_node(pod: Pod | None) -> bool:
    """True for a pod with claims that has no node, hasn't finished and isn't being deleted."""
    return (
        pod is not None
        and not pod.spec.node_name
        and bool(pod.spec.resource_claims)
        and pod.metadata.deletion_timestamp is None
        and not pod.finished
    )


def due(
    pod: Pod,
    previous: Condition | None,
    last_attempt: datetime | None,
    now: datetime,
    limits: ExplainLimits = LIMITS,
    too_slow: int = 0,
    count_from: CountFrom = as_stated,
) -> datetime:
    """The time at which the pod may be explained next. ``previous``: the condition that was written last;
    ``last_attempt``: when this process last explained the pod; ``too_slow``: how often in a row the deadline passed."""
    earliest = count_from(moment_of(pod.metadata.creation_timestamp) or now) + limits.after
    pause = min(limits.every * 2 ** min(too_slow, 30), max(limits.longest_pause, limits.every))
    for last in (moment_of(previous.last_transition_time) if previous is not None else None, last_attempt):
        if last is not None and last <= now:  # a clock that was set back leaves times in the future behind
            earliest = max(earliest, last + pause)
    return earliest


def explain(
    pod: Pod,
    claims: Mapping[str, ResourceClaim],
    view: View,
    previous: Condition | None,
    now: datetime,
    features: Features = DEFAULT,
    limits: ExplainLimits = LIMITS,
    interrupt: Interrupt | None = None,
) -> Condition:
    """The condition Allocatable; ``previous`` itself if nothing changed. ``claims``: the pod's, by key. Its transition
    time is when it was set, by which :func:`due` limits the rate. Raises DeadlineExceeded once ``interrupt`` returns
    True."""
    outcome = place(pod, view.model.changed(claims.values()), FitOptions(features, limits.steps, interrupt))
    return _condition(_verdict(outcome, pod, view), previous, now)


def fitting_nodes(
    pod: Pod, claims: Mapping[str, ResourceClaim], view: View, limits: ExplainLimits, interrupt: Interrupt | None
) -> int:
    """The number of the view's nodes that a pod fits on. Only for a pod that fits on one. Raises DeadlineExceeded."""
    asked = fit(pod, view.model.changed(claims.values()), FitOptions(step_limit=limits.steps, interrupt=interrupt))
    return sum(asked.refusal(state) is None for state in asked.table.states)


def took_too_long(
    pod: Pod, subject: str, previous: Condition | None, now: datetime, limits: ExplainLimits = LIMITS
) -> Condition:
    """The condition Allocatable of a pod that wasn't explained in time. ``subject``: the expression, if it was one."""
    if subject:
        problem = f"{subject}: evaluating it took too long"
        advice = (
            "Make the expression cheaper: nested loops, and patterns that are large or built at run time, cost most"
        )
    else:
        problem = f"{pod.key}: searching devices for its claims took too long"
        advice = "Use fewer requests, or selectors that match fewer devices"
    text = (
        f"{problem} (limit: {limits.seconds:g} s), so it is not known why the pod waits. "
        f"{advice}. Attempts are repeated less and less often"
    )
    return _condition(_Verdict("Unknown", NOT_DECIDED, text), previous, now)


def too_large(pod: Pod, limit: int, previous: Condition | None, now: datetime) -> Condition:
    """The condition Allocatable of a pod that is too large to be explained, with its claims."""
    text = (
        f"{pod.key}: the pod and its claims have more than {limit:,} bytes together, "
        "so it is not known why the pod waits; use fewer"
    )
    return _condition(_Verdict("Unknown", NOT_DECIDED, f"{text} or smaller claims"), previous, now)


class _Verdict(NamedTuple):
    """The content of the condition Allocatable."""

    status: str
    reason: str
    message: str


def _condition(verdict: _Verdict, previous: Condition | None, now: datetime) -> Condition:
    """The condition; ``previous`` itself if it has the same content."""
    verdict = verdict._replace(message=shortened(verdict.message, MESSAGE_LIMIT))
    if previous is not None and (previous.status, previous.reason, previous.message) == verdict:
        return previous
    return Condition(type=ALLOCATABLE, **verdict._asdict(), last_transition_time=format_time(now))


def _verdict(outcome: Placement | Unplaced, pod: Pod, view: View) -> _Verdict:
    if isinstance(outcome, Placement):
        message = (
            f"the claims can be allocated on node {outcome.node}; the pod's "
            "condition PodScheduled says what else it waits for"
        )
        unknown = unknown_to([pod], view.model)
        return _Verdict("True", FITS, message + unknown_text(unknown, sampled=len(view.model.nodes) < view.nodes))
    if outcome.reason == SCHEDULER_ERROR:
        return _Verdict("Unknown", NOT_DECIDED, f"{outcome.subject}: {outcome.message}")
    if not outcome.nodes:
        return _Verdict("False", CLAIMS_NOT_READY, f"{outcome.subject}: {outcome.message}")
    text = allocatable_text(outcome.nodes, view.nodes)
    if view.left_out:
        left_out = f"{counted(view.left_out, 'device')} in pools that are too large were not considered"
        return _Verdict("Unknown", NOT_DECIDED, f"{left_out}; of the others: {text}")
    return _Verdict("False", NO_NODE_FITS, text)
