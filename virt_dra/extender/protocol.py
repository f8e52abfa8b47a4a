"""What kube-scheduler asks an extender, and what it is answered (k8s.io/kube-scheduler/extender/v1)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from virt_dra.api.core_v1 import Pod
from virt_dra.api.wire import Json
from virt_dra.scheduling.policies.policy import Score

BEST: Final = 10
"""The highest priority that an extender may give a node (MaxExtenderPriority)."""


class ExtenderRequestError(ValueError):
    """A request that isn't one of kube-scheduler's; the text says why."""


@dataclass(frozen=True)
class ExtenderArguments:
    """The nodes that fit a pod. ``items``: whole, where the extender isn't declared as one that caches nodes."""

    pod: Pod
    nodes: tuple[str, ...]
    items: tuple[Json, ...] | None = None


def read_arguments(body: bytes) -> ExtenderArguments:
    """The request. Raises ExtenderRequestError."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise ExtenderRequestError("the request's body is no JSON") from None
    if not isinstance(given, dict):
        raise ExtenderRequestError("the request's body is no JSON object (ExtenderArgs)")
    # Go writes these keys so, and reads them in any case.
    fields = {str(key).lower(): value for key, value in given.items()}
    pod = _pod(fields.get("pod"))
    names, listed = fields.get("nodenames"), fields.get("nodes")
    if names is not None:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ExtenderRequestError("NodeNames: must be a list of strings")
        return ExtenderArguments(pod, tuple(names))
    items = listed.get("items") if isinstance(listed, dict) else None
    if not isinstance(items, list):
        raise ExtenderRequestError("either NodeNames or Nodes.items is required")
    return ExtenderArguments(pod, tuple([_name(item, number) for number, item in enumerate(items)]), tuple(items))


def _pod(given: object) -> Pod:
    try:
        pod = Pod.from_wire(given)
    except (ValidationError, TypeError, ValueError, RecursionError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise ExtenderRequestError(f"Pod: {first}") from None
    if not pod.name or not pod.namespace:
        raise ExtenderRequestError("Pod.metadata: name and namespace are required")
    return pod


def _name(item: object, number: int) -> str:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str):
        raise ExtenderRequestError(f"Nodes.items[{number}].metadata.name: is required")
    return name


def priorities(nodes: Sequence[str], scores: Sequence[Score | None]) -> Mapping[str, int]:
    """Node -> 10 for the first by name of the best, 9 for others that are as good, one less for each worse score, at
    last 0.

    Only one gets 10, so that the answer determines what kube-scheduler will do. No score: 0.
    """
    ordered = sorted({score for score in scores if score is not None})
    levels = {score: max(BEST - 1 - rank, 0) for rank, score in enumerate(ordered)}
    by_node = {name: 0 if score is None else levels[score] for name, score in zip(nodes, scores, strict=True)}
    best = best_node(nodes, scores)
    return by_node if best is None else {**by_node, best: BEST}


def best_node(nodes: Sequence[str], scores: Sequence[Score | None]) -> str | None:
    """The first by name of the nodes with the best score."""
    rated = [(score, name) for name, score in zip(nodes, scores, strict=True) if score is not None]
    return min(rated)[1] if rated else None


def prioritize_answer(by_node: Mapping[str, int]) -> bytes:
    """HostPriorityList."""
    return json.dumps([{"Host": name, "Score": score} for name, score in by_node.items()]).encode()


def filter_answer(asked: ExtenderArguments, refused: Mapping[str, str]) -> bytes:
    """ExtenderFilterResult. ``refused``: node -> why; evicting pods may help there."""
    answer: Json = {"FailedNodes": dict(refused), "Error": ""}
    if asked.items is None:
        answer["NodeNames"] = [name for name in asked.nodes if name not in refused]
    else:
        fitting = [item for name, item in zip(asked.nodes, asked.items, strict=True) if name not in refused]
        answer["Nodes"] = {"items": fitting}
    return json.dumps(answer).encode()
