"""Random scenarios of classic DRA: pods of some size with claims of a driver, or of the scheduler's own in 1.30, that
come and go on nodes of different sizes.

They leave out what upstream decides at random, and its defects (``deviations.yaml``), as far as that can be seen
beforehand: no pod finishes, none mixes kinds of claims, and nodes differ in size, so that scores do, too.
"""

from __future__ import annotations

from random import Random
from typing import Final

from devtools.classic.answers import DRIVER
from virt_dra.api.wire import Json
from virt_dra.simulator.scenario.reading import read_scenario
from virt_dra.simulator.scenario.scenario import Scenario

_CPUS: Final = (5, 17, 41)
"""Of the nodes. Scores of nodes of these sizes are hardly ever equal."""
_RECHECK: Final[Json] = {"do": "wait", "seconds": 40}
"""Drivers look again after 30 s."""
_PAUSE: Final[Json] = {"do": "wait", "seconds": 3}
"""Until immediate claims are allocated."""
_NAMED: Final = "named.example.com"


def random_scenarios(release: str, number: int, seed: int) -> list[Scenario]:
    """``number`` scenarios for a release; the same ones for the same seed."""
    return [read_scenario(_Story(release, seed + index).scenario(f"random {seed + index}")) for index in range(number)]


class _Story:
    def __init__(self, release: str, seed: int) -> None:
        self._random = Random(seed)
        self._minor = release.rpartition(".")[0]
        self._old = self._minor == "1.30"
        self._nodes = [f"n{number}" for number in range(1, self._random.randint(1, len(_CPUS)) + 1)]
        self._structured = self._old and self._random.random() < 1 / 3
        self._claims: list[str] = []
        self._pods: list[str] = []

    def scenario(self, name: str) -> Json:
        given = [self._node(node, cpu) for node, cpu in zip(self._nodes, _CPUS, strict=False)]
        drivers = {DRIVER: {} if self._structured else self._settings()}
        steps: list[Json] = [{"do": "apply", "objects": self._classes()}]
        for number in range(self._random.randint(3, 6)):
            steps += [*self._step(number), {"do": "observe", "as": f"after {number}"}]
        return {"name": name, "kubernetes": self._minor, "drivers": drivers, "given": given, "steps": steps}

    def _node(self, name: str, cpu: int) -> Json:
        labels = {"kubernetes.io/hostname": name}
        status = {"allocatable": {"cpu": str(cpu), "memory": "64Gi", "pods": str(self._random.choice((3, 20, 20)))}}
        return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}

    def _settings(self) -> Json:
        devices = {node: count for node in self._nodes if (count := self._random.choice((0, 1, 1, 2)))}
        return {"devices": devices, "shareable": self._random.random() < 1 / 3}

    def _classes(self) -> list[Json]:
        metadata = {"name": "gpu"}
        if not self._old:
            return [{"kind": "DeviceClass", "metadata": metadata, "spec": {}}]
        if not self._structured:
            return [{"kind": "ResourceClass", "metadata": metadata, "driverName": DRIVER}]
        slices = [
            {
                "kind": "ResourceSlice", "metadata": {"name": f"of-{node}"}, "nodeName": node, "driverName": _NAMED,
                "namedResources": {"instances": [
                    {"name": f"{node}-{number}", "attributes": [{"name": "size", "int": number}]}
                    for number in range(self._random.randint(1, 3))
                ]},
            }
            for node in self._nodes
        ]  # fmt: skip
        parameters = {
            "kind": "ResourceClaimParameters",
            "metadata": {"name": "wanted"},
            "driverRequests": [{"driverName": _NAMED, "requests": [
                {"namedResources": {"selector": f'attributes.int["size"] >= {self._random.randint(0, 1)}'}}
            ]}],
            "shareable": self._random.random() < 1 / 2,
        }  # fmt: skip
        return [
            {"kind": "ResourceClass", "metadata": metadata, "driverName": _NAMED, "structuredParameters": True},
            *slices,
            parameters,
        ]

    def _step(self, number: int) -> list[Json]:
        kind = self._random.random()
        if not self._pods or kind < 0.6:
            *claims, pod = self._new_pod(f"p{number}")
            made: list[Json] = [{"do": "apply", "objects": claims}, _PAUSE] if claims else []
            return [*made, {"do": "apply", "objects": [pod]}]
        if kind < 0.85 or self._structured:
            return [{"do": "stop", "pods": [self._pods.pop(self._random.randrange(len(self._pods)))]}, _RECHECK]
        return [{"do": "driver", "name": DRIVER, "settings": self._settings()}, _RECHECK]

    def _new_pod(self, name: str) -> list[Json]:
        """A pod, with the claims that it is the first to use."""
        objects: list[Json] = []
        claims: list[str] = []
        for _ in range(self._random.choice((0, 1, 1, 1) if self._structured else (0, 1, 1, 2))):
            if self._claims and self._random.random() < 1 / 3:
                claims.append(self._random.choice(self._claims))
            else:
                claims.append(f"c{len(self._claims)}")
                self._claims.append(claims[-1])
                objects.append({"kind": "ResourceClaim", "metadata": {"name": claims[-1]}, "spec": self._claim()})
        requests = {"cpu": str(self._random.choice((1, 1, 2, 4)))}
        spec: Json = {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}
        entries = [
            {"name": claim, "source": {"resourceClaimName": claim}}
            if self._old
            else {"name": claim, "resourceClaimName": claim}
            for claim in dict.fromkeys(claims)
        ]
        if entries:
            spec["resourceClaims"] = entries
        if self._random.random() < 1 / 5:
            spec["nodeSelector"] = {"kubernetes.io/hostname": self._random.choice(self._nodes)}
        self._pods.append(name)
        return [*objects, {"kind": "Pod", "metadata": {"name": name}, "spec": spec}]

    def _claim(self) -> Json:
        if not self._old:
            return {"controller": DRIVER, "devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}}
        spec: Json = {"resourceClassName": "gpu"}
        if self._structured:
            spec["parametersRef"] = {
                "apiGroup": "resource.k8s.io",
                "kind": "ResourceClaimParameters",
                "name": "wanted",
            }
        if self._random.random() < 1 / 4:
            spec["allocationMode"] = "Immediate"
        return spec
