"""A scenario of classic DRA, and how it is played on a target.

    name, rules
    nodes    name -> labels beside ``kubernetes.io/hostname``
    driver   what the driver ``gpu.example.com`` has and how it fails: see tools/control-plane/kubernetes-*/driver
    steps    each an object with one of
             apply: objects, created; one that exists is merged. Their ``status`` is merged into the subresource
             delete: {kind, name} · finish, stop (delete at once): names of pods · driver: its new settings ·
             wait: seconds · observe: label

The cluster settles before each ``observe``, and before the end. Kinds need no apiVersion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from virt_dra.api.wire import Json

ROOT: Final = Path(__file__).parents[2] / "tests" / "classic"
DRIVER: Final = "gpu.example.com"
PLAY: Final = "play"
VERSIONS: Final = {"1.30.14": "resource.k8s.io/v1alpha2", "1.31.14": "resource.k8s.io/v1alpha3"}
CLUSTER_SCOPED: Final = frozenset({"Node", "ResourceClass", "DeviceClass", "ResourceSlice"})
COMPARED: Final = ("Pod", "ResourceClaim", "PodSchedulingContext")
CALM: Final = 2.5
"""Seconds without a change after which a cluster has settled."""

_TEXTLESS: Final = ("Scheduled", "FailedScheduling")
_RACES: Final = re.compile(r'Operation cannot be fulfilled|^pods ".*" not found$')
_IMMUTABLE: Final = re.compile(r"Invalid value: \S*\{.*\}: field is immutable")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


@dataclass(frozen=True)
class Refusal:
    """What the API server answered to a request that it refused."""

    code: int
    message: str


class Target(Protocol):
    """An empty cluster with the namespace ``play``."""

    async def apply(self, raw: Json) -> Refusal | None: ...

    async def delete(self, kind: str, name: str, *, at_once: bool = False) -> Refusal | None: ...

    def drive(self, settings: Json) -> None:
        """Change the driver's settings."""

    async def wait(self, seconds: float) -> None: ...

    async def settle(self) -> None: ...

    async def objects(self) -> Mapping[str, Sequence[Json]]:
        """Of the compared kinds, and of Event."""


@dataclass(frozen=True)
class ClassicScenario:
    name: str
    release: str
    nodes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    driver: Json = field(default_factory=dict)
    steps: Sequence[Json] = ()

    @property
    def api_version(self) -> str:
        return VERSIONS[self.release]


def read(release: str) -> Iterator[ClassicScenario]:
    """The scenarios of a release."""
    text = (ROOT / "cases" / f"{release}.yaml").read_text(encoding="utf-8")
    for raw in yaml.load_all(text, yaml.CSafeLoader):
        nodes = {name: labels or {} for name, labels in (raw.get("nodes") or {"n1": {}}).items()}
        yield ClassicScenario(raw["name"], release, nodes, raw.get("driver") or {}, raw.get("steps") or ())


def recorded(release: str) -> Mapping[str, Json]:
    """Scenario -> what the real control plane answered."""
    file = ROOT / "answers" / f"{release}.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else ()
    return {answer["name"]: answer for answer in map(json.loads, lines)}


def write_recorded(release: str, answer: Json) -> None:
    """Keep an answer; those of scenarios that are gone are dropped."""
    answers = {**recorded(release), answer["name"]: answer}
    kept = [answers[scenario.name] for scenario in read(release) if scenario.name in answers]
    text = "".join(f"{json.dumps(answer, ensure_ascii=False)}\n" for answer in kept)
    (ROOT / "answers" / f"{release}.jsonl").write_text(text, encoding="utf-8")


def deviations(release: str) -> Mapping[str, str]:
    """Scenario -> why our answer deliberately is another one."""
    listed: Mapping[str, Mapping[str, str]] = yaml.safe_load((ROOT / "deviations.yaml").read_text(encoding="utf-8"))
    return listed.get(release) or {}


async def play(scenario: ClassicScenario, target: Target) -> Json:
    """The answer: ``{name, refusals, states}``."""
    refusals: list[Json] = []
    states: dict[str, Json] = {}

    async def observe(label: str) -> None:
        await target.settle()
        states[label] = _state(await target.objects())

    target.drive(scenario.driver)
    for name, labels in scenario.nodes.items():
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
        await target.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    for index, step in enumerate(scenario.steps):
        refused: list[Refusal | None] = []
        match step:
            case {"apply": objects}:
                refused = [await target.apply(_whole(raw, scenario.api_version)) for raw in objects]
            case {"delete": {"kind": kind, "name": name}}:
                refused = [await target.delete(kind, name)]
            case {"finish": pods}:
                done = {"status": {"phase": "Succeeded"}}
                refused = [await target.apply(_whole(_pod(name) | done, "v1")) for name in pods]
            case {"stop": pods}:
                refused = [await target.delete("Pod", name, at_once=True) for name in pods]
            case {"driver": settings}:
                target.drive(settings)
            case {"wait": seconds}:
                await target.wait(seconds)
            case {"observe": label}:
                await observe(label)
            case _:
                raise ValueError(f"{scenario.name}: steps[{index}]: unknown")
        refusals += [_refused(index, refusal) for refusal in refused if refusal is not None]
    await observe("end")
    return {"name": scenario.name, "refusals": refusals, "states": states}


