"""Choosing the first of the nodes on which a pod's devices are preferred most (C-5.8), in the order of their names, and
why there is none. kube-scheduler's own choice is :mod:`virt_dra.scheduling.framework.cycle`, that of a policy
:mod:`virt_dra.scheduling.policies`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from virt_dra.allocator import DeadlineExceeded, FatalError, Interrupt
from virt_dra.allocator.features.prioritized_list import PREFERENCE_SCORE_MAX
from virt_dra.api.core_v1 import ContainerExtendedResourceRequest, Pod
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim
from virt_dra.model.cluster import ClusterModel
from virt_dra.scheduling.claim_checks import SCHEDULER_ERROR, UNSCHEDULABLE
from virt_dra.scheduling.dynamic_resources.plugin import DeviceAttempt
from virt_dra.scheduling.fit import DEFAULT_OPTIONS, FilterError, Fit, FitOptions, fit
from virt_dra.scheduling.framework.messages import NO_NODES, Diagnosis
from virt_dra.scheduling.framework.refusals import FilterRefusal
from virt_dra.scheduling.why.judging import first_refusals
from virt_dra.scheduling.why.tree import NodeRefusal

NO_NODE: Final = "NoNode"
"""There is no node, or not the one that is asked for."""


@dataclass(frozen=True)
class ClaimAllocation:
    """A claim and the allocation to write into its status."""

    claim: ResourceClaim
    result: AllocationResult


@dataclass(frozen=True)
class SpecialClaim:
    """The claim to make for a pod's extended resources, and whose resource each request stands for (C-7.5)."""

    claim: ResourceClaim
    result: AllocationResult
    mappings: tuple[ContainerExtendedResourceRequest, ...]


@dataclass(frozen=True)
class Placement:
    """The pod goes to ``node``. ``allocations``: of now; ``claims``: all of the pod. ``special``: for extended
    resources."""

    node: str
    claims: tuple[ResourceClaim, ...]
    allocations: tuple[ClaimAllocation, ...]
    special: SpecialClaim | None = None


@dataclass(frozen=True)
class Unplaced:
    """The pod goes nowhere now. ``reason`` and ``message`` are those of its PodScheduled condition (C-19), in
    kube-scheduler's words; ``nodes`` says why, by node, if asked for. ``code``: of docs/reasons, where no node was
    tried or a failure ended the attempt. ``deallocate``: a claim whose deallocation may help (C-5.6)."""

    reason: str
    message: str
    subject: str
    nodes: tuple[NodeRefusal, ...] = ()
    code: str = ""
    deallocate: ResourceClaim | None = None


def place(
    pod: Pod,
    model: ClusterModel,
    options: FitOptions = DEFAULT_OPTIONS,
    *,
    only_node: str | None = None,
    reasons: bool = True,
) -> Placement | Unplaced:
    """The decision for one pod. ``reasons``: whether to say why, by node, which costs as much again. Raises
    DeadlineExceeded."""
    try:
        asked = fit(pod, model, options)
        if asked.everywhere is not None:
            everywhere = asked.everywhere
            return Unplaced(UNSCHEDULABLE, everywhere.message, everywhere.subject or pod.key, code=everywhere.code)
        return _choose(asked, only_node, reasons, options.interrupt)
    except DeadlineExceeded:
        raise
    except FilterError as error:
        return Unplaced(SCHEDULER_ERROR, str(error), error.subject or pod.key, code=error.code)
    except FatalError as error:
        return Unplaced(SCHEDULER_ERROR, str(error), pod.key, code=error.code)


def _choose(asked: Fit, only_node: str | None, reasons: bool, interrupt: Interrupt | None) -> Placement | Unplaced:
    """Node by node; the first of those with the best score. A failing selector ends the attempt even after nodes
    fitted. Raises FilterError, FatalError."""
    states = [state for state in asked.table.states if only_node in (None, state.name)]
    if not states:
        message = NO_NODES if only_node is None else f'node "{only_node}" not found'
        return Unplaced(UNSCHEDULABLE, message, asked.pod.key, code=NO_NODE)
    devices = asked.devices
    perfect = 0 if devices is None else PREFERENCE_SCORE_MAX * devices.preferences
    best: tuple[int, str] | None = None
    refused: dict[str, FilterRefusal] = {}
    for state in states:
        refusal = asked.refusal(state)
        if refusal is not None:
            refused[state.name] = refusal
            continue
        score = 0 if devices is None else devices.preference(state.name)
        if best is None or score > best[0]:
            best = score, state.name
            if score >= perfect and (devices is None or not devices.nodes.may_end_attempt()):
                break  # no other node can score higher (C-5.8)
    if best is not None:
        return _placement(best[1], devices)
    message = Diagnosis(len(states), refused).message
    deallocate = None if devices is None else devices.deallocatable()
    # Searching once more for the reasons is worth it only when no node fits at all.
    nodes = tuple(first_refusals(asked, refused, interrupt)) if reasons else ()
    return Unplaced(UNSCHEDULABLE, message, asked.pod.key, nodes, deallocate=deallocate)


def _placement(node: str, devices: DeviceAttempt | None) -> Placement:
    of_node = None if devices is None else devices.nodes.found(node)
    if devices is None or of_node is None:
        return Placement(node, (), ())
    results, named = of_node.allocations(node), {claim.key for claim in devices.nodes.claims}
    special = next(
        (
            SpecialClaim(claim, results[claim.key], devices.nodes.mappings(node))
            for claim in of_node.unallocated
            if claim.key not in named
        ),
        None,
    )
    allocations = tuple(
        ClaimAllocation(claim, results[claim.key]) for claim in of_node.unallocated if claim.key in named
    )
    return Placement(node, tuple(devices.nodes.claims), allocations, special)
