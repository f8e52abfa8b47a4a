"""Which of a VM's preferred alignments are asked for: those that some node can serve, the earlier ones first. Pure. A
pod that fits with a set of constraints fits with every part of it, so adding them one by one, in order, finds the first
set of all in lexicographic order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from virt_dra.allocator import DeadlineExceeded, FatalError
from virt_dra.api.core_v1 import Pod
from virt_dra.api.profiles.alignment import PreferredAlignment, with_alignments
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.model.cluster import ClusterModel
from virt_dra.scheduling.fit import DEFAULT_OPTIONS, FilterError, FitOptions, fit
from virt_dra.scheduling.placement import Placement, place

TRIED_MAX: Final = 16
"""Alignments of a VM that are tried one by one; later ones are given up with those that can't hold."""
CONSTRAINTS_MAX: Final = 32
"""Constraints of a claim (A-22)."""


@dataclass(frozen=True)
class AlignmentChoice:
    """Which preferred alignments a VM's claims ask for. ``held``: asked for, so that they hold wherever the pod goes;
    ``given_up``: not asked for. ``fits``: whether some node can take the pod at all; else nothing is asked for."""

    held: tuple[PreferredAlignment, ...]
    given_up: tuple[PreferredAlignment, ...]
    fits: bool = True

    @property
    def texts(self) -> tuple[str, ...]:
        """What is given up where the pod fits."""
        return tuple(alignment.given_up for alignment in self.given_up) if self.fits else ()


@dataclass(frozen=True)
class AlignmentRequest:
    """The request which preferred alignments a pod's claims are to ask for. ``claims``: by their names in its status;
    ``attempt``: which of several about one pod; ``asked``: what the claims ask for already."""

    pod: Pod
    claims: tuple[ResourceClaim, ...]
    preferences: tuple[PreferredAlignment, ...]
    attempt: int = 0
    asked: tuple[PreferredAlignment, ...] = ()


@dataclass(frozen=True)
class AlignmentResult:
    """The answer to an :class:`AlignmentRequest`. ``held``: the positions of preferences to ask for. ``fits``: some
    node takes these."""

    held: tuple[int, ...] = ()
    fits: bool = False


def chosen_alignments(
    pod: Pod,
    claims: Sequence[ResourceClaim],
    preferences: Sequence[PreferredAlignment],
    model: ClusterModel,
    options: FitOptions = DEFAULT_OPTIONS,
    asked: Sequence[PreferredAlignment] = (),
) -> AlignmentChoice:
    """The choice for a pod with claims, which name it in its status. ``preferences``: in the order in which they count.
    ``asked``: chosen before, and kept as long as some node can serve them. Raises DeadlineExceeded."""
    wanted = tuple(preferences)
    if asked and _fits(pod, aligned_claims(pod, claims, asked), model, options):
        return AlignmentChoice(tuple(asked), tuple(own for own in wanted if own not in asked))
    if not wanted or _fits(pod, aligned_claims(pod, claims, wanted), model, options):
        return AlignmentChoice(wanted, ())
    if not _fits(pod, claims, model, options):
        return AlignmentChoice((), wanted, fits=False)
    held: tuple[PreferredAlignment, ...] = ()
    given_up: list[PreferredAlignment] = []
    for preference in wanted[:TRIED_MAX]:
        more = (*held, preference)
        if _fits(pod, aligned_claims(pod, claims, more), model, options):
            held = more
        else:
            given_up.append(preference)
    return AlignmentChoice(held, tuple(given_up) + wanted[TRIED_MAX:])


def aligned_claims(
    pod: Pod, claims: Iterable[ResourceClaim], held: Sequence[PreferredAlignment]
) -> tuple[ResourceClaim, ...]:
    """The pod's claims with the alignments that hold."""
    entries = {status.resource_claim_name: status.name for status in pod.status.resource_claim_statuses}
    return tuple(
        claim.with_(spec=with_alignments(claim.spec, (own for own in held if own.entry == entries.get(claim.name))))
        for claim in claims
    )


def placed_beside(
    pod: Pod, claims: Sequence[ResourceClaim], model: ClusterModel, own: str, options: FitOptions = DEFAULT_OPTIONS
) -> ClusterModel:
    """The model once the pod has a node and its claims have devices, so that the next choice knows of them; the model
    itself if no node takes it. ``own``: a name for the pod, which its claims' begin with. Raises DeadlineExceeded."""
    outcome = place(pod, model.changed(claims), options)
    if not isinstance(outcome, Placement):
        return model
    bound = pod.with_(metadata=pod.metadata.with_(name=own, uid=own), spec=pod.spec.with_(node_name=outcome.node))
    allocated = [
        allocation.claim.with_(
            metadata=allocation.claim.metadata.with_(name=f"{own}-{allocation.claim.name}"),
            status=allocation.claim.status.with_(allocation=allocation.result),
        )
        for allocation in outcome.allocations
    ]
    return model.changed([bound, *allocated])


def not_placed(pod: Pod, claims: Iterable[ResourceClaim], model: ClusterModel, own: str) -> ClusterModel:
    """The model without what :func:`placed_beside` made of the pod before."""
    names = [f"{pod.namespace}/{own}-{claim.name}" for claim in claims]
    earlier = [*map(model.claims.get, names), model.pods.get(f"{pod.namespace}/{own}")]
    return model.changed(removed=[obj for obj in earlier if obj is not None])


def _fits(pod: Pod, claims: Sequence[ResourceClaim], model: ClusterModel, options: FitOptions) -> bool:
    """Whether some node can take the pod. Raises DeadlineExceeded."""
    if any(len(claim.spec.devices.constraints) > CONSTRAINTS_MAX for claim in claims):
        return False
    try:
        asked = fit(pod, model.changed(claims), options)
        return asked.everywhere is None and any(asked.refusal(state) is None for state in asked.table.states)
    except DeadlineExceeded:
        raise
    except (FilterError, FatalError):
        return False
