"""The advisor: knows nodes, devices, claims and pods, and scores the nodes that fit a pod by a placement policy.

kube-scheduler asks for the next pod before the choice for the one before is visible anywhere. So the advisor assumes
that each pod goes to the node that it gave the highest priority, until the claims' allocations appear in the cluster,
or some seconds later.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Final, Literal

from virt_dra.allocator import DeadlineExceeded, FatalError, Features, NodeError, Snapshot
from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.integration.paths import POLICY_ANNOTATION
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim
from virt_dra.extender.protocol import ExtenderArguments, best_node, priorities
from virt_dra.fairness.use import Tenant, TenantUse, TooSlow
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.extended_resources import served_resources
from virt_dra.model.kinds import READ
from virt_dra.model.snapshots import unused_snapshot
from virt_dra.scheduling.claim_references import Resolved, UnsupportedClaimSource, claim_name
from virt_dra.scheduling.filters.host_ports import host_ports
from virt_dra.scheduling.fit import namespace_labels
from virt_dra.scheduling.pod_requests import pod_requests
from virt_dra.scheduling.policies.catalog import POLICIES, policy_named
from virt_dra.scheduling.policies.fragmentation import TypicalWorkload
from virt_dra.scheduling.policies.placer import PolicyPlacer, VmShape, card_catalog, relates_to_pods
from virt_dra.scheduling.policies.policy import NodesOnly, Score
from virt_dra.scheduling.policies.typical import TypicalVms

_ASSUMED_SECONDS: Final = 10.0
"""kube-scheduler has written a claim's allocation within milliseconds; after so long it hasn't taken our node."""
_MOST_ASSUMED: Final = 2_000
_MOST_SHAPES: Final = 64
"""Kinds of pods whose scores are kept. Beyond it the one that was asked for longest ago is forgotten, if possible one
that wasn't scored yet."""
_MOST_UNFINISHED: Final = 1_024
_UPDATE_SECONDS: Final = 0.005
"""What bringing scores that are kept up to date may take before it is an evaluation."""
_MOST_TYPICAL: Final = 50
"""Kinds of pods in that workload, those of which there are most: each may cost one answer's time."""
_HALF_LIFE: Final = 10.0
"""Seconds after which half of what a namespace has used is forgotten."""
_NAMESPACE_SECONDS: Final = 1.0
_ALL_SECONDS: Final = 3.0
"""What the pods of a namespace, and all together, may have used: in the long run 7 and 21 per cent of the time."""
_LEAST_SECONDS: Final = 0.1
"""What every answer may take that is given: several times of what one takes whose scores are kept."""
_TYPICAL_SECONDS: Final = 300.0
"""How long the workload that `least-fragmentation` expects stays what the cluster's pods were."""

AdviceVerdict = Literal[
    "scored",
    "no claims",
    "claims allocated",
    "claims missing",
    "unknown policy",
    "too slow",
    "over its share",
    "invalid claims",
    "unfinished",
]
"""What became of a request; all but the first: the extender has no preference. Unfinished: it may be asked again, and
then goes on where it ended."""


@dataclass(frozen=True)
class Advice:
    """The answer about a pod. ``scores``: of the nodes that were asked for, in their order; None without a
    preference."""

    verdict: AdviceVerdict
    policy: str = ""
    scores: tuple[Score | None, ...] | None = None


@dataclass(frozen=True)
class _PodClaims:
    """The claims of a pod. ``wanted``: claims that kube-scheduler will allocate; ``held``: what the pod's others have,
    which binds it to nodes; ``by_devices``: extended resources that devices may serve beside them."""

    wanted: tuple[ResourceClaim, ...]
    held: tuple[AllocationResult, ...] = ()
    by_devices: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Placed:
    """The place of a pod; "" for one that is counted otherwise."""

    node: str
    pod: Pod


