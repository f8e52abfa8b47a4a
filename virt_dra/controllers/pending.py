"""Why the pod of a VMI gets no node, as far as devices go: by claim and request, with counts of nodes (K-12.4). Pure.

kube-scheduler says in the pod's condition how many nodes refused; this says which claim, which request, and what is in the way. It asks
the allocator about a sample of nodes, within limits, on a view of the cluster that is made once for many VMIs.
"""

from __future__ import annotations

from collections import ChainMap, Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from virt_dra.allocator import DEFAULT, Features, Snapshot
from virt_dra.allocator.explain import RequestExplanation
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.meta import Condition, format_time, parse_time
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import ALLOCATABLE
from virt_dra.controllers.events import MESSAGE_LIMIT, shortened
from virt_dra.scheduling.claim_checks import SCHEDULER_ERROR
from virt_dra.scheduling.placement import ClusterView, NodeOutcome, Placement, Unplaced, place

FITS: Final = "ClaimsFit"
"""True: the claims can be allocated on some node; the pod waits for something else, or for its turn."""
NO_NODE_FITS: Final = "NoNodeFits"
"""False: no node that was looked at can allocate the claims."""
CLAIMS_NOT_READY: Final = "ClaimsNotReady"
"""False: a claim is missing, can't be used or asks for what doesn't exist, whatever the node."""
NOT_DECIDED: Final = "NotDecided"
"""Unknown: the allocator came to no decision within the limits, or the input is broken; the message says how."""


@dataclass(frozen=True)
class Limits:
    """``nodes``: as many are looked at; ``steps``: of the search, on one node; ``after``: a pod is not explained before it has waited so
    long; ``every``: nor again before that has passed; ``age``: of a view, at most."""

    nodes: int = 64
    steps: int = 2_000
    after: timedelta = timedelta(seconds=10)
    every: timedelta = timedelta(minutes=1)
    age: timedelta = timedelta(seconds=15)


LIMITS: Final = Limits()
_NAMED = 2
"""Nodes that are named as examples of a reason."""
_REASONS = 8
"""Reasons that are told."""


@dataclass(frozen=True)
class View:
    """A look at the cluster at ``at``. ``nodes``: how many there are; the view has those that are looked at."""

    cluster: ClusterView
    nodes: int
    at: datetime


def view_of(
    nodes: Iterable[Node],
    claims: Iterable[ResourceClaim],
    slices: Iterable[ResourceSlice],
    classes: Iterable[DeviceClass],
    rules: Iterable[DeviceTaintRule],
    now: datetime,
    features: Features = DEFAULT,
    limits: Limits = LIMITS,
) -> View:
    """Everything of the cluster. Takes seconds for tens of thousands of devices: make it in a thread, and share it between VMIs."""
    claims, slices, listed = tuple(claims), tuple(slices), tuple(nodes)
    snapshot = Snapshot.build(slices, classes, claims, rules if features.device_taints else ())
    # Nodes with devices of their own first: a claim that fits nowhere there can only be served by devices for all nodes.
    with_devices = {s.spec.node_name for s in slices if s.spec.node_name}
    ordered = sorted(listed, key=lambda node: (node.name not in with_devices, node.name))
    cluster = ClusterView(tuple(ordered[: limits.nodes]), {claim.key: claim for claim in claims}, snapshot)
    return View(cluster, len(listed), now)


def waits_for_node(pod: Pod | None) -> bool:
    """Whether there is anything to explain: a pod with claims that has no node and isn't going."""
    return (
        pod is not None
        and not pod.spec.node_name
        and bool(pod.spec.resource_claims)
        and pod.metadata.deletion_timestamp is None
        and pod.status.phase not in ("Succeeded", "Failed")
    )


