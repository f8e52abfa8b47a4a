"""The answers of the embedded cluster to recorded requests, comparable with those of a real API server.

``DIFFERENT`` and :func:`comparable` hold the known differences (docs/decisions/0007-embedded-cluster.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from devtools.upstream.apiserver.steps import NOW, Json, normalized, prepared
from virt_dra.api.conversion import from_v1
from virt_dra.api.core_v1 import Namespace
from virt_dra.api.feature_gates import FeatureGates
from virt_dra.api.meta import ObjectMeta, ObjectT, TypedObject, parse_time
from virt_dra.api.reading.scheme import all_kinds, read_object
from virt_dra.api.resource_v1 import ADMIN_ACCESS_LABEL
from virt_dra.api.wire import WireError
from virt_dra.cel.validation import compiled_rules
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.rules import KindRules
from virt_dra.cluster.port import ApiError, Invalid, StatusCause

CLASSES: dict[str, type[TypedObject]] = {kind.KIND: kind for kind in all_kinds()}


DIFFERENT = {
    **dict.fromkeys(
        (
            "claim/constraint-both",
            "claim/constraint-both-bad-match",
            "claim/constraint-both-bad-distinct",
            "claim/derived/both-constraints-second",
            "gates/claim-distinct-and-match",
            "gates/claim-distinct-and-match-kept",
            "gates/template-distinct-and-match",
            "gates/template-distinct-and-match-kept",
        ),
        "the server accepts both kinds in one constraint (AC-5)",
    ),
    **dict.fromkeys(
        ("version/bad-claim-v1beta1", "version/bad-template-v1beta1"),
        "of a repeated request the server shows v1beta1, memory v1",
    ),
    "slice/device-node-selector/two-terms": "the server accepts a device's node selector with two terms (AC-21a)",
}
"""Scenarios in which memory is known to answer differently, and why."""


GATES = {
    "answers": FeatureGates.all(),
    "plain": FeatureGates(),
    "off": FeatureGates.parse(
        "DRADeviceTaints=false,DRADeviceTaintRules=false,DRAConsumableCapacity=false,DRADeviceBindingConditions=false,"
        "DRAPartitionableDevices=false"
    ),
}
"""Those of servers.sh."""


def differences(steps: list[Json], expected: list[Json], answers: list[Json]) -> list[str]:
    """For each step what differs, or nothing."""
    reported = []
    for step, wanted, given in zip(steps, expected, answers, strict=True):
        wanted, given = comparable(step, wanted, given)
        reported.append(
            ""
            if wanted == given
            else f"\n  server {json.dumps(wanted, sort_keys=True)}\n  memory {json.dumps(given, sort_keys=True)}"
        )
    return reported


def comparable(step: Json, wanted: Json, given: Json) -> tuple[Json, Json]:
    """Both answers without the differences that docs/decisions/0007-embedded-cluster.md lists."""
    wanted, given = dict(wanted), dict(given)
    unreadable = wanted["code"] == 400 and (
        given["code"] == 400 or "must be a time in RFC 3339" in given.get("message", "")
    )
    if unreadable and step["verb"] in ("create", "update", "updateStatus"):
        return {"code": 400}, {"code": 400}  # an object that can't be read never reaches the cluster
    if step["verb"] == "patch" and wanted["code"] == given["code"] == 422 and _no_details(wanted):
        return {"code": 422}, {"code": 422}  # memory says where the patch fails
    for answer in (wanted, given):
        causes = answer["causes"] = sorted(_comparable_cause(cause) for cause in answer.get("causes", ()))
        if causes:
            # The order of faults is partly that of Go's maps, which is random.
            answer["message"] = answer["message"].partition(" is invalid: ")[0]
    return wanted, given


FLAT_PATHS = (
    (
        re.compile(r"(\.requests\[\d+\])\.(tolerations|derivedAttributes|deviceClassName|allocationMode|selectors)"),
        r"\1.exactly.\2",
    ),
    (re.compile(r"(\.devices\[\d+\])\.basic\."), r"\1."),
)
"""Faults of rules declared on the types have the paths of the requested version; the embedded cluster knows only
v1's."""


PARTS = ("compilation failed: ", "Forbidden: pod updates may not change")
"""What follows in a message is left out: CEL's texts have their own witness (devtools/upstream/cel); of a pod the
difference is shown."""