@dataclass
class _Assumed:
    """A pod that kube-scheduler is about to place. ``allocations``: by the claim's UID, those that the cluster doesn't
    show yet."""

    placed: _Placed
    allocations: dict[str, AllocationResult]
    until: float


@dataclass
class _TimeLimit:
    """The time limit of evaluations; it begins with the first of them."""

    clock: Callable[[], float]
    allowed: float = inf
    began: float | None = None

    def restart(self, allowed: float) -> None:
        self.allowed, self.began = allowed, None

    def over(self) -> bool:
        now = self.clock()
        if self.began is None:
            self.began = now
        return now >= self.began + self.allowed

    @property
    def used(self) -> float:
        return 0.0 if self.began is None else self.clock() - self.began


@dataclass
class _Placers:
    """A placer per policy, for nodes, slices and classes that stay."""

    numbers: Mapping[str, int]
    """Node -> its number."""
    base: PolicyPlacer
    """That of `first-fit`: knows what is in use."""
    by_policy: dict[str, tuple[PolicyPlacer, float]] = field(default_factory=dict)
    """With the time from which it is made anew."""

    def all(self) -> list[PolicyPlacer]:
        return [self.base, *(placer for placer, _ in self.by_policy.values())]

    def use_devices(self, results: Sequence[AllocationResult], by: int) -> None:
        for placer in self.all():
            placer.use_devices(results, by)

    def use_room(self, placed: _Placed, by: int) -> None:
        number = self.numbers.get(placed.node)
        if number is not None:
            for placer in self.all():
                placer.use_pod(number, placed.pod, by)