def _refused(step: int, refusal: Refusal) -> Json:
    """A Go value that was changed is shown with addresses of memory: it is left out."""
    message = _IMMUTABLE.sub("Invalid value: …: field is immutable", refusal.message)
    return {"step": step, "code": refusal.code, "message": message}


def _pod(name: str) -> Json:
    return {"kind": "Pod", "metadata": {"name": name}}


def _whole(raw: Json, api_version: str) -> Json:
    metadata = {**raw["metadata"], **({} if raw["kind"] in CLUSTER_SCOPED else {"namespace": PLAY})}
    version = "v1" if raw["kind"] in ("Pod", "Node", "ConfigMap") else api_version
    return {"apiVersion": version, **raw, "metadata": metadata}


# --- normal form ---


def _state(objects: Mapping[str, Sequence[Json]]) -> Json:
    """Kind -> name -> what is compared; ``events``. Generated claims are called ``pod/entry``, UIDs ``uid:name``. Null
    and empty texts are left out: these releases write null for vendor parameters that nobody gave, and drop names that
    are empty."""
    names = {raw["metadata"]["uid"]: _symbol(raw["metadata"]) for kind in COMPARED for raw in objects[kind]}
    generated = {
        raw["metadata"]["name"]: _symbol(raw["metadata"])
        for raw in objects["ResourceClaim"]
        if raw["metadata"].get("generateName")
    }
    for pod in objects["Pod"]:
        for status in pod.get("status", {}).get("resourceClaimStatuses") or ():
            generated[status["resourceClaimName"]] = f"{pod['metadata']['name']}/{status['name']}"
    replaced = {**{uid: f"uid:{name}" for uid, name in names.items()}, **generated}
    state: Json = {
        kind: {
            _symbol(raw["metadata"]): _replaced(_kept(kind, raw), replaced)
            for raw in sorted(objects[kind], key=lambda raw: str(raw["metadata"]["name"]))
        }
        for kind in COMPARED
        if objects[kind]
    }
    events = set()
    for event in objects["Event"]:
        about, text = event["involvedObject"], event.get("message", "")
        if not _RACES.search(text):
            text = "" if event["reason"] in _TEXTLESS else _replaced(text, replaced)
            name = _replaced(about["name"], replaced)
            events.add((f"{about['kind']}/{name}", event["type"], event["reason"], text))
    state["events"] = [list(event) for event in sorted(events)]
    return state


def _symbol(metadata: Json) -> str:
    entry = (metadata.get("annotations") or {}).get("resource.kubernetes.io/pod-claim-name")
    owners = metadata.get("ownerReferences") or ()
    return f"{owners[0]['name']}/{entry}" if entry and owners else str(metadata["name"])


def _kept(kind: str, raw: Json) -> Json:
    metadata, spec, status = raw["metadata"], raw.get("spec", {}), raw.get("status") or {}
    deleting = metadata.get("deletionTimestamp") is not None
    if kind == "Pod":
        conditions = [
            {key: condition[key] for key in ("status", "reason", "message") if condition.get(key)}
            for condition in status.get("conditions") or ()
            if condition["type"] == "PodScheduled"
        ]
        claims = status.get("resourceClaimStatuses")
        kept = {"nodeName": spec.get("nodeName"), "PodScheduled": conditions, "resourceClaimStatuses": claims}
    elif kind == "ResourceClaim":
        owned = {key: metadata.get(key) for key in ("generateName", "labels", "annotations")}
        kept = {"finalizers": metadata.get("finalizers"), **owned, "spec": spec, "status": status}
    else:
        kept = {"spec": spec, "status": status}
    return {key: value for key, value in {**kept, "deleting": deleting}.items() if value not in (None, False, [], {})}


def _replaced(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(member, names) for key, member in value.items() if member not in (None, "")}
    if isinstance(value, list | tuple):
        return [_replaced(item, names) for item in value]
    if not isinstance(value, str):
        return value
    for real, name in names.items():
        value = value.replace(real, name)
    return _TIME.sub("TIME", value)
