"""The parts of the house that say whether an asker gets a node, each asked as its users ask it: one table."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final

from devtools.fit.answers import DEVICES, DOES_NOT_FIT, FITS, FitAnswer, FitVerdict, said_of_nodes, texts_of
from devtools.fit.case import ASKER, NAMESPACE, FitCase
from devtools.fit.reference import fits_on
from virt_dra.allocator import DEFAULT, FatalError
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.names import random_suffixes
from virt_dra.controllers.operator.explanation_worker import ExplanationRequest, explained_within
from virt_dra.controllers.operator.pending import LIMITS, Sample, sampling, view_of
from virt_dra.extender.advisor import Advisor
from virt_dra.extender.protocol import ExtenderArguments
from virt_dra.model.feeds.files import model_of_files, placeable
from virt_dra.model.kinds import READ
from virt_dra.pytest_plugin.readiness import ReadinessInputs, ready_vms
from virt_dra.scheduling.framework.refusals import Reason
from virt_dra.scheduling.pod_requests import unknown_to
from virt_dra.simulator.control_plane import LOOPS, AmbientSources, control_plane
from virt_dra.simulator.embedded import RunSettings, run_on
from virt_dra.simulator.experiment.added_vms import added_vm
from virt_dra.simulator.experiment.dump import cluster_of
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.what_if import Prospect, parse_change
from virt_dra.simulator.explaining.answer import BROKEN, answered
from virt_dra.simulator.explaining.difference import FitState, differences
from virt_dra.simulator.explaining.state import ClusterState, Wish
from virt_dra.simulator.explaining.subject import SubjectFinder
from virt_dra.simulator.fit import Fitting
from virt_dra.simulator.outcome import HandOver
from virt_dra.simulator.planning.objects import changed_cluster
from virt_dra.simulator.planning.vms import vm_changes
from virt_dra.simulator.virtual_time import run_virtually, virtual_now
from webhooks.lint import DENIAL, LintSettings, lint_documents

AskSurface = Callable[[FitCase], FitAnswer | None]
"""None: the surface isn't made for such a case, or refuses the asker for another reason than its place."""

NOW: Final = datetime(2026, 11, 25, tzinfo=UTC)
_WAITED: Final = 2.0
"""Seconds of virtual time in which the scheduler tries the asker's pod."""
_BINDING: Final = 'running PreBind plugin "DynamicResources": '
"""Of a pod for which a node was chosen. No API server lets it reserve a claim that was allocated without a time."""
_NO_PLACE: Final = frozenset(
    {
        "claims-do-not-fit", "no-node-fits", "no-usable-node", "no-matching-device", "not-enough-devices",
        "not-enough-capacity", "class-missing", "selector-error",
    }
)  # fmt: skip
"""The lint's findings that say that a VM gets no place, even while nothing runs."""


SeenCase = Callable[[FitCase], FitCase]


def as_it_is(case: FitCase) -> FitCase:
    """All of it."""
    return case


@dataclass(frozen=True)
class FitSurface:
    """``sees``: what it knows of a case. ``every``: it is asked about one of so many random cases, since it takes
    long."""

    name: str
    ask: AskSurface
    sees: SeenCase = as_it_is
    every: int = 1


# --- the scheduler of the embedded cluster ------------------------------------------------------------------------


def by_scheduler(case: FitCase) -> FitAnswer | None:
    """The scheduler's loop on the embedded cluster. Its reasons are texts, so only its line is compared."""
    wish = case.wish
    return None if wish is None or not case.whole else run_virtually(_scheduled(case, wish))


