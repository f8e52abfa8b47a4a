"""The normal form of a state: what of each object is compared, by symbol (docs/spec/scenarios.md, "Answer"). Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from virt_dra.api.core_v1 import FINISHED
from virt_dra.api.wire import Json
from virt_dra.simulator.scenario.scenario import COMPARED, PLAY
from virt_dra.simulator.scenario.symbols import SymbolTable, generated_bases, unseen

_SET: Final = "set"
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| ?[+-]\d\d:?\d\d(?: UTC)?)?")
_TEXTLESS: Final = ("Scheduled", "FailedScheduling")
_CONDITION: Final = ("type", "status", "reason", "message", "observedGeneration")
_OWNER: Final = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_POD_CONDITIONS: Final = ("PodScheduled", "DisruptionTarget")


@dataclass(frozen=True)
class RawState:
    """A cluster's objects as they were at one moment: kind -> objects, and all Events."""

    objects: Mapping[str, tuple[Json, ...]]
    events: tuple[Json, ...] = ()


@dataclass(frozen=True)
class RawRefusal:
    """A request that the cluster refused. ``step``: its index, or ``given``."""

    step: int | str
    code: int
    reason: str
    message: str


class NormalForm:
    """The writer of states and refusals with the symbols of a finished play. ``claimants``: its pods and PodGroups."""

    def __init__(self, symbols: SymbolTable, claimants: Iterable[Json] = ()) -> None:
        self._symbols = symbols
        self._bases = generated_bases(claimants)

    def refusal(self, raw: RawRefusal) -> Json:
        message = self._text(_TIME.sub("TIME", raw.message))
        return {"step": raw.step, "code": raw.code, "reason": raw.reason, "message": message}

    def state(self, raw: RawState) -> Json:
        """Kind -> symbol -> what is compared; ``events``."""
        state: Json = {}
        shares = _Shares()
        for kind in COMPARED:
            by_title = {
                self._title(obj): _without_empty(self._replaced(shares.named(self._kept(kind, obj))))
                for obj in sorted(
                    raw.objects.get(kind, ()),
                    key=lambda obj: (obj["metadata"].get("namespace", ""), obj["metadata"]["name"]),
                )
            }
            if by_title:
                state[kind] = by_title
        state["events"] = self._events(raw)
        return state

    def _kept(self, kind: str, obj: Json) -> Json:
        """The parts of an object that are compared, with symbols for claims that came and went unobserved."""
        kept = _KEPT[kind](obj)
        statuses = kept.get("resourceClaimStatuses")
        if statuses:
            templates = {
                entry["name"]
                for entry in obj.get("spec", {}).get("resourceClaims") or ()
                if entry.get("resourceClaimTemplateName")
            }
            kept["resourceClaimStatuses"] = [
                {**status, "resourceClaimName": unseen(obj["metadata"]["name"], status["name"])}
                if status["name"] in templates
                and status.get("resourceClaimName")
                and not self._symbols.knows(status["resourceClaimName"], obj["metadata"]["uid"])
                else status
                for status in statuses
            ]
        return kept

    def _title(self, obj: Json) -> str:
        metadata = obj["metadata"]
        symbol = self._symbols.symbol(metadata["uid"]) or metadata["name"]
        namespace = metadata.get("namespace", "")
        return symbol if namespace in ("", PLAY) else f"{namespace}:{symbol}"

    def _events(self, raw: RawState) -> list[list[str]]:
        events: set[tuple[str, str, str, str]] = set()
        for event in raw.events:
            about = event.get("involvedObject") or event.get("regarding") or {}
            if about.get("kind") not in COMPARED or self._symbols.symbol(about.get("uid", "")) is None:
                continue
            named = {"uid": about["uid"], "name": about.get("name", ""), "namespace": about.get("namespace", "")}
            title = self._title({"metadata": named})
            reason = event.get("reason", "")
            text = "" if reason in _TEXTLESS else self._text(event.get("message") or event.get("note") or "")
            events.add((f"{about['kind']}/{title}", event.get("type", ""), reason, text))
        return [list(event) for event in sorted(events)]

    def _text(self, text: str) -> str:
        return self._symbols.replaced(text, self._bases)

    def _replaced(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                self._text(key): self._symbols.uid_text(member)
                if key == "uid" and isinstance(member, str)
                else self._replaced(member)
                for key, member in value.items()
            }
        if isinstance(value, list):
            return [self._replaced(item) for item in value]
        return self._text(value) if isinstance(value, str) else value