def due(pod: Pod, told: Condition | None, looked: datetime | None, now: datetime, limits: Limits = LIMITS) -> datetime:
    """When the pod may be explained next. ``told``: the condition as it stands; ``looked``: when this process last looked, if it did."""
    earliest = (_time(pod.metadata.creation_timestamp) or now) + limits.after
    for last in (_time(told.last_transition_time) if told is not None else None, looked):
        if last is not None:
            earliest = max(earliest, last + limits.every)
    return earliest


def _time(text: str | None) -> datetime | None:
    try:
        return parse_time(text) if text else None
    except (ValueError, OverflowError):
        return None


def explain(
    pod: Pod,
    claims: Mapping[str, ResourceClaim],
    view: View,
    told: Condition | None,
    now: datetime,
    features: Features = DEFAULT,
    limits: Limits = LIMITS,
) -> Condition:
    """The condition Allocatable. ``claims``: the pod's, as they are now. ``told`` itself, if it says the same already.

    Its time is when this was told first, so that :func:`due` keeps from telling too often.
    """
    cluster = replace(view.cluster, claims=ChainMap(dict(claims), dict(view.cluster.claims)))
    outcome = place(pod, cluster, features, step_limit=limits.steps)
    status, reason, message = _told(outcome, view)
    message = shortened(message, MESSAGE_LIMIT)
    if told is not None and (told.status, told.reason, told.message) == (status, reason, message):
        return told
    return Condition(type=ALLOCATABLE, status=status, reason=reason, message=message, last_transition_time=format_time(now))


def _told(outcome: Placement | Unplaced, view: View) -> tuple[str, str, str]:
    if isinstance(outcome, Placement):
        message = f"the claims can be allocated on node {outcome.node}; what the pod waits for, its condition PodScheduled says"
        return "True", FITS, message
    if outcome.reason == SCHEDULER_ERROR:
        return "Unknown", NOT_DECIDED, f"{outcome.subject}: {outcome.message}"
    if not outcome.nodes:
        return "False", CLAIMS_NOT_READY, f"{outcome.subject}: {outcome.message}"
    return "False", NO_NODE_FITS, _nodes_text(outcome.nodes, view.nodes)


def _nodes_text(nodes: Sequence[NodeOutcome], total: int) -> str:
    """What most nodes say first."""
    by_reason: dict[str, list[NodeOutcome]] = defaultdict(list)
    for node in nodes:
        by_reason[_subject(node)].append(node)
    ordered = sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))
    told = [
        f"{len(members)} {'node' if len(members) == 1 else 'nodes'}: {subject}{_devices(members)}{_examples(members)}"
        for subject, members in ordered[:_REASONS]
    ]
    if len(ordered) > _REASONS:
        told.append(f"{len(ordered) - _REASONS} other reasons")
    looked = f"none of {total} nodes" if len(nodes) >= total else f"none of the {len(nodes)} nodes that were looked at, of {total},"
    return f"{looked} can take the pod: {'; '.join(told)}"


def _subject(node: NodeOutcome) -> str:
    blocking = _blocking(node)
    return f"claim {blocking.claim}, request {blocking.request}: {node.summary}" if blocking is not None else node.summary


def _blocking(node: NodeOutcome) -> RequestExplanation | None:
    return node.explanation.blocking if node.explanation is not None else None


def _devices(members: Sequence[NodeOutcome]) -> str:
    """How many devices were refused for what, over these nodes: `` (5 device in use, 2 selector does not match)``."""
    refused: Counter[str] = Counter()
    for node in members:
        blocking = _blocking(node)
        seen = {rejection.device: rejection.summary for rejection in reversed(blocking.rejections)} if blocking is not None else {}
        refused.update(seen.values())
    if not refused:
        return ""
    counts = sorted(refused.items(), key=lambda item: (-item[1], item[0]))
    return f" ({', '.join(f'{count} {summary}' for summary, count in counts)})"


def _examples(members: Sequence[NodeOutcome]) -> str:
    names = [node.node for node in members[:_NAMED]]
    return f", such as {' and '.join(names)}" if len(members) > len(names) else f" ({' and '.join(names)})"