def _no_details(answer: Json) -> bool:
    return not answer["causes"] or bool(answer["causes"][0][0] == "patch")


def _comparable_cause(cause: list[str]) -> list[str]:
    field, reason, message = cause
    for flat, path in FLAT_PATHS:
        field = flat.sub(path, field)
    for part in PARTS:
        message = "".join(message.partition(part)[:2])
    return [field, reason, message]


class Servers:
    """The API servers of one cluster: an admission that is asked by one of them after the other."""

    def __init__(self, server: str) -> None:
        self._own = server
        self.asked = server

    def ask(self, step: Json) -> None:
        self.asked = step.get("server", self._own)

    @property
    def _rules(self) -> KindRules:
        return RULES[self.asked]

    def defaulted(self, obj: TypedObject, now: str) -> TypedObject:
        return self._rules.defaulted(obj, now)

    def permitted(self, new: ObjectT, old: ObjectT | None) -> ObjectT:
        return self._rules.permitted(new, old)

    def permitted_status(self, new: ObjectT, old: ObjectT) -> ObjectT:
        return self._rules.permitted_status(new, old)

    def on_create(self, obj: TypedObject) -> Sequence[StatusCause]:
        return self._rules.on_create(obj)

    def on_update(self, new: TypedObject, old: TypedObject) -> Sequence[StatusCause]:
        return self._rules.on_update(new, old)

    def on_status_update(self, new: TypedObject, old: TypedObject) -> Sequence[StatusCause]:
        return self._rules.on_status_update(new, old)


RULES = {server: KindRules(compiled_rules(gates)) for server, gates in GATES.items()}


async def replay(steps: list[Json], server: str) -> list[Json]:
    servers = Servers(server)
    cluster = MemoryCluster.deterministic(parse_time(NOW), namespaces_must_exist=True, admission=servers)
    await cluster.create(Namespace(metadata=ObjectMeta(name="default")))
    await cluster.create(Namespace(metadata=ObjectMeta(name="admin", labels={ADMIN_ACCESS_LABEL: "true"})))
    raw: list[Json] = []
    for step in steps:
        servers.ask(step)
        raw.append(await answer(cluster, prepared(step, raw)))
    return normalized(raw)


async def answer(cluster: MemoryCluster, step: Json) -> Json:
    try:
        return await perform(cluster, step)
    except WireError as error:
        return {"code": 400, "message": str(error)}
    except ApiError as error:
        causes = (
            [[cause.field, cause.reason, cause.message] for cause in error.causes] if isinstance(error, Invalid) else []
        )
        return {"code": error.status, "reason": error.reason, "message": str(error), "causes": causes}


async def perform(cluster: MemoryCluster, step: Json) -> Json:
    name, namespace = step.get("name", ""), step.get("namespace", "")
    kind = CLASSES[step["kind"]] if "kind" in step else TypedObject
    version = step.get("apiVersion", step.get("object", {}).get("apiVersion", ""))
    result: TypedObject
    match step["verb"]:
        case "none":
            return {"code": 0}
        case "create":
            return {"code": 201, "object": served(await cluster.create(read_object(step["object"])), version)}
        case "update":
            result = await cluster.update(read_object(step["object"]))
        case "updateStatus":
            result = await cluster.update_status(read_object(step["object"]))
        case "patch":
            changes = {key: step[key] for key in ("merge", "operations", "subresource") if key in step}
            result = await cluster.patch(kind, name, namespace, **changes)
        case "delete":
            await cluster.delete(
                kind, name, namespace, uid=step.get("uid", ""), resource_version=step.get("resourceVersion", "")
            )
            return {"code": 200}
        case "list":
            listed = await cluster.list(kind, namespace, labels=step.get("labels", ""), fields=step.get("fields", ""))
            return {"code": 200, "names": [obj.name for obj in listed.items]}
        case _:
            result = await cluster.get(kind, name, namespace)
    return {"code": 200, "object": served(result, version)}


def served(obj: TypedObject, version: str) -> Json:
    """In the version that was asked for."""
    return from_v1(obj.to_wire(), version) if version.startswith("resource.k8s.io/") else obj.to_wire()