class _Shares:
    """The symbols of share IDs: ``share1``, ``share2``, … in the order in which they are met."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def named(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: self._names.setdefault(member, f"share{len(self._names) + 1}")
                if key == "shareID" and isinstance(member, str)
                else self.named(member)
                for key, member in value.items()
            }
        return [self.named(item) for item in value] if isinstance(value, list) else value


def _without_empty(kept: Mapping[str, Any]) -> Json:
    return {key: value for key, value in kept.items() if value not in (None, False, "", [], {})}


def _pod(raw: Json) -> Json:
    spec, status = raw.get("spec", {}), raw.get("status", {})
    conditions = {
        condition["type"]: {key: condition[key] for key in ("status", "reason", "message") if key in condition}
        for condition in _conditions(status)
        if condition["type"] in _POD_CONDITIONS
    }
    finished = status.get("phase") in FINISHED
    return {
        "phase": status.get("phase"),
        "nodeName": spec.get("nodeName"),
        "deleting": _deleting(raw),
        **conditions,
        "resourceClaimStatuses": None if finished else status.get("resourceClaimStatuses"),
        "extendedResourceClaimStatus": status.get("extendedResourceClaimStatus"),
        "nodeAllocatableResourceClaimStatuses": status.get("nodeAllocatableResourceClaimStatuses"),
    }


def _claim(raw: Json) -> Json:
    metadata, status = raw["metadata"], raw.get("status", {})
    allocation = status.get("allocation")
    if allocation is not None and allocation.get("allocationTimestamp"):
        allocation = {**allocation, "allocationTimestamp": _SET}
    if allocation is not None and allocation.get("resourceHandles"):
        allocation = {**allocation, "resourceHandles": _sparse(allocation["resourceHandles"])}
    return {
        "labels": metadata.get("labels"),
        "annotations": metadata.get("annotations"),
        "finalizers": metadata.get("finalizers"),
        "deleting": _deleting(raw),
        "generateName": metadata.get("generateName"),
        "owners": [
            {key: owner[key] for key in _OWNER if key in owner} for owner in metadata.get("ownerReferences") or ()
        ],
        "spec": raw.get("spec") if metadata.get("generateName") else None,
        "allocation": allocation,
        "driverName": status.get("driverName"),
        "deallocationRequested": status.get("deallocationRequested"),
        "reservedFor": status.get("reservedFor"),
        "devices": [_with_conditions(device) for device in status.get("devices") or ()],
    }


def _pod_group(raw: Json) -> Json:
    status = raw.get("status", {})
    return {
        "deleting": _deleting(raw),
        "finalizers": raw["metadata"].get("finalizers"),
        "conditions": _conditions(status),
        "resourceClaimStatuses": sorted(
            status.get("resourceClaimStatuses") or (), key=lambda status: str(status["name"])
        ),
    }


def _taint_rule(raw: Json) -> Json:
    taint = raw.get("spec", {}).get("taint") or {}
    return {
        "deleting": _deleting(raw),
        "generation": raw["metadata"].get("generation"),
        "taint": {**taint, **({"timeAdded": _SET} if taint.get("timeAdded") else {})},
        "conditions": _conditions(raw.get("status", {})),
    }


def _pool_request(raw: Json) -> Json:
    status = raw.get("status")
    return {"limit": raw.get("spec", {}).get("limit"), "status": None if status is None else _with_conditions(status)}


def _quota(raw: Json) -> Json:
    status = raw.get("status", {})
    return {"hard": status.get("hard"), "used": status.get("used")}


def _scheduling_context(raw: Json) -> Json:
    return {"deleting": _deleting(raw), "spec": raw.get("spec"), "status": raw.get("status")}


_KEPT: Final[Mapping[str, Callable[[Json], Json]]] = {
    "Pod": _pod, "ResourceClaim": _claim, "PodGroup": _pod_group, "DeviceTaintRule": _taint_rule,
    "ResourcePoolStatusRequest": _pool_request, "ResourceQuota": _quota,
    "PodSchedulingContext": _scheduling_context, "PodScheduling": _scheduling_context,
}  # fmt: skip
"""Kind -> what of an object is compared."""


def _sparse(value: Any) -> Any:
    """The object without null and empty texts, of which classic releases write some."""
    if isinstance(value, dict):
        return {key: _sparse(member) for key, member in value.items() if member not in (None, "")}
    return [_sparse(item) for item in value] if isinstance(value, list) else value


def _deleting(raw: Json) -> bool:
    return raw["metadata"].get("deletionTimestamp") is not None


def _with_conditions(value: Mapping[str, Any]) -> Json:
    return {**value, "conditions": _conditions(value)} if value.get("conditions") else dict(value)


def _conditions(status: Mapping[str, Any]) -> list[Json]:
    return [_condition(condition) for condition in status.get("conditions") or ()]


def _condition(raw: Mapping[str, Any]) -> Json:
    return {key: raw[key] for key in _CONDITION if raw.get(key)}
