"""The answer that all others must give: the filters over the model of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from devtools.fit.answers import DEVICES, DOES_NOT_FIT, FITS, FitAnswer, texts_of
from devtools.fit.case import FitCase
from virt_dra.allocator import FatalError
from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.scheduling.claim_checks import DYNAMIC_RESOURCES
from virt_dra.scheduling.fit import FilterError, Fit, fit
from virt_dra.scheduling.framework.messages import NO_NODES, Diagnosis
from virt_dra.scheduling.framework.refusals import FilterRefusal
from virt_dra.scheduling.pod_requests import unknown_to


def by_filters(case: FitCase) -> FitAnswer:
    """Of the asker."""
    wish = case.wish
    if wish is None:
        return FitAnswer(DOES_NOT_FIT, frozenset())
    facts = unknown_to([wish.pod], case.model)
    return replace(fits_on(case, wish.pod, wish.claims), unknown=texts_of(facts))


def fits_on(case: FitCase, pod: Pod, claims: Sequence[ResourceClaim] = ()) -> FitAnswer:
    """Of a pod on the cluster of a case."""
    try:
        return _asked(fit(pod, case.model.changed(claims)))
    except (FilterError, FatalError):
        return FitAnswer(DOES_NOT_FIT, frozenset(), undecided=True)


def _asked(asked: Fit) -> FitAnswer:
    """Raises FilterError, FatalError."""
    total = len(asked.table)
    if asked.everywhere is not None:
        line = Diagnosis(total, everywhere=asked.everywhere).message
        return FitAnswer(DOES_NOT_FIT, frozenset(), line=line)
    refusals = {state.name: refusal for state in asked.table.states if (refusal := asked.refusal(state)) is not None}
    nodes = frozenset(state.name for state in asked.table.states if state.name not in refusals)
    reasons = {node: _code(refusal) for node, refusal in refusals.items()}
    if nodes:
        return FitAnswer(FITS, nodes, reasons=reasons)
    line = Diagnosis(total, refusals).message if total else NO_NODES
    undecided = any(refusal.error for refusal in refusals.values())
    return FitAnswer(DOES_NOT_FIT, nodes, reasons=reasons, line=line, undecided=undecided)


def _code(refusal: FilterRefusal) -> str:
    """Of refusals for devices one code: who explains them says more, and who doesn't less."""
    return DEVICES if refusal.plugin == DYNAMIC_RESOURCES else refusal.code