class Advisor:
    """Gets objects by :meth:`put` and :meth:`remove`. ``clock``: seconds that only grow; ``draw``: a number in [0,
    1)."""

    def __init__(
        self,
        policy: str,
        features: Features,
        clock: Callable[[], float],
        draw: Callable[[], float],
        seconds: float = 1.0,
        processor: Callable[[], float] | None = None,
    ) -> None:
        """``policy``: where neither pod nor namespace names one; ``seconds``: limit of one answer; ``processor``:
        seconds of the processor, by which answers are limited and namespaces charged (a busy machine isn't their
        fault); ``clock`` if None.

        Raises KeyError for a policy that isn't among POLICIES."""
        if policy not in POLICIES:
            raise KeyError(policy)
        self._policy, self._features, self._clock, self._draw, self._seconds = policy, features, clock, draw, seconds
        self._model = ClusterModel()
        self._placed: dict[str, _Placed] = {}
        """Pods on nodes, by UID."""
        self._allocated: dict[str, AllocationResult] = {}
        """What claims have, by UID."""
        self._counted: dict[str, AllocationResult] = {}
        """What the placers count as in use: of claims that have it, and of assumed pods; by the claim's UID."""
        self._assumed: dict[str, _Assumed] = {}
        """By the pod's UID, the oldest first."""
        self._placers: _Placers | None = None
        self._outdated = True
        """Whether nodes, slices, classes or rules changed since the placers were made."""
        self._remake_at = 0.0
        self._shapes: OrderedDict[object, VmShape] = OrderedDict()
        """By what their pods ask for; the one that was asked for the longest ago is first."""
        self._unfinished: OrderedDict[object, float] = OrderedDict()
        """Seconds that evaluations of a shape took until now, by its key."""
        self._processor = processor or clock
        self._limit, self._typical_limit = _TimeLimit(self._processor), _TimeLimit(self._processor)
        self._use = TenantUse(clock, _HALF_LIFE)
        self._kept = True
        """Whether pods like that of this answer have been scored before."""
        self._too_slow = TooSlow(clock)

    # --- what is known --------------------------------------------------------------------------------------------

    def put(self, obj: TypedObject) -> None:
        """An object is there, or has changed. Raises TypeError for a kind that the extender doesn't read."""
        if type(obj) not in READ["extender"].all:
            raise TypeError(f"the extender has no use for a {obj.KIND}")
        before = self._model.by_key(type(obj)).get(obj.key)
        if before is not None and before.metadata.uid != obj.metadata.uid:
            self._gone(before)
        self._model = self._model.changed([obj])
        if isinstance(obj, Pod):
            self._place(obj.metadata.uid, _Placed(obj.spec.node_name or "", obj) if obj.takes_room else None)
        elif isinstance(obj, ResourceClaim):
            self._allocate(obj.metadata.uid, obj.status.allocation)
        else:
            self._outdated = self._outdated or not isinstance(obj, Namespace)

    def remove(self, kind: type[TypedObject], key: str) -> None:
        """An object is gone. ``key``: ``namespace/name``, or the name of a cluster-scoped one."""
        before = self._model.by_key(kind).get(key)
        if before is not None:
            self._model = self._model.changed(removed=[before])
            self._gone(before)

    def _gone(self, obj: TypedObject) -> None:
        if isinstance(obj, Pod):
            self._place(obj.metadata.uid, None)
        elif isinstance(obj, ResourceClaim):
            self._allocate(obj.metadata.uid, None)
        else:
            self._outdated = self._outdated or not isinstance(obj, Namespace)

    def _place(self, uid: str, placed: _Placed | None) -> None:
        """Records whether a pod is on a node, in place of what was assumed about it."""
        assumed = self._assumed.get(uid)
        if assumed is not None and placed is not None:
            # Its allocations stay until the claims show theirs, which may come later.
            self._use_room(assumed.placed, -1)
            assumed.placed = _Placed("", assumed.placed.pod)
        before = self._placed.pop(uid, None)
        if before is not None:
            self._use_room(before, -1)
        if placed is not None:
            self._placed[uid] = placed
            self._use_room(placed, 1)

    def _allocate(self, uid: str, allocation: AllocationResult | None) -> None:
        """Records a claim's allocation or its end. An allocation replaces what was assumed about the claim."""
        if allocation is None:
            self._allocated.pop(uid, None)
        else:
            self._allocated[uid] = allocation
            for assumed in self._assumed.values():
                assumed.allocations.pop(uid, None)
        self._count(uid)

    def _count(self, uid: str) -> None:
        """Bring the placers up to date for one claim."""
        wanted = self._allocated.get(uid) or next(
            (assumed.allocations[uid] for assumed in self._assumed.values() if uid in assumed.allocations), None
        )
        counted = self._counted.get(uid)
        if counted is wanted or (
            counted is not None and wanted is not None and counted.devices.results == wanted.devices.results
        ):
            return
        if wanted is None:
            del self._counted[uid]
        else:
            self._counted[uid] = wanted
        if self._placers is not None:
            if counted is not None:
                self._placers.use_devices([counted], -1)
            if wanted is not None:
                self._placers.use_devices([wanted], 1)

    def _use_room(self, placed: _Placed, by: int) -> None:
        if self._placers is not None and placed.node:
            self._placers.use_room(placed, by)

    def prepare(self) -> None:
        """Take changes of nodes, slices, classes and rules into account: all anew, in a tenth of the time at most.

        Until then answers go by what was known before. kube-scheduler doesn't wait for this if it is called between
        requests.
        """
        if self._outdated and self._clock() >= self._remake_at:
            self._remake()
            self._limit.restart(inf)
            self._typical_limit.restart(inf)
            self._placer(self._policy)

    # --- answers --------------------------------------------------------------------------------------------------

    def prioritize(self, asked: ExtenderArguments, turn: float = inf) -> tuple[Advice, Mapping[str, int]]:
        """The priority of each node. From now on the pod counts as placed on the best one. ``turn``: seconds after
        which evaluations are left unfinished; with 0 there are none, and only scores that are kept are given."""
        with self._charged(asked.pod):
            advice = self._advice(asked, turn)
            if advice.scores is None:
                return advice, dict.fromkeys(asked.nodes, 0)
            best = best_node(asked.nodes, advice.scores)
            if best is not None:
                self._assume(asked.pod, best)
            return advice, priorities(asked.nodes, advice.scores)

    def filter(self, asked: ExtenderArguments, turn: float = inf) -> tuple[Advice, Mapping[str, str]]:
        """Why the claims don't fit on nodes. If they fit on one only, the pod counts as placed there: kube-scheduler
        stops asking. ``turn``: as in :meth:`prioritize`."""
        with self._charged(asked.pod):
            advice = self._advice(asked, turn)
            refused = self._refused(asked, advice)
            if advice.scores is not None and len(refused) == len(asked.nodes) - 1:
                self._assume(asked.pod, next(name for name in asked.nodes if name not in refused))
            return advice, refused

    def _refused(self, asked: ExtenderArguments, advice: Advice) -> dict[str, str]:
        """The nodes that the pod doesn't fit on, each with the refusal in kube-scheduler's words."""
        claims = self._claims_of(asked.pod)
        if not isinstance(claims, _PodClaims) or advice.scores is None:
            return {}
        shape = self._shape(_shape_key(asked.pod, claims), asked.pod, claims)
        placer, numbers = self._placer(advice.policy), self._current().numbers
        refusals = (
            (name, placer.refusal(shape, numbers[name]))
            for name, score in zip(asked.nodes, advice.scores, strict=True)
            if score is None and name in numbers
        )
        return {name: refusal.message for name, refusal in refusals if refusal is not None}

    @contextmanager
    def _charged(self, pod: Pod) -> Iterator[None]:
        """An answer, whose seconds are charged to the pod's namespace, unless they are few by scores that were kept."""
        began, self._kept = self._processor(), True
        try:
            yield
        finally:
            seconds = self._processor() - began
            if seconds > _LEAST_SECONDS or not self._kept:
                self._use.add(_tenant(pod), seconds)

    def _seconds_for(self, pod: Pod) -> float:
        """What an answer may take, by what its namespace and all have used; 0: nothing. kube-scheduler asks for one pod
        after the other, so that whoever is next waits for it."""
        tenant = _tenant(pod)
        left = min(_NAMESPACE_SECONDS - self._use.of(tenant), _ALL_SECONDS - self._use.of(tenant[:1]))
        return min(self._seconds, max(left, _LEAST_SECONDS)) if left > 0 or self._kept else 0.0

    def _advice(self, asked: ExtenderArguments, turn: float) -> Advice:
        pod = asked.pod
        self._forget(pod.metadata.uid)
        claims = self._claims_of(pod)
        if not isinstance(claims, _PodClaims):
            return Advice(claims)
        namespace = self._model.by_key(Namespace).get(pod.namespace)
        own = namespace.metadata.annotations.get(POLICY_ANNOTATION) if namespace is not None else None
        policy = pod.metadata.annotations.get(POLICY_ANNOTATION) or own or self._policy
        if policy not in POLICIES:
            return Advice("unknown policy")
        key = _shape_key(pod, claims)
        tenant, work = _tenant(pod), hash((policy, key))
        if self._too_slow.has(tenant, work):
            return Advice("too slow", policy)
        self._kept = key in self._shapes and key not in self._unfinished
        seconds = self._seconds_for(pod)
        if not seconds:
            return Advice("over its share", policy)
        if not turn and not self._kept:
            return Advice("unfinished", policy)
        used = self._unfinished.get(key, 0.0)
        self._limit.restart(min(turn or _UPDATE_SECONDS, max(seconds - used, _LEAST_SECONDS)))
        self._typical_limit.restart(self._seconds)
        try:
            scores = self._scores(policy, self._shape(key, pod, claims), asked.nodes)
        except DeadlineExceeded:
            used += self._limit.used
            if turn and used >= seconds:
                self._unfinished.pop(key, None)
                self._too_slow.add(tenant, work)
                return Advice("too slow", policy)
            self._leave_unfinished(key, used)
            return Advice("unfinished", policy)
        except FatalError:
            return Advice("invalid claims", policy)
        self._unfinished.pop(key, None)
        self._limit.restart(_LEAST_SECONDS)  # for what is done with the scores
        return Advice("scored", policy, scores)

    def _leave_unfinished(self, key: object, used: float) -> None:
        self._unfinished[key] = used
        while len(self._unfinished) > _MOST_UNFINISHED:
            self._unfinished.popitem(last=False)

    def _claims_of(self, pod: Pod) -> _PodClaims | AdviceVerdict:
        """A pod's claims, of which kube-scheduler will allocate some."""
        if not pod.spec.resource_claims:
            return "no claims"
        claims = self._named_claims(pod)
        if claims is None:
            return "claims missing"
        allocations = tuple([self._allocated.get(claim.metadata.uid) for claim in claims])
        wanted = tuple([claim for claim, has in zip(claims, allocations, strict=True) if has is None])
        held = tuple([allocation for allocation in allocations if allocation is not None])
        return _PodClaims(wanted, held, self._served_of(pod)) if wanted else "claims allocated"

    def _served_of(self, pod: Pod) -> frozenset[str]:
        """The pod's extended resources that devices serve by their class; kube-scheduler makes a claim for them, or
        finds that a device plugin offers them, before it asks."""
        served = served_resources(self._model)
        return frozenset(name for name in pod_requests(pod) if served.class_of(name) is not None)

    def _named_claims(self, pod: Pod) -> list[ResourceClaim] | None:
        by_name: dict[str, ResourceClaim] = {}
        for entry in pod.spec.resource_claims:
            try:
                name = claim_name(pod, entry)
            except UnsupportedClaimSource:
                return None
            if isinstance(name, Resolved):
                claim = self._model.claims.get(f"{pod.namespace}/{name.name}")
                if claim is None:
                    return None
                by_name[claim.name] = claim
            elif entry.resource_claim_template_name is not None and not any(
                status.name == entry.name for status in pod.status.resource_claim_statuses
            ):
                return None
        return list(by_name.values())

    def _shape(self, key: object, pod: Pod, claims: _PodClaims) -> VmShape:
        """The shape of a pod: the same object for pods that ask for the same, whose key is equal."""
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= _MOST_SHAPES:
                oldest = next(iter(self._shapes))
                forgotten = self._shapes.pop(next(filter(self._unfinished.__contains__, self._shapes), oldest))
                for placer in self._placers.all() if self._placers is not None else ():
                    placer.forget(forgotten)
            shape = self._shapes[key] = VmShape(
                pod.name, pod, claims.wanted, shared=claims.held, by_devices=claims.by_devices
            )
        self._shapes.move_to_end(key)
        return shape

    def _scores(self, policy: str, shape: VmShape, nodes: Sequence[str]) -> tuple[Score | None, ...]:
        placer = self._placer(policy)
        numbers = self._current().numbers
        scores = iter(placer.scores(shape, [numbers[name] for name in nodes if name in numbers]))
        return tuple([next(scores) if name in numbers else None for name in nodes])

    # --- assumptions ----------------------------------------------------------------------------------------------

    def _assume(self, pod: Pod, node: str) -> None:
        claims = self._claims_of(pod)
        if not isinstance(claims, _PodClaims):
            return
        current = self._current()
        if node not in current.numbers:
            return
        try:
            results = current.base.allocate(claims.wanted, current.numbers[node])
        except (DeadlineExceeded, FatalError, NodeError):
            return
        if results is None:
            return
        if len(self._assumed) >= _MOST_ASSUMED:
            self._drop(next(iter(self._assumed)))
        uid = pod.metadata.uid
        self._assumed[uid] = _Assumed(
            _Placed(node, pod),
            {claim.metadata.uid: result for claim, result in zip(claims.wanted, results, strict=True)},
            self._clock() + _ASSUMED_SECONDS,
        )
        for claim in claims.wanted:
            self._count(claim.metadata.uid)
        self._use_room(self._assumed[uid].placed, 1)

    def _forget(self, uid: str) -> None:
        """What is over: assumptions of some time ago, and that about a pod that is asked for again."""
        now = self._clock()
        for pod, assumed in list(self._assumed.items()):
            if pod == uid or assumed.until <= now or _is_over(assumed):
                self._drop(pod)

    def _drop(self, uid: str) -> None:
        assumed = self._assumed.pop(uid)
        self._use_room(assumed.placed, -1)
        for claim in assumed.allocations:
            self._count(claim)

    # --- placers --------------------------------------------------------------------------------------------------

    def _current(self) -> _Placers:
        return self._placers or self._remake()

    def _remake(self) -> _Placers:
        began = self._clock()
        nodes = self._model.of(Node)
        used = unused_snapshot(self._model).with_allocation(*self._counted.values())
        base = self._new_placer(used, nodes, "first-fit")
        placers = self._placers = _Placers({node.name: number for number, node in enumerate(nodes)}, base)
        for placed in (*self._placed.values(), *(assumed.placed for assumed in self._assumed.values())):
            self._use_room(placed, 1)
        self._outdated, self._remake_at = False, self._clock() + 10 * (self._clock() - began)
        return placers

    def _placer(self, policy: str) -> PolicyPlacer:
        current, now = self._current(), self._clock()
        current_placer = current.by_policy.get(policy)
        if current_placer is None or current_placer[1] <= now:
            base = current.base
            placer = self._new_placer(base.snapshot, base.nodes, policy)
            placer.take_over_pods(base)
            until = now + _TYPICAL_SECONDS if policy == "least-fragmentation" else float("inf")
            current_placer = current.by_policy[policy] = placer, until
        return current_placer[0]

    def _new_placer(self, snapshot: Snapshot, nodes: Sequence[Node], policy: str) -> PolicyPlacer:
        catalog = card_catalog(snapshot, self._features)

        def typical() -> TypicalWorkload:
            shapes: dict[object, VmShape] = {}
            weights: Counter[VmShape] = Counter()
            for pod in self._model.of(Pod):
                named = self._named_claims(pod) if pod.spec.resource_claims else None
                if named:
                    claims = _PodClaims(tuple(named))
                    weights[shapes.setdefault(_shape_key(pod, claims), VmShape(pod.name, pod, claims.wanted))] += 1
            most = dict(weights.most_common(_MOST_TYPICAL))
            return TypicalVms(most, nodes, snapshot, catalog, self._features, self._typical_limit.over).workload

        chosen = policy_named(policy, typical, self._draw)
        return PolicyPlacer(
            snapshot,
            nodes,
            NodesOnly(chosen),
            catalog,
            self._features,
            labels_of=namespace_labels(self._model),
            interrupt=self._limit.over,
        )


_WISHES: Final = {"node_selector", "affinity", "tolerations", "topology_spread_constraints"}


def _tenant(pod: Pod) -> Tenant:
    return "pods", pod.namespace


def _shape_key(pod: Pod, claims: _PodClaims) -> object:
    """Equal for pods that ask for the same."""
    specs = tuple([claim.spec.model_dump_json(by_alias=True, exclude_unset=True) for claim in claims.wanted])
    where = tuple([held.node_selector.model_dump_json() for held in claims.held if held.node_selector is not None])
    whom = (pod.namespace, frozenset(pod.metadata.labels.items())) if relates_to_pods(pod) else None
    requests, wishes = frozenset(pod_requests(pod).items()), pod.spec.model_dump_json(include=_WISHES)
    return specs, where, requests, wishes, host_ports(pod), whom, claims.by_devices


def _is_over(assumed: _Assumed) -> bool:
    """Whether the cluster shows all of it."""
    return not assumed.placed.node and not assumed.allocations
