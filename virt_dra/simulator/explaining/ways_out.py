"""Ways out: changes of a copy of the cluster or of the pod after which the pod fits. What isn't proved so isn't
offered. For the nearest nodes, a change for each reason is looked for, as far as the budget of trials lasts; to free
devices, the holders that the fewest and least important pods stand behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import nsmallest
from itertools import chain, combinations, islice
from typing import Final, Literal

from virt_dra.allocator import DeadlineExceeded
from virt_dra.allocator.explain import TOO_FEW
from virt_dra.allocator.features.attributes import MISSING
from virt_dra.allocator.features.capacity import EXHAUSTED
from virt_dra.allocator.features.consumption import TOO_SMALL
from virt_dra.allocator.features.counters import INSUFFICIENT as COUNTERS
from virt_dra.allocator.features.distinct_attribute import REPEATED
from virt_dra.allocator.features.in_use import IN_USE, TAKEN
from virt_dra.allocator.features.match_attribute import DIFFERS
from virt_dra.allocator.features.selectors import MISMATCH
from virt_dra.allocator.features.taints import TAINTED
from virt_dra.allocator.model import DeviceId
from virt_dra.api.core_v1 import Container, Node, Pod, ResourceRequirements, Toleration
from virt_dra.api.counting import counted
from virt_dra.api.integration.dedicated_cpus import CPU_MANAGER_LABEL
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import (
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from virt_dra.api.tolerations import taint_text
from virt_dra.matching.facts import conjuncts
from virt_dra.model.claim_nodes import claim_node
from virt_dra.model.launchers import pod_title
from virt_dra.model.usage import DeviceHolder
from virt_dra.scheduling.filters.host_ports import PORT_TAKEN
from virt_dra.scheduling.filters.node_affinity import AFFINITY, NodeSelection
from virt_dra.scheduling.filters.node_resources import INSUFFICIENT, amount_text
from virt_dra.scheduling.filters.pod_affinity import POD_AFFINITY
from virt_dra.scheduling.filters.taints import CORDON_KEY, untolerated
from virt_dra.scheduling.filters.taints import TAINTED as NODE_TAINTED
from virt_dra.scheduling.filters.topology_spread import SPREAD
from virt_dra.scheduling.filters.unschedulable import UNSCHEDULABLE
from virt_dra.scheduling.pod_requests import CPU, MEMORY
from virt_dra.scheduling.why.groups import RefusalGroup
from virt_dra.simulator.explaining.state import ClusterState, Wish

Kind = Literal[
    "free", "stop", "tolerate", "uncordon", "label", "affinity", "resources", "selector", "count", "constraint",
    "capacity",
]  # fmt: skip

TRIALS: Final = 400
"""Placements on one node that all ways out of an answer may cost together."""
_GROUPS, _NODES, _OFFERED = 4, 6, 5
"""Groups and nodes of a group that are looked at, and ways out that are offered, at most."""
_STOPPED: Final = 16
"""Pods that are tried to be stopped on one node for one reason."""
_LEAST: Final = -(2**31)
"""The priority of who is stopped, below all pods'."""
_TOGETHER: Final = 3
"""Holders of which all combinations are tried; more are found by leaving out what isn't needed."""


@dataclass(frozen=True)
class WayStep:
    """One change of a way out. ``text``: ``with gpu-3 of VM team-a/vm freed``. ``frees``: who loses devices."""

    kind: Kind
    text: str
    frees: tuple[DeviceHolder, ...] = ()


@dataclass(frozen=True)
class WayOut:
    """Changes after which the pod was placed on ``node``, where its claims got the devices ``takes``."""

    node: str
    changes: tuple[WayStep, ...]
    takes: tuple[DeviceId, ...] = ()

    @property
    def text(self) -> str:
        return f"{' and '.join(change.text for change in self.changes)} it would start on {self.node}"


