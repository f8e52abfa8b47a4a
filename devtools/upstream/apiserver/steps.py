"""Requests as data, and answers without what differs from server to server. Shared by the replay and by the recorder.

A step is ``{"verb": "create" | "update" | "updateStatus" | "patch" | "get" | "list" | "delete", …}``: with ``object``,
or with ``base`` (the number of the step whose answer is changed) and ``change`` (a merge patch); or with ``kind``,
``name``, ``namespace`` and what the verb takes; ``verb: none`` if the step it builds on was refused. An answer is
``{"code", "object" | "names"}`` or ``{"code", "reason", "message", "causes"}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from virt_dra.cluster.memory.patches import merged

Json = dict[str, Any]

NOW = "2026-01-01T00:00:00Z"
LONG = 200
_NOW = re.compile(r"202[6-9]-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_VALUE = re.compile(r"\$\{(\d+)\.([\w.]+)\}")
_GENERATED = re.compile(r'("(?:G|G-|ga_-|-|g\.))[b-z2-9]{5}(?=\\?")')
"""A refused name made of one of the scenarios' generateNames."""
_CREATED_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


def prepared(step: Json, answers: Sequence[Json]) -> Json:
    """The step with ``base`` and ``${…}`` resolved by the raw answers so far. ``verb: none``: its base was refused."""
    if "base" in step:
        base = answers[step["base"]].get("object")
        if base is None:
            return {"verb": "none"}
        step = {"verb": step["verb"], "object": merged(base, step["change"])}

    def resolve(value: Any) -> Any:
        if isinstance(value, str):
            return (
                _VALUE.sub(lambda match: str(_at(answers[int(match[1])]["object"], match[2])), value)
                if "${" in value
                else value
            )
        if isinstance(value, dict):
            return {key: resolve(item) for key, item in value.items()}
        return [resolve(item) for item in value] if isinstance(value, list) else value

    resolved: Json = resolve(step)
    return resolved


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value[part]
    return value


def normalized(answers: Sequence[Json]) -> list[Json]:
    """Raw answers of one scenario with uids and versions numbered as they appear, the present as :data:`NOW`, long
    texts cut."""
    numbers: dict[str, str] = {}

    def number(kind: str, value: str) -> str:
        return numbers.setdefault(value, f"{kind}-{sum(name.startswith(kind) for name in numbers.values())}")

    for answer in answers:
        metadata = answer.get("object", {}).get("metadata", {})
        if "uid" in metadata:
            number("uid", metadata["uid"])
        if "resourceVersion" in metadata:
            number("version", metadata["resourceVersion"])

    def text(value: str) -> str:
        value = _NOW.sub(NOW, value).replace("Key: /all/", "Key: /registry/").replace("Key: /plain/", "Key: /registry/")
        value = _GENERATED.sub(r"\1*****", value)
        value = re.sub(r"\((\d+)\)", lambda number: f"({numbers.get(number[1], number[1])})", value)
        value = _CREATED_UID.sub(lambda uid: numbers.get(uid[0], uid[0]), value)
        return value if len(value) <= LONG * 4 else f"{value[:LONG]}… {len(value)} characters"

    def plain(value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, dict):
            return {text(key): plain(item) for key, item in sorted(value.items())}
        return [plain(item) for item in value] if isinstance(value, list) else value

    def one(answer: Json) -> Json:
        answer = dict(answer)
        if "object" in answer:
            answer["object"] = _compared(answer["object"], number)
        if "causes" in answer:
            answer["causes"] = sorted(answer["causes"])
        result: Json = plain(answer)
        return result

    return [one(answer) for answer in answers]


def _compared(obj: Json, number: Callable[[str, str], str]) -> Json:
    """What of an object both have: no managed fields, nothing empty, of a pod only what concerns claims."""
    meta = {key: value for key, value in obj.get("metadata", {}).items() if key != "managedFields"}
    if "resourceVersion" in meta:
        meta["resourceVersion"] = number("version", meta["resourceVersion"])
    if "uid" in meta:
        meta["uid"] = number("uid", meta["uid"])
    generated = meta.get("generateName")
    if generated and meta["name"].startswith(generated[:58]) and len(meta["name"]) == len(generated[:58]) + 5:
        meta["name"] = f"{generated[:58]}*****"
    obj = {**obj, "metadata": meta}
    if obj.get("kind") == "Pod":
        spec, status = obj.get("spec", {}), obj.get("status", {})
        obj = {
            "kind": "Pod",
            "metadata": {key: value for key, value in meta.items() if not key.startswith("deletion")},
            "claims": spec.get("resourceClaims"),
            "uses": [
                entry.get("resources", {}).get("claims")
                for entry in (*spec.get("initContainers", ()), *spec.get("containers", ()))
            ],
            "statuses": status.get("resourceClaimStatuses"),
            "extended": status.get("extendedResourceClaimStatus"),
            "nodeResources": status.get("nodeAllocatableResourceClaimStatuses"),
            "phase": status.get("phase"),
        }
    pruned: Json = _without_empty(obj)
    return pruned


def _without_empty(value: Any, path: str = "") -> Any:
    """Empty objects and lists equal absent ones, but where the content is a user's own."""
    if path.endswith((".parameters", ".data", ".fieldsV1")):
        return value
    if isinstance(value, dict):
        kept = {key: _without_empty(item, f"{path}.{key}") for key, item in value.items()}
        return {
            key: item
            for key, item in kept.items()
            if item is not None and (item not in ({}, [], "") or _counts_when_empty(key))
        }
    return [_without_empty(item, path) for item in value] if isinstance(value, list) else value


def _counts_when_empty(key: str) -> bool:
    """Objects and texts behind pointers, whose presence says something."""
    return key in {
        "parameters",
        "data",
        "exactly",
        "cel",
        "opaque",
        "deviceSelector",
        "allocation",
        "string",
        "version",
    }