async def _scheduled(case: FitCase, wish: Wish) -> FitAnswer:
    cluster = MemoryCluster.deterministic(virtual_now())
    keys = {claim.key for claim in wish.claims}
    others = [obj for obj in case.cluster if not (isinstance(obj, ResourceClaim) and obj.key in keys)]
    cluster.load((*others, *wish.claims, wish.pod))
    chance = Random(0)
    sources = AmbientSources(virtual_now, random_suffixes(chance), chance.random)
    scheduler = tuple(loop for loop in LOOPS if loop.name == "scheduler")
    async with control_plane(cluster, sources, loops=scheduler):
        try:
            async with asyncio.timeout(_WAITED):
                return await _first_attempt(cluster, wish)
        except TimeoutError:
            pass
        # Bound once its devices are ready, which no driver reports here; or not tried: a claim is missing or unusable.
        return FitAnswer(FITS if await _reserved(cluster, wish) else DOES_NOT_FIT)


async def _first_attempt(cluster: MemoryCluster, wish: Wish) -> FitAnswer:
    """Of the asker's pod. Later attempts may have another answer: after a refusal the scheduler takes the devices of
    the pod's claims that nobody uses away, to choose others."""
    async for event in cluster.watch(Pod, NAMESPACE, resource_version="0", fields=f"metadata.name={wish.pod.name}"):
        pod = event.object
        if pod.spec.node_name:
            return FitAnswer(FITS, chosen=pod.spec.node_name)
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False":
                if (condition.message or "").startswith(_BINDING):
                    return FitAnswer(FITS)  # a node was chosen
                return said_of_nodes(condition.reason or "", condition.message or "")
    raise AssertionError("a watch has no end")


async def _reserved(cluster: MemoryCluster, wish: Wish) -> bool:
    """Whether a claim of the asker has got devices."""
    unallocated = [claim for claim in wish.claims if claim.status.allocation is None]
    claims = [await cluster.get(ResourceClaim, claim.name, claim.namespace) for claim in unallocated]
    return any(claim.status.allocation is not None for claim in claims)


# --- commands -----------------------------------------------------------------------------------------------------


def by_run(case: FitCase) -> FitAnswer | None:
    if not case.asks_as_vm:
        return None
    ran = asyncio.run(
        run_on(MemoryCluster.deterministic(NOW), case.sourced, RunSettings(namespace=NAMESPACE), lambda: NOW)
    )
    outcome = next(outcome for outcome in ran.outcomes if outcome.name == ASKER)
    unknown = texts_of(ran.unknown)
    if outcome.node:
        return FitAnswer(FITS, chosen=outcome.node, unknown=unknown)
    failure = outcome.failure
    if failure is None or failure.step != HandOver.PLACEMENT:
        return None
    return FitAnswer(DOES_NOT_FIT, frozenset(), unknown=unknown)


def by_pytest_plugin(case: FitCase) -> FitAnswer | None:
    """``assert_vm_ready``, of which the first line says at which hand-over a VM fails, and the last ones what wasn't
    known."""
    if not case.asks_as_vm:
        return None
    with tempfile.TemporaryDirectory() as folder:
        vm, cluster = Path(folder, "vm.json"), Path(folder, "cluster.json")
        others = [raw for raw, obj in zip(case.raw, case.objects, strict=True) if obj is not case.asker]
        asker = next(raw for raw, obj in zip(case.raw, case.objects, strict=True) if obj is case.asker)
        vm.write_text(json.dumps(asker), encoding="utf-8")
        cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": others}), encoding="utf-8")
        inputs = ReadinessInputs((str(vm),), (str(cluster),), None, NAMESPACE, None, {}, ())
        try:
            (outcome,) = ready_vms(inputs)
        except AssertionError as error:
            sentence, *lines = str(error).splitlines()
            said = frozenset(line.removeprefix("Not known: ") for line in lines if line.startswith("Not known: "))
            answer = _of_failure(sentence)
            return None if answer is None else replace(answer, unknown=said)
    return FitAnswer(FITS, chosen=outcome.node)