@dataclass
class _Budget:
    """Trials that are left; a trial is one pod on one node."""

    left: int = TRIALS

    def fits(self, state: ClusterState, wish: Wish, node: str) -> bool:
        """Whether the pod fits on the node; False, too, once the budget is used up. Raises DeadlineExceeded."""
        if self.left <= 0:
            return False
        self.left -= 1
        return state.fits(wish, node)

    def passes(self, state: ClusterState, wish: Wish, node: str, code: str) -> bool:
        """Whether no filter refuses the node with this code, as :meth:`fits`."""
        if self.left <= 0:
            return False
        self.left -= 1
        return code not in state.codes(wish, node)


@dataclass(frozen=True)
class _Attempt:
    """A node with the changes so far."""

    state: ClusterState
    wish: Wish
    node: str
    changes: tuple[WayStep, ...] = ()
    budget: _Budget = field(default_factory=_Budget)

    def changed(self, change: WayStep, state: ClusterState | None = None, wish: Wish | None = None) -> _Attempt:
        return replace(self, state=state or self.state, wish=wish or self.wish, changes=(*self.changes, change))

    @property
    def there(self) -> Node:
        return self.state.nodes[self.node]

    @property
    def fits(self) -> bool:
        return self.budget.fits(self.state, self.wish, self.node)

    @property
    def way_out(self) -> WayOut:
        """The way out that an attempt which fits found. Raises DeadlineExceeded."""
        allocations = self.state.allocations(self.wish, self.node)
        allocated = [result for allocation in allocations for result in allocation.devices.results]
        takes = tuple(DeviceId(result.driver, result.pool, result.device) for result in allocated)
        return WayOut(self.node, self.changes, takes)


def ways_out(state: ClusterState, wish: Wish, groups: Sequence[RefusalGroup]) -> tuple[WayOut, ...]:
    """The nearest ways out, those with the fewest changes first; none for what can't be mended."""
    budget = _Budget()
    ways: dict[tuple[str, ...], WayOut] = {}
    try:
        for group in groups[:_GROUPS]:
            for name in _promising(state, group):
                for attempt in islice(_mended(_Attempt(state, wish, name, budget=budget), group), 2):
                    texts = tuple(change.text for change in attempt.changes)
                    if texts not in ways:
                        ways[texts] = attempt.way_out
                if len(ways) >= _OFFERED or budget.left <= 0:
                    break
    except DeadlineExceeded:
        pass  # what was found until then is proved all the same
    return tuple(sorted(ways.values(), key=lambda way: len(way.changes)))[:_OFFERED]


def _promising(state: ClusterState, group: RefusalGroup) -> list[str]:
    """Nodes of a group, those first whose pods are of the lowest priority."""
    if not any(reason.code == IN_USE for reason in group.devices):
        return group.nodes[:_NODES]

    def importance(node: str) -> int:
        return min((pod.spec.priority or 0 for pod in state.model.pods_on(node)), default=0)

    return sorted(group.nodes, key=importance)[:_NODES]


def _mended(attempt: _Attempt, group: RefusalGroup) -> Iterator[_Attempt]:
    """The attempt with a change for every reason, as far as the pod then fits."""
    for code in dict.fromkeys(reason.code for reason in group.node_reasons):
        mend = _OF_NODES.get(code)
        if mend is None:
            return
        attempt = mend(attempt)
    if not group.of_devices:
        if attempt.fits:
            yield attempt
        return
    for code in dict.fromkeys(reason.code for reason in group.of_devices):
        for mended in _OF_DEVICES[code](attempt, group) if code in _OF_DEVICES else ():
            if mended.fits:
                yield mended


# --- the node itself -------------------------------------------------------------------------------------------------
# ----------------------------------------------------------------------------------------------------


_STATE_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Begin the keys of taints that say what is wrong with a node: tolerating one doesn't help."""
_NAMES_OF_KUBELET: Final = frozenset({"kubernetes.io/hostname", "kubernetes.io/os", "node.kubernetes.io/instance-type"})
"""Labels that say what a node is, which nobody changes to get a pod there."""


def _uncordoned(attempt: _Attempt) -> _Attempt:
    """The attempt with the node uncordoned, for which the control plane takes the taint away, too."""
    spec = attempt.there.spec
    taints = tuple(taint for taint in spec.taints if taint.key != CORDON_KEY)
    node = attempt.there.with_(spec=spec.with_(unschedulable=False, taints=taints))
    return attempt.changed(WayStep("uncordon", f"with node {node.name} uncordoned"), attempt.state.with_node(node))


