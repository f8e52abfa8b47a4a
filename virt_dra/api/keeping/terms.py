"""The annotations by which a VM keeps its devices while it is stopped.

virt-dra.io/keep-devices: "true"       for as long as the VM is there
virt-dra.io/keep-devices: 24h          for so long while it is stopped
virt-dra.io/keep-devices: "false"      not, whatever its instancetype or profile says
virt-dra.io/on-node-loss: 2h | never   how long its node may be away before it may start on another

duration  ([0-9]+ ("d" | "h" | "m" | "s"))+
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from virt_dra.api.counting import cut_after
from virt_dra.api.kubevirt_v1 import VirtualMachine

KEEP_ANNOTATION: Final = "virt-dra.io/keep-devices"
"""On a VM or its template, or in an instancetype's ``spec.annotations``. On a kept claim: what its VMI asked for."""
NODE_LOSS_ANNOTATION: Final = "virt-dra.io/on-node-loss"
"""Beside :data:`KEEP_ANNOTATION`."""
DEFAULT_NODE_LOSS: Final = timedelta(hours=1)
"""Longer than a server with GPUs takes to restart."""
LONGEST: Final = timedelta(days=3650)
_SHOWN: Final = 60

_SECONDS: Final = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION: Final = re.compile(r"(?:[0-9]{1,9}[dhms]){1,4}")
_PART: Final = re.compile(r"([0-9]{1,9})([dhms])")


class KeepingError(ValueError):
    """An annotation has a value that means nothing. ``annotation``: which; ``wanted``: what it must be."""

    def __init__(self, annotation: str, value: str, wanted: str) -> None:
        shown = cut_after(value, _SHOWN)
        super().__init__(f"{annotation}: {json.dumps(shown)} is neither {wanted}")
        self.annotation, self.value, self.wanted = annotation, shown, f"must be {wanted.replace(' nor ', ' or ')}"


@dataclass(frozen=True)
class KeepTerms:
    """The terms on which a VM keeps its devices: for how long while it is stopped, and how long it waits for a node
    that is away; None: for ever."""

    stopped_for: timedelta | None
    node_loss: timedelta | None = DEFAULT_NODE_LOSS


def keep_terms(*annotations: Mapping[str, str]) -> KeepTerms | None:
    """What :func:`asked_terms` mean; None without any, or if they say "false". Raises :class:`KeepingError`."""
    asked = asked_terms(*annotations)
    value = asked.get(KEEP_ANNOTATION, "false")
    if value == "false":
        return None
    stopped_for = None if value == "true" else parsed_duration(KEEP_ANNOTATION, value, '"true", "false"')
    loss = asked.get(NODE_LOSS_ANNOTATION)
    if loss is None:
        return KeepTerms(stopped_for)
    return KeepTerms(stopped_for, None if loss == "never" else parsed_duration(NODE_LOSS_ANNOTATION, loss, '"never"'))


def asked_terms(*annotations: Mapping[str, str]) -> dict[str, str]:
    """What places say of keeping, the first to be heard first: up to the first that speaks of it, and of nodes the
    first of these that does. Empty if none speaks of keeping."""
    asked: dict[str, str] = {}
    for texts in annotations:
        asked = {**recorded_terms(texts), **asked}
        if KEEP_ANNOTATION in texts:
            return asked
    return {}


def parsed_duration(annotation: str, value: str, others: str) -> timedelta:
    """A duration such as 30m, 24h or 1d12h. ``others``: the values allowed beside it. Raises :class:`KeepingError`."""
    duration = duration_of(value)
    if duration is None:
        wanted = f"{others} nor a duration between 1s and {LONGEST.days}d, such as 30m, 24h or 1d12h"
        raise KeepingError(annotation, value, wanted)
    return duration


def duration_of(text: str) -> timedelta | None:
    """A duration such as 30m, 24h or 1d12h, between a second and :data:`LONGEST`; None for another text."""
    if not _DURATION.fullmatch(text):
        return None
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    return timedelta(seconds=seconds) if 1 <= seconds <= LONGEST.total_seconds() else None


def vm_keep_annotations(vm: VirtualMachine) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The places where a VM may ask for keeping, the first to count first."""
    return vm.spec.template.metadata.annotations, vm.metadata.annotations


def speaks_of_keeping(*annotations: Mapping[str, str]) -> bool:
    return any(KEEP_ANNOTATION in texts for texts in annotations)


def recorded_terms(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations that speak of keeping."""
    return {name: annotations[name] for name in (KEEP_ANNOTATION, NODE_LOSS_ANNOTATION) if name in annotations}


def duration_text(duration: timedelta) -> str:
    """A duration in its two largest units: 3d4h, 5m10s."""
    seconds = max(int(duration.total_seconds()), 0)
    parts = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    first = next((index for index, (number, _) in enumerate(parts) if number), len(parts) - 1)
    return "".join(f"{number}{unit}" for number, unit in parts[first : first + 2] if number) or "0s"
