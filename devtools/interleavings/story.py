"""What users and kubelets do in a history: episodes made from a seed. Within one, what is left doesn't depend on the
order of events.

So pods never compete for devices or names, and a step whose result depends on the moment begins an episode of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from virt_dra.api.core_v1 import FINISHED, Namespace, Node, Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.scheduling_v1 import PodGroup
from virt_dra.api.wire import Json

NAMESPACE = "play"
NODES = 3
DEVICES = 48
"""On each node; more than the pods of a story can ask for together."""
MOST_PODS = 5
"""Made in one episode."""
SPEC: Json = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
RESOURCE = "example.com/gpu"
"""The extended resource that devices serve."""
RULE = "broken"


@dataclass(frozen=True)
class Step:
    """``wait``: seconds before it."""

    do: Literal["create", "finish", "delete", "stop"]
    kind: type[TypedObject]
    name: str
    obj: TypedObject | None = None
    wait: float = 0.0
    phase: str = "Succeeded"


@dataclass(frozen=True)
class Episode:
    name: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Story:
    given: tuple[TypedObject, ...]
    episodes: tuple[Episode, ...]


def story(seed: int, *, groups: bool = False) -> Story:
    """The story of a seed, with PodGroups if the cluster has them."""
    return _Author(Random(seed), groups).story()


@dataclass
class _Author:
    chance: Random
    with_groups: bool
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 1000)))
    alive: dict[str, list[str]] = field(default_factory=dict)
    """Pods that run or wait -> the direct claims that they use."""
    direct: list[str] = field(default_factory=list)
    templates: list[str] = field(default_factory=list)
    groups: dict[str, list[str]] = field(default_factory=dict)
    """PodGroups -> their pods."""
    broken: bool = False

    def story(self) -> Story:
        episodes: list[Episode] = []
        for _ in range(self.chance.randint(2, 4)):
            was_broken = self.broken
            episodes.append(self._episode())
            if was_broken:
                # Not in the same episode: a pod that gets a device before taint eviction knows that the taint is gone
                # is evicted or not.
                episodes.append(Episode("pods come again", tuple(self._pods_come())))
        return Story(tuple(_cluster()), tuple(episodes))

    def _episode(self) -> Episode:
        choices = [self._pods_come] if not self.broken else [self._repaired]
        if self.with_groups and not self.broken:
            choices += [self._group_comes, self._group_comes, *([self._group_goes] if self.groups else [])]
        if self.alive and not self.broken:
            choices += [self._pods_go, self._pods_go, self._pods_come, self._breaks]
            if any(self.alive.values()):
                choices += [self._claim_goes, self._bound_by_hand]
        made = self.chance.choice(choices)
        steps = [step for step in made() if step is not None]
        return Episode(made.__name__.strip("_").replace("_", " "), tuple(steps))

    def _pods_come(self) -> list[Step]:
        steps: list[Step] = []
        if not self.templates or self.chance.random() < 0.3:
            name = f"t{next(self.numbers)}"
            self.templates.append(name)
            steps.append(self._create(ResourceClaimTemplate, name, {"spec": SPEC}))
        if not self.direct or self.chance.random() < 0.3:
            name = f"c{next(self.numbers)}"
            self.direct.append(name)
            steps.append(self._create(ResourceClaim, name, SPEC))
        for _ in range(self.chance.randint(1, MOST_PODS)):
            name = f"p{next(self.numbers)}"
            entries = [self._entry(0), *(self._templated(1) for _ in range(self.chance.randint(0, 1)))]
            extended = self.chance.choice((0, 0, 0, 1, 2))
            if extended and self.chance.random() < 0.5:
                entries = []
            self.alive[name] = [entry["resourceClaimName"] for entry in entries if "resourceClaimName" in entry]
            steps.append(self._create(Pod, name, _pod_spec(entries, extended)))
        self.chance.shuffle(steps)  # a template may come after its pods
        return steps

    def _entry(self, number: int) -> Json:
        if self.chance.random() < 0.6:
            return self._templated(number)
        return {"name": f"e{number}", "resourceClaimName": self.chance.choice(self.direct)}

    def _templated(self, number: int) -> Json:
        """A pod has one direct claim at most: two could be on different nodes."""
        return {"name": f"e{number}", "resourceClaimTemplateName": self.chance.choice(self.templates)}

    def _pods_go(self) -> list[Step]:
        steps: list[Step] = []
        for name in self.chance.sample(sorted(self.alive), self.chance.randint(1, len(self.alive))):
            del self.alive[name]
            if self.chance.random() < 0.5:
                steps.append(self._step("finish", Pod, name, phase=self.chance.choice(FINISHED)))
            else:
                steps += [self._step("delete", Pod, name), self._step("stop", Pod, name)]
        return steps

    def _group_comes(self) -> list[Step]:
        """A PodGroup with a claim that its pods share; they may come before it."""
        template, name = f"t{next(self.numbers)}", f"g{next(self.numbers)}"
        entry = {"name": "e0", "resourceClaimTemplateName": template}
        steps = [
            self._create(ResourceClaimTemplate, template, {"spec": SPEC}),
            self._create(PodGroup, name, {"schedulingPolicy": {"basic": {}}, "resourceClaims": [entry]}),
        ]
        pods = [f"p{next(self.numbers)}" for _ in range(self.chance.randint(1, 3))]
        spec = {**_pod_spec([entry]), "schedulingGroup": {"podGroupName": name}}
        steps += [self._create(Pod, pod, spec) for pod in pods]
        self.groups[name] = pods
        self.chance.shuffle(steps)
        return steps

    def _group_goes(self) -> list[Step]:
        """A PodGroup is deleted, and its pods finish or go, in any order."""
        name = self.chance.choice(sorted(self.groups))
        steps = [self._step("delete", PodGroup, name)]
        steps += [
            self._step("finish" if self.chance.random() < 0.5 else "stop", Pod, pod) for pod in self.groups.pop(name)
        ]
        self.chance.shuffle(steps)
        return steps

    def _claim_goes(self) -> list[Step]:
        """A claim in use is deleted; then its pods go, one after the other."""
        claim = self.chance.choice(sorted({claim for claims in self.alive.values() for claim in claims}))
        self.direct.remove(claim)
        users = [name for name, claims in sorted(self.alive.items()) if claim in claims]
        steps = [self._step("delete", ResourceClaim, claim)]
        for name in users:
            del self.alive[name]
            steps.append(self._step("finish", Pod, name))
        return steps

    def _bound_by_hand(self) -> list[Step]:
        """A pod comes with a node and uses a claim that others have got allocated."""
        claim = self.chance.choice(sorted({claim for claims in self.alive.values() for claim in claims}))
        name = f"p{next(self.numbers)}"
        self.alive[name] = [claim]
        spec = {**_pod_spec([{"name": "e0", "resourceClaimName": claim}]), "nodeName": "n0"}
        return [self._create(Pod, name, spec)]

    def _breaks(self) -> list[Step]:
        """All devices are tainted: the pods that use them are evicted."""
        self.broken = True
        self.alive = {}
        self.groups = {name: [] for name in self.groups}
        taint = {"key": "example.com/broken", "effect": "NoExecute"}
        raw = {"metadata": {"name": RULE}, "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": taint}}
        return [Step("create", DeviceTaintRule, RULE, DeviceTaintRule.from_wire(raw), self._pause())]

    def _repaired(self) -> list[Step]:
        self.broken = False
        return [self._step("delete", DeviceTaintRule, RULE)]

    def _create(self, kind: type[TypedObject], name: str, spec: Json) -> Step:
        return Step(
            "create",
            kind,
            name,
            kind.from_wire({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}),
            self._pause(),
        )

    def _step(self, do: Literal["finish", "delete", "stop"], kind: type[TypedObject], name: str, **more: Any) -> Step:
        return Step(do, kind, name, wait=self._pause(), **more)

    def _pause(self) -> float:
        """Mostly none."""
        return self.chance.choice((0.0, 0.0, 0.0, 0.05, 0.3, 2.0))


def _pod_spec(entries: list[Json], extended: int = 0) -> Json:
    """``extended``: how many devices it asks for by the name of a resource."""
    container: Json = {"name": "c", "image": "i"}
    if extended:
        container["resources"] = {"requests": {RESOURCE: str(extended)}, "limits": {RESOURCE: str(extended)}}
    return {"schedulerName": "default-scheduler", "containers": [container], "resourceClaims": entries}


def _cluster() -> Iterator[TypedObject]:
    yield Namespace.from_wire({"metadata": {"name": NAMESPACE}})
    yield DeviceClass.from_wire({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": RESOURCE}})
    capacity = {"cpu": "64", "memory": "64Gi", "pods": "110"}
    for number in range(NODES):
        name = f"n{number}"
        yield Node.from_wire({"metadata": {"name": name}, "status": {"allocatable": capacity, "capacity": capacity}})
        devices = [{"name": f"d{index}"} for index in range(DEVICES)]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": devices}
        yield ResourceSlice.from_wire({"metadata": {"name": name}, "spec": spec})