def _of_failure(sentence: str) -> FitAnswer | None:
    """Of ``VirtualMachine team/asker isn't ready: placement: …``."""
    step = sentence.partition("isn't ready: ")[2].partition(":")[0]
    if step in (HandOver.ADMISSION, HandOver.LAUNCHER_POD, HandOver.CLAIMS):
        return None
    if step == HandOver.PLACEMENT:
        return FitAnswer(DOES_NOT_FIT)
    return FitAnswer(FITS)  # it has a node, and fails there, or the lint denies it for another reason


def by_lint(case: FitCase) -> FitAnswer | None:
    """Nothing of a VM that it denies for another reason, and where it says that nodes or slices aren't known."""
    wish = case.wish
    if wish is None or not case.asks_as_vm:
        return None
    result = lint_documents(case.documents, LintSettings(), namespace=NAMESPACE, trial=Fitting)
    findings = next(judged.findings for judged in result.checked if judged.name == ASKER)
    if (result.not_checked and wish.claims) or not any(case.nodes):
        return None
    tried = texts_of(result.unknown)
    if any(finding.id in _NO_PLACE for finding in findings):
        return FitAnswer(DOES_NOT_FIT, unknown=tried or None)
    return None if any(finding.severity == DENIAL for finding in findings) else FitAnswer(FITS, unknown=tried)


def by_explain(case: FitCase) -> FitAnswer | None:
    state = ClusterState.from_objects(case.objects)
    subject = case.subject
    if subject.wish is None:
        return None
    answer = answered(subject, state, lambda done, total: None)
    reasons = {
        node: group.node_reasons[0].code if group.node_reasons else DEVICES
        for group in answer.groups
        for node in group.nodes
    }
    unknown = texts_of(answer.unknown)
    if answer.verdict == BROKEN:
        return FitAnswer(DOES_NOT_FIT, unknown=unknown)
    verdict: FitVerdict = FITS if answer.fitting else DOES_NOT_FIT
    return FitAnswer(verdict, frozenset(answer.fitting), reasons=reasons, unknown=unknown)


def by_diff(case: FitCase) -> FitAnswer | None:
    """The asker is new in the second state. Nothing of one that isn't admitted."""
    if case.subject.wish is None and case.wish is not None:
        return None
    before, after = (
        FitState(ClusterState.from_objects(objects), lambda: None) for objects in (case.cluster, case.objects)
    )
    wish = case.wish
    own = texts_of(unknown_to([wish.pod], after.state.model)) if wish is not None else frozenset()
    unknown = texts_of(after.unknown) - (texts_of(before.unknown) - own)  # of others is said what they ask for, too
    for change in differences(before, after, lambda done, total: None):
        if change.title.endswith(f"{NAMESPACE}/{ASKER}"):
            return FitAnswer(FITS if change.after == "fits" else DOES_NOT_FIT, unknown=unknown)
    return None


def by_what_if(case: FitCase) -> FitAnswer | None:
    """The asker is added to the cluster, with claims of its own: nothing of one that has devices already."""
    wish = case.wish
    if wish is None or any(claim.status.allocation is not None for claim in wish.claims) or not any(case.nodes):
        return None
    if isinstance(case.asker, Pod) and not any(isinstance(obj, Pod) for obj in case.cluster):
        return None  # the asker is the only pod, of which the cluster doesn't know yet
    try:
        shape = added_vm([case.asker], case.cluster, "asker.yaml")
        prospect = Prospect(cluster_of(case.cluster), "first-fit", features=DEFAULT)
        outcome = prospect.apply(parse_change("add asker.yaml"), shape)
    except BadExperiment:
        return None
    except FatalError:
        return FitAnswer(DOES_NOT_FIT)
    unknown = texts_of(prospect.unknown)
    if not outcome.started:
        return FitAnswer(DOES_NOT_FIT, frozenset(), line=outcome.why.partition(": ")[2], unknown=unknown)
    return FitAnswer(FITS, chosen=outcome.started[-1][1], unknown=unknown)