def _tolerated(attempt: _Attempt) -> _Attempt:
    """The attempt with tolerations of the node's taints; unchanged where one says that something is wrong with it."""
    taints = list(untolerated(attempt.wish.pod, attempt.there))
    if any(taint.key.startswith(_STATE_TAINTS) for taint in taints):
        return attempt
    for taint in taints:
        more = Toleration(
            key=taint.key, operator="Equal" if taint.value else "Exists", value=taint.value, effect=taint.effect
        )
        spec = attempt.wish.pod.spec
        pod = attempt.wish.pod.with_(spec=spec.with_(tolerations=(*spec.tolerations, more)))
        change = WayStep("tolerate", f"with a toleration of the node's taint {taint_text(taint)}")
        attempt = attempt.changed(change, wish=replace(attempt.wish, pod=pod))
    return attempt


def _admitted(attempt: _Attempt) -> _Attempt:
    """The attempt with a node that has the labels of the nodeSelector, and without a required affinity that it doesn't
    meet. What the kubelet says of a node is taken out of the nodeSelector; unchanged for a label of virt-handler's."""
    missing = NodeSelection(attempt.wish.pod).missing_labels(attempt.there)
    if any(key in (CPU_MANAGER_LABEL, "kubernetes.io/arch") or "kubevirt.io/" in key for key in missing):
        return attempt
    named = sorted(_NAMES_OF_KUBELET.intersection(missing))
    if named:
        pod = attempt.wish.pod
        selector = {key: value for key, value in pod.spec.node_selector.items() if key not in named}
        words = ", ".join(f"{key}={missing[key]}" for key in named)
        attempt = attempt.changed(
            WayStep("affinity", f"without {words} in its nodeSelector"),
            wish=replace(attempt.wish, pod=pod.with_(spec=pod.spec.with_(node_selector=selector))),
        )
        missing = {key: value for key, value in missing.items() if key not in named}
    spec = attempt.wish.pod.spec
    if missing:
        labels = {**attempt.there.metadata.labels, **missing}
        node = attempt.there.with_(metadata=attempt.there.metadata.with_(labels=labels))
        words = ", ".join(f"{key}={value}" for key, value in sorted(missing.items()))
        attempt = attempt.changed(
            WayStep("label", f"with node {node.name} labelled {words}"), attempt.state.with_node(node)
        )
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None and affinity.required is not None and spec.affinity is not None and not attempt.fits:
        relaxed = spec.affinity.with_(node_affinity=affinity.with_(required=None))
        pod = attempt.wish.pod.with_(spec=spec.with_(affinity=relaxed))
        attempt = attempt.changed(
            WayStep("affinity", "without its required node affinity"), wish=replace(attempt.wish, pod=pod)
        )
    return attempt


def _smaller(attempt: _Attempt) -> _Attempt:
    """The attempt with less of what the node has too little of, while some is left; else with another pod stopped."""
    pod, steps = attempt.wish.pod, list[WayStep]()
    for resource, number in sorted(attempt.state.shortage(attempt.wish, attempt.node).items()):
        less = amount_text(resource, number)
        smaller = _asking_less(pod.spec.containers, resource, Quantity(less)) if resource in (CPU, MEMORY) else None
        if smaller is None:
            return _stopped(attempt, INSUFFICIENT)
        pod = pod.with_(spec=pod.spec.with_(containers=smaller))
        steps.append(WayStep("resources", f"with {less} less {resource}"))
    for step in steps:
        attempt = attempt.changed(step, wish=replace(attempt.wish, pod=pod))
    return attempt


def _stopped(attempt: _Attempt, code: str) -> _Attempt:
    """The attempt with a pod stopped that was in the filter's way: of this node first, then the least important. A
    DaemonSet's comes again at once."""
    pods = [pod for pod in attempt.state.running_pods if not _comes_again(pod)]
    nearest = nsmallest(_STOPPED, pods, key=lambda pod: (pod.spec.node_name != attempt.node, pod.spec.priority or 0))
    for pod in nearest:
        user = pod_title(pod)
        stopped = attempt.changed(WayStep("stop", f"with {user} stopped"), attempt.state.without_pod(pod))
        if stopped.budget.passes(stopped.state, stopped.wish, stopped.node, code):
            return stopped
    return attempt


