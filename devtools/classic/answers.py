"""The recorded answers of real control planes of classic DRA, and the form that they have.

That form is older than the one of ``virt-dra scenario``, and a witness's words stay as they were: it is made of a
play's raw states.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from devtools.scenarios import read as read_files
from virt_dra.api.wire import Json
from virt_dra.simulator.scenario.normal_form import RawRefusal, RawState
from virt_dra.simulator.scenario.player import Play
from virt_dra.simulator.scenario.scenario import PLAY, Scenario

ROOT: Final = Path(__file__).parents[2] / "tests" / "classic"
DRIVER: Final = "gpu.example.com"
"""The driver of all recorded scenarios."""
_COMPARED: Final = ("Pod", "ResourceClaim", "PodSchedulingContext")

_TEXTLESS: Final = ("Scheduled", "FailedScheduling")
_RACES: Final = re.compile(r'Operation cannot be fulfilled|^pods ".*" not found$')
_IMMUTABLE: Final = re.compile(r"Invalid value: \S*\{.*\}: field is immutable")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def read(release: str) -> list[Scenario]:
    """The scenarios of a release, of all its files."""
    return read_files([str(path) for path in sorted((ROOT / "cases").glob(f"{release}*.yaml"))])


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
    listed: Mapping[str, Mapping[str, str]] = yaml.load(
        (ROOT / "deviations.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
    )
    return listed.get(release) or {}


def recorded_form(play: Play) -> Json:
    """``{name, refusals, states}`` of a finished play."""
    return {
        "name": play.scenario.name,
        "refusals": [_refused(refusal) for refusal in play.refusals],
        "states": {label: _state(state) for label, state in play.states.items()},
    }


def _refused(refusal: RawRefusal) -> Json:
    """A Go value that was changed is shown with addresses of memory: it is left out."""
    message = _IMMUTABLE.sub("Invalid value: …: field is immutable", refusal.message)
    return {"step": refusal.step, "code": refusal.code, "message": message}


def _state(raw_state: RawState) -> Json:
    """Kind -> name -> what is compared; ``events``. Generated claims are called ``pod/entry``, UIDs ``uid:name``. Null
    and empty texts are left out: these releases write null for vendor parameters that nobody gave, and drop names that
    are empty."""
    objects = {kind: raw_state.objects.get(kind, ()) for kind in _COMPARED}
    names = {raw["metadata"]["uid"]: _symbol(raw["metadata"]) for kind in _COMPARED for raw in objects[kind]}
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
        for kind in _COMPARED
        if objects[kind]
    }
    events = set()
    for event in raw_state.events:
        if event["metadata"]["namespace"] != PLAY:
            continue
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
