"""The feature gates that a scenario may set (C-2.1): of the embedded cluster, and those of a real one only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from virt_dra.api.feature_gates import PLAIN, FeatureGateError, FeatureGates
from virt_dra.api.nearest import did_you_mean

EMBEDDED: Final = frozenset(part.partition("=")[0] for part in str(PLAIN).split(","))
ELSEWHERE: Final = (
    frozenset({
        "CompositePodGroup", "DynamicResourceAllocation", "InPlacePodVerticalScalingSchedulerPreemption",
        "KubeletPodResourcesDynamicResources", "KubeletPodResourcesGet", "NodeDeclaredFeatures",
        "PodGroupPreemptionPolicy", "TopologyAwareWorkloadScheduling",
    })
    - EMBEDDED
)  # fmt: skip
"""Gates of 1.37.1 about DRA and pod groups that have no effect in the embedded cluster."""
_LOCKED: Final = (
    frozenset({"DynamicResourceAllocation", "KubeletPodResourcesDynamicResources", "KubeletPodResourcesGet"})
    & ELSEWHERE
)


def read_gates(given: Mapping[str, bool]) -> FeatureGates:
    """The gates of the embedded cluster. Raises :class:`.FeatureGateError` with every fault."""
    problems = []
    for name, on in given.items():
        if name not in EMBEDDED | ELSEWHERE:
            hint = did_you_mean(name, sorted(EMBEDDED | ELSEWHERE))
            problems.append(f"unrecognized feature gate: {name}{hint}")
        elif name in _LOCKED and not on:
            problems.append(f"cannot set feature gate {name} to false, feature is locked to true")
    if given.get("DRAOptionalNodeOperations") and given.get("NodeDeclaredFeatures") is False:
        problems.append(
            "DRAOptionalNodeOperations is enabled, but depends on features that are disabled: [NodeDeclaredFeatures]"
        )
    try:
        gates = FeatureGates.parse(
            ",".join(f"{name}={str(on).lower()}" for name, on in given.items() if name in EMBEDDED)
        )
    except FeatureGateError as error:
        problems += error.problems
    if problems:
        raise FeatureGateError(tuple(problems))
    return gates


def not_embedded(given: Mapping[str, bool]) -> tuple[str, ...]:
    """Gates that are on and that the embedded cluster doesn't have."""
    return tuple(sorted(name for name, on in given.items() if on and name in ELSEWHERE - _LOCKED))