def _comes_again(pod: Pod) -> bool:
    """Whether it is a DaemonSet's or a static pod."""
    owner = pod.metadata.controller_owner
    return owner is not None and owner.kind in ("DaemonSet", "Node")


def _asking_less(containers: Sequence[Container], resource: str, less: Quantity) -> tuple[Container, ...] | None:
    """The containers, of which the one that asks for most asks for so much less; None if nothing were left."""
    amounts = [container.resources.requests.get(resource, Quantity("0")).milli_value() for container in containers]
    most = max(range(len(amounts)), key=amounts.__getitem__, default=None)
    if most is None or amounts[most] <= less.milli_value():
        return None
    quantity = Quantity(f"{amounts[most] - less.milli_value()}m")
    resources: ResourceRequirements = containers[most].resources
    changed = containers[most].with_(resources=resources.with_(requests={**resources.requests, resource: quantity}))
    return (*containers[:most], changed, *containers[most + 1 :])


_OF_NODES: Final[dict[str, Callable[[_Attempt], _Attempt]]] = {
    UNSCHEDULABLE: _uncordoned,
    NODE_TAINTED: _tolerated,
    AFFINITY: _admitted,
    INSUFFICIENT: _smaller,
    PORT_TAKEN: partial(_stopped, code=PORT_TAKEN),
    POD_AFFINITY: partial(_stopped, code=POD_AFFINITY),
    SPREAD: partial(_stopped, code=SPREAD),
}


# --- devices ---------------------------------------------------------------------------------------------------------
# ------------------------------------------------------------------------------------------------------------


def _freed(attempt: _Attempt, group: RefusalGroup) -> Iterator[_Attempt]:
    """The attempt with as few holders of the node's devices gone as possible."""
    holders = _holders_on(attempt)
    groups = _by_user(holders)
    for chosen in chain.from_iterable(combinations(groups, size) for size in range(1, _TOGETHER + 1)):
        freed = _without(attempt, chosen)
        if freed.fits:
            yield freed
            return
        if attempt.budget.left <= 0:
            return
    everything = _without(attempt, groups)
    if len(groups) <= _TOGETHER or not everything.fits:
        return
    needed = list(groups)
    for group_ in reversed(groups):  # the most important first
        fewer = [other for other in needed if other is not group_]
        if _without(attempt, fewer).fits:
            needed = fewer
    yield _without(attempt, needed)


def _holders_on(attempt: _Attempt) -> list[tuple[DeviceId, DeviceHolder]]:
    """The held devices of the node, with their holders; most pools of a node have its name."""
    node = attempt.node
    own = {claim.key for claim in attempt.wish.claims}
    return [
        (device, holder)
        for device, holders in attempt.state.holders.items()
        for holder in holders
        if holder.claim.key not in own
        and (node in (device.pool, claim_node(holder.claim)) or any(user.node == node for user in holder.users))
    ]


def _by_user(held: Iterable[tuple[DeviceId, DeviceHolder]]) -> list[list[tuple[DeviceId, DeviceHolder]]]:
    """The devices of each user together, the least important user first, then the one with the fewest devices."""
    by_user: dict[str, list[tuple[DeviceId, DeviceHolder]]] = {}
    for device, holder in held:
        by_user.setdefault(holder.user, []).append((device, holder))

    def importance(held_devices: list[tuple[DeviceId, DeviceHolder]]) -> tuple[int, int, str]:
        holder = held_devices[0][1]
        priorities = (pod.spec.priority or 0 for pod in holder.pods)
        return max(priorities, default=_LEAST if holder.kept_by else 0), len(held_devices), holder.user

    return sorted(by_user.values(), key=importance)


def _freed_text(held_devices: Sequence[tuple[DeviceId, DeviceHolder]]) -> str:
    holder = held_devices[0][1]
    if not holder.kept_by:
        return f"{_devices(held_devices)} of {holder.user} freed"
    command = f"virt-dra release vm {holder.kept_by} -n {holder.namespace}"
    return f"{_devices(held_devices)} released, which {holder.user} keeps while it is stopped ({command}),"