def by_plan(case: FitCase) -> FitAnswer | None:
    """The asker is a manifest that is applied to the cluster."""
    wish = case.wish
    # A pod isn't planned, and a VM of a claim with devices is theirs who have them.
    if wish is None or isinstance(case.asker, Pod) or any(claim.status.allocation is not None for claim in wish.claims):
        return None
    before = model_of_files(case.cluster, NAMESPACE)
    changed = changed_cluster(before, [case.asker], (), NAMESPACE)
    if isinstance(SubjectFinder(placeable(changed.after)).start_of(case.asker), Reason):
        return None
    try:
        effects = vm_changes(changed, lambda: False, lambda: None, lambda done, total: None)
        of_asker = [effect for effect in effects if effect.title == f"VM {case.asker.key}"]
    except (BadExperiment, FatalError):
        return FitAnswer(DOES_NOT_FIT)
    if not of_asker:
        return None
    (effect,) = of_asker
    if effect.effect == "waits":
        return FitAnswer(DOES_NOT_FIT, frozenset(), line=effect.why)
    return FitAnswer(FITS, chosen=effect.node)


# --- in the cluster -----------------------------------------------------------------------------------------------


def by_operator(case: FitCase) -> FitAnswer | None:
    """The condition Allocatable of a VMI, which is about its claims."""
    wish = case.wish
    if wish is None or not wish.claims or not case.asks_as_vm or case.gaps:
        return None
    claims = [obj for obj in case.objects if isinstance(obj, ResourceClaim)]
    sample = _ended(
        sampling(
            [obj for obj in case.objects if isinstance(obj, Node)],
            claims,
            [obj for obj in case.objects if isinstance(obj, ResourceSlice)],
            [obj for obj in case.objects if isinstance(obj, DeviceClass)],
            [obj for obj in case.objects if isinstance(obj, DeviceTaintRule)],
            NOW,
        )
    )
    request = ExplanationRequest(wish.pod, {claim.key: claim for claim in wish.claims}, None, NOW)
    condition = explained_within(request, view_of(sample), LIMITS, lambda: False).condition
    if condition.status != "True":
        return FitAnswer(DOES_NOT_FIT)
    said = (condition.message or "").partition(" Not known: ")[2]
    return FitAnswer(FITS, unknown=frozenset(said.split("; ")) if said else frozenset())


def _ended(steps: Generator[None, None, Sample]) -> Sample:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            sample: Sample = end.value
            return sample


def by_extender(case: FitCase) -> FitAnswer | None:
    """The filter, asked as kube-scheduler asks it: about the nodes that fit but for the devices."""
    wish = case.wish
    if wish is None or not wish.claims or not case.whole:
        return None
    advisor = Advisor("first-fit", DEFAULT, lambda: 0.0, lambda: 0.5)
    for obj in (*case.cluster, *wish.claims):
        if type(obj) in READ["extender"].all:
            advisor.put(obj)
    advisor.prepare()
    without_claims = wish.pod.with_(spec=wish.pod.spec.without("resource_claims"))
    names = tuple(sorted(fits_on(case, without_claims).nodes or ()))
    advice, refused = advisor.filter(ExtenderArguments(wish.pod, names))
    if advice.verdict == "invalid claims":
        return FitAnswer(DOES_NOT_FIT)
    nodes = frozenset(names) - refused.keys()
    return None if advice.scores is None else FitAnswer(FITS if nodes else DOES_NOT_FIT, nodes)


SURFACES: Final = (
    FitSurface("scenario", by_scheduler),
    FitSurface("run", by_run),
    FitSurface("pytest plugin", by_pytest_plugin, every=10),
    FitSurface("lint", by_lint, FitCase.unused),
    FitSurface("explain", by_explain),
    FitSurface("diff", by_diff),
    FitSurface("simulate --what-if", by_what_if),
    FitSurface("plan", by_plan),
    FitSurface("operator's Allocatable", by_operator, FitCase.without_pods),
    FitSurface("extender's filter", by_extender),
)
