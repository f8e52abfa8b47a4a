"""The embedded cluster against a real API server: Kubernetes 1.37.1 answered ``recorded/*.jsonl`` (made by tests/upstream/apiserver).

Compared are code, reason, faults with path, type and text, the message, and the object. ``answers`` come from a server with every DRA
gate on, as the embedded cluster has them; ``plain`` is there where one with plain gates answered differently, for the reader.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api_steps import NOW, Json, normalized, prepared
from tests.upstream.apiserver.scenarios import scenarios
from virt_dra.api.core_v1 import Namespace
from virt_dra.api.meta import ObjectMeta, TypedObject, parse_time
from virt_dra.api.resource_v1 import ADMIN_ACCESS_LABEL
from virt_dra.api.scheme import KINDS, read_object
from virt_dra.api.wire import WireError
from virt_dra.cluster.memory import MemoryCluster
from virt_dra.cluster.port import ApiError, Invalid

RECORDED = {
    line["id"]: line
    for path in sorted((Path(__file__).parent / "recorded").glob("*.jsonl"))
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines())
}
SCENARIOS = dict(scenarios())
CLASSES: dict[str, type[TypedObject]] = {kind.KIND: kind for kind in KINDS}
ALIKE = "(not compared)"
DIFFERENT = {
    "claim/selector/cost": "the cost of expressions is not estimated yet (L-4)",
    "claim/derived/syntax": "derived attributes are not compiled yet",
    "claim/derived/type": "derived attributes are not compiled yet",
    "claim/derived/one-heavy": "the cost of expressions is not estimated yet (L-4)",
    "claim/derived/total-2": "the cost of expressions is not estimated yet (L-4)",
    "claim/derived/total-4": "the cost of expressions is not estimated yet (L-4)",
    "claim/derived/total-8": "the cost of expressions is not estimated yet (L-4)",
    "claim/derived/total-16": "the cost of expressions is not estimated yet (L-4)",
    "slice/devices-65-empty-list": "memory does not look at the devices of a list that is too long",
    "slice/policy/values/same-fraction": "the server takes 0.5 and 500m for two values; memory says that it is one",
}
"""Scenarios in which memory is known to answer differently, and why."""


def test_every_scenario_is_recorded() -> None:
    assert SCENARIOS.keys() == RECORDED.keys()


@pytest.mark.parametrize("group", sorted({name.partition("/")[0] for name in SCENARIOS}))
def test_memory_answers_as_the_api_server(group: str) -> None:
    faults = []
    for name, steps in SCENARIOS.items():
        if name.partition("/")[0] == group and name not in DIFFERENT:
            expected = RECORDED[name]["answers"]
            faults += [
                f"{name}[{index}]: {fault}" for index, fault in enumerate(differences(steps, expected, asyncio.run(replay(steps)))) if fault
            ]
    assert not faults, f"{len(faults)} answers differ:\n" + "\n".join(faults)


@pytest.mark.parametrize("name", DIFFERENT)
def test_known_differences_are_still_there(name: str) -> None:
    assert any(differences(SCENARIOS[name], RECORDED[name]["answers"], asyncio.run(replay(SCENARIOS[name]))))


def differences(steps: list[Json], expected: list[Json], found: list[Json]) -> list[str]:
    """For each step what differs, or nothing."""
    told = []
    for step, wanted, given in zip(steps, expected, found, strict=True):
        wanted, given = comparable(step, wanted, given)
        told.append(
            "" if wanted == given else f"\n  server {json.dumps(wanted, sort_keys=True)}\n  memory {json.dumps(given, sort_keys=True)}"
        )
    return told


def comparable(step: Json, wanted: Json, given: Json) -> tuple[Json, Json]:
    """Both answers without what is told to differ in docs/decisions/0007-embedded-cluster.md."""
    wanted, given = dict(wanted), dict(given)
    if {"object"} <= wanted.keys() & given.keys() and step.get("object", {}).get("apiVersion", "") in OTHER_VERSIONS:
        wanted["object"] = given["object"] = ALIKE  # memory answers in the version it stores; a scenario's next step reads that
    unreadable = wanted["code"] == 400 and (given["code"] == 400 or "must be a time in RFC 3339" in given.get("message", ""))
    if unreadable and step["verb"] in ("create", "update", "updateStatus"):
        return {"code": 400}, {"code": 400}  # an object that can't be read never reaches the cluster
    if step["verb"] == "patch" and wanted["code"] == given["code"] == 422 and _no_details(wanted):
        return {"code": 422}, {"code": 422}  # memory says where the patch fails
    for answer in (wanted, given):
        causes = answer["causes"] = [_comparable_cause(cause) for cause in answer.get("causes", ())]
        if causes:
            # The order of faults is that of Go's maps in parts, which is none.
            answer["message"] = answer["message"].partition(" is invalid: ")[0]
    return wanted, given


OTHER_VERSIONS = ("resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3")
PARTS = ("compilation failed: ", "Forbidden: pod updates may not change")
"""What follows in a message is left out: CEL's texts have their own witness (tests/upstream/cel); of a pod the difference is shown."""


def _no_details(answer: Json) -> bool:
    return not answer["causes"] or bool(answer["causes"][0][0] == "patch")


def _comparable_cause(cause: list[str]) -> list[str]:
    field, reason, message = cause
    for part in PARTS:
        message = "".join(message.partition(part)[:2])
    return [field, reason, message]


async def replay(steps: list[Json]) -> list[Json]:
    cluster = MemoryCluster.deterministic(parse_time(NOW), namespaces_must_exist=True)
    await cluster.create(Namespace(metadata=ObjectMeta(name="default")))
    await cluster.create(Namespace(metadata=ObjectMeta(name="admin", labels={ADMIN_ACCESS_LABEL: "true"})))
    raw: list[Json] = []
    for step in steps:
        raw.append(await answer(cluster, prepared(step, raw)))
    return normalized(raw)


async def answer(cluster: MemoryCluster, step: Json) -> Json:
    try:
        return await perform(cluster, step)
    except WireError as error:
        return {"code": 400, "message": str(error)}
    except ApiError as error:
        causes = [[cause.field, cause.reason, cause.message] for cause in error.causes] if isinstance(error, Invalid) else []
        return {"code": error.status, "reason": error.reason, "message": str(error), "causes": causes}


async def perform(cluster: MemoryCluster, step: Json) -> Json:
    name, namespace = step.get("name", ""), step.get("namespace", "")
    kind = CLASSES[step["kind"]] if "kind" in step else TypedObject
    result: Any
    match step["verb"]:
        case "create":
            return {"code": 201, "object": (await cluster.create(read_object(step["object"]))).to_wire()}
        case "update":
            result = await cluster.update(read_object(step["object"]))
        case "updateStatus":
            result = await cluster.update_status(read_object(step["object"]))
        case "patch":
            changes = {key: step[key] for key in ("merge", "operations", "subresource") if key in step}
            result = await cluster.patch(kind, name, namespace, **changes)
        case "delete":
            await cluster.delete(kind, name, namespace, uid=step.get("uid", ""), resource_version=step.get("resourceVersion", ""))
            return {"code": 200}
        case "list":
            listed = await cluster.list(kind, namespace, labels=step.get("labels", ""), fields=step.get("fields", ""))
            return {"code": 200, "names": [obj.name for obj in listed.items]}
        case _:
            result = await cluster.get(kind, name, namespace)
    return {"code": 200, "object": result.to_wire()}