def _without(attempt: _Attempt, users: Iterable[Sequence[tuple[DeviceId, DeviceHolder]]]) -> _Attempt:
    chosen = list(users)
    holders = tuple({holder.claim.key: holder for held_devices in chosen for _, holder in held_devices}.values())
    parts = [_freed_text(held_devices) for held_devices in chosen]
    change = WayStep("free", f"with {' and '.join(parts)}", holders)
    return attempt.changed(change, attempt.state.without(holders))


def _devices(held: Sequence[tuple[DeviceId, DeviceHolder]]) -> str:
    names = sorted({device.device for device, _ in held})
    return ", ".join(names) if len(names) <= _TOGETHER else counted(len(names), "device")


def _device_tolerated(attempt: _Attempt, group: RefusalGroup) -> Iterator[_Attempt]:
    taints: dict[str, DeviceTaint] = {}
    for devices in group.examples.values():
        for device in devices:
            published = attempt.state.devices.get(device)
            for taint in published.taints if published is not None else ():
                if taint.effect in ("NoSchedule", "NoExecute"):
                    taints.setdefault(f"{taint.key}={taint.value}:{taint.effect}", taint)
    for text, taint in taints.items():
        more = DeviceToleration(
            key=taint.key, operator="Equal" if taint.value else "Exists", value=taint.value, effect=taint.effect
        )

        def tolerating(request: _AnyRequest, more: DeviceToleration = more) -> _AnyRequest:
            return request.with_(tolerations=(*request.tolerations, more))

        change = WayStep(
            "tolerate", f"with a toleration of the device taint {text.replace('=:', ':')} in request {group.request}"
        )
        yield from _with_request(attempt, group, change, tolerating)


def _without_selector(attempt: _Attempt, group: RefusalGroup) -> Iterator[_Attempt]:
    """The attempt without the part of the request's own selectors that is false; a class's can't be given up."""
    for reason in group.devices:
        if reason.code != MISMATCH or not reason.term:
            continue

        def relaxed(request: _AnyRequest, term: str = reason.term) -> _AnyRequest:
            return request.with_(selectors=tuple(_selectors_without(request.selectors, term)))

        where = (
            f"accepted a device whose {reason.text}"
            if reason.text.count(" is ") == 1
            else f"did not ask for {reason.term}"
        )
        change = WayStep("selector", f"if request {group.request} {where}")
        yield from _with_request(attempt, group, change, relaxed)


def _selectors_without(selectors: Iterable[DeviceSelector], part: str) -> Iterator[DeviceSelector]:
    for selector in selectors:
        parts = conjuncts(selector.cel.expression) if selector.cel is not None else ()
        left = [f"({other})" for other in parts if other != part]
        if selector.cel is None or part not in parts:
            yield selector
        elif left:
            yield selector.with_(cel=selector.cel.with_(expression=" && ".join(left)))


def _fewer(attempt: _Attempt, group: RefusalGroup) -> Iterator[_Attempt]:
    """The attempt with as many devices as there are."""
    if 0 < group.placed < group.wanted:
        number = group.placed

        def counting(request: _AnyRequest) -> _AnyRequest:
            return request.with_(count=number) if request.allocation_mode != "All" else request

        text = f"with {counted(number, 'device')} instead of {group.wanted} in request {group.request}"
        yield from _with_request(attempt, group, WayStep("count", text), counting)


def _freed_or_fewer(attempt: _Attempt, group: RefusalGroup) -> Iterator[_Attempt]:
    yield from _freed(attempt, group)
    yield from _fewer(attempt, group)


def _without_constraint(attempt: _Attempt, group: RefusalGroup) -> Iterator[_Attempt]:
    claim = _claim(attempt, group)
    for number, constraint in enumerate(claim.spec.devices.constraints if claim is not None else ()):
        if claim is None:
            return
        devices = claim.spec.devices
        left = (*devices.constraints[:number], *devices.constraints[number + 1 :])
        relaxed = claim.with_(spec=claim.spec.with_(devices=devices.with_(constraints=left)))
        kind = "matchAttribute" if constraint.match_attribute else "distinctAttribute"
        name = constraint.match_attribute or constraint.distinct_attribute or ""
        text = f"without the constraint {kind} {name} of claim {claim.name}"
        yield attempt.changed(WayStep("constraint", text), wish=attempt.wish.with_claim(relaxed))
    yield from _freed(attempt, group)


def _less_capacity(attempt: _Attempt, group: RefusalGroup) -> Iterator[_Attempt]:
    """The attempt with as much capacity as the largest of the devices has."""
    examples = [device for devices in group.examples.values() for device in devices]
    published = [attempt.state.devices[device] for device in examples if device in attempt.state.devices]
    largest: dict[str, Quantity] = {}
    for device in published:
        for name, capacity in device.capacity.items():
            if name not in largest or capacity.value.value() > largest[name].value():
                largest[name] = capacity.value

    def smaller(request: _AnyRequest) -> _AnyRequest:
        if request.capacity is None:
            return request
        less = {name: _at_most(amount, largest.get(name)) for name, amount in request.capacity.requests.items()}
        return request.with_(capacity=request.capacity.with_(requests=less))

    claim = _claim(attempt, group)
    request = _request(claim, group.request) if claim is not None else None
    if request is None or smaller(request) == request:
        return
    asked = {} if request.capacity is None else request.capacity.requests
    parts = [
        f"{largest[n]} instead of {a} of {n}" for n, a in sorted(asked.items()) if _at_most(a, largest.get(n)) is not a
    ]
    yield from _with_request(
        attempt, group, WayStep("capacity", f"with {', '.join(parts)} in request {group.request}"), smaller
    )


def _at_most(amount: Quantity, limit: Quantity | None) -> Quantity:
    return limit if limit is not None and amount.value() > limit.value() else amount


_OF_DEVICES: Final[dict[str, Callable[[_Attempt, RefusalGroup], Iterator[_Attempt]]]] = {
    IN_USE: _freed_or_fewer,
    TAKEN: _freed_or_fewer,
    TOO_FEW: _freed_or_fewer,
    EXHAUSTED: _freed,
    COUNTERS: _freed,
    TAINTED: _device_tolerated,
    MISMATCH: _without_selector,
    DIFFERS: _without_constraint,
    REPEATED: _without_constraint,
    MISSING: _without_constraint,
    TOO_SMALL: _less_capacity,
}


# --- requests of claims -----------------------------------------------------------------------------------------------

_AnyRequest = ExactDeviceRequest | DeviceSubRequest


def _claim(attempt: _Attempt, group: RefusalGroup) -> ResourceClaim | None:
    return next((claim for claim in attempt.wish.claims if claim.key == group.claim), None)


def _request(claim: ResourceClaim, name: str) -> _AnyRequest | None:
    """The request of this name. ``name``: ``request`` or ``request/alternative``."""
    own, _, alternative = name.partition("/")
    request = next((request for request in claim.spec.devices.requests if request.name == own), None)
    if request is None or not alternative:
        return None if request is None else request.exactly
    return next((subrequest for subrequest in request.first_available if subrequest.name == alternative), None)


def _with_request(
    attempt: _Attempt, group: RefusalGroup, change: WayStep, changed: Callable[[_AnyRequest], _AnyRequest]
) -> Iterator[_Attempt]:
    claim = _claim(attempt, group)
    if claim is None or _request(claim, group.request) is None:
        return
    own, _, alternative = group.request.partition("/")
    devices = claim.spec.devices
    requests = tuple(
        _replaced(request, alternative, changed) if request.name == own else request for request in devices.requests
    )
    claim = claim.with_(spec=claim.spec.with_(devices=devices.with_(requests=requests)))
    yield attempt.changed(change, wish=attempt.wish.with_claim(claim))


def _replaced(request: DeviceRequest, alternative: str, changed: Callable[[_AnyRequest], _AnyRequest]) -> DeviceRequest:
    if request.exactly is not None and not alternative:
        return request.with_(exactly=changed(request.exactly))
    first = tuple(
        changed(subrequest) if subrequest.name == alternative else subrequest for subrequest in request.first_available
    )
    return request.with_(first_available=first)
