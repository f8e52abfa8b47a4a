"""Plays a story with and without turbulence, and compares what is left after each episode."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from random import Random

from devtools.interleavings.findings import normal_form, problems, stored
from devtools.interleavings.shuffled import run_shuffled
from devtools.interleavings.story import NAMESPACE, Episode, Step, Story, story
from devtools.interleavings.turbulence import TurbulenceRates, TurbulentCluster, Weather
from virt_dra.api.core_v1 import Pod
from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.api.wire import Json
from virt_dra.cel.validation import compiled_rules
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.names import random_suffixes
from virt_dra.cluster.memory.rules import KindRules
from virt_dra.cluster.port import ApiError, NotFound
from virt_dra.scheduling.queue import LONGEST_UNSCHEDULABLE
from virt_dra.simulator.control_plane import LOOPS, AmbientSources, LoopKind, control_plane
from virt_dra.simulator.virtual_time import run_virtually, virtual_now

ROUGH_SECONDS = 3.0
"""Of turbulence after the last step of an episode."""
CALM_SECONDS = 3600.0
"""Of cluster time until everything has come to rest: longer than every back-off that turbulence can have caused."""
CALM_TURN = LONGEST_UNSCHEDULABLE + 60.0
"""Nothing changed for so long: nothing will. A pod whose special claim was left by a failed attempt is woken by no
event (C-4.7, C-7.3)."""
GRACE_SECONDS = 30

WITH_GROUPS = FeatureGates(generic_workload=True, workload_resource_claims=True)

Finding = str


@dataclass(frozen=True)
class History:
    """The states after each episode, and what was found in them."""

    states: tuple[Json, ...]
    findings: tuple[Finding, ...]


def compared(seed: int, loops: tuple[LoopKind, ...] = LOOPS, gates: FeatureGates | None = None) -> tuple[Finding, ...]:
    """What is wrong with the disturbed history of a seed; empty if nothing is. ``gates``: by default every other seed
    has PodGroups."""
    gates = gates or (WITH_GROUPS if seed % 2 else PLAIN)
    told = story(seed, groups=gates.workload_resource_claims)
    calm = run_virtually(_Stage(told, Random(seed), None, loops, gates).play())
    rough = run_shuffled(_Stage(told, Random(seed + 1), TurbulenceRates(), loops, gates).play(), Random(seed + 2))
    findings = [f"undisturbed: {finding}" for finding in calm.findings] + list(rough.findings)
    for episode, expected, state in zip(told.episodes, calm.states, rough.states, strict=True):
        if state != expected:
            findings += [f"after '{episode.name}': {line}" for line in _differences(expected, state)]
            break
    return tuple(findings)


def _differences(expected: Json, state: Json) -> list[str]:
    lines = []
    for kind in expected:
        for name in sorted(expected[kind].keys() | state[kind].keys()):
            calm, other = expected[kind].get(name), state[kind].get(name)
            if calm != other:
                lines.append(f"{kind} {name}: undisturbed {json.dumps(calm)}, disturbed {json.dumps(other)}")
    return lines


class _Stage:
    """One playing of a story. ``rates``: None without turbulence."""

    def __init__(
        self,
        told: Story,
        chance: Random,
        rates: TurbulenceRates | None,
        loops: tuple[LoopKind, ...],
        gates: FeatureGates,
    ) -> None:
        self._story, self._chance, self._loops, self._gates = told, chance, loops, gates
        self._weather = Weather(rates or TurbulenceRates(longest_delay=0.0))
        self._disturbed = rates is not None
        uids = count(1)
        self._cluster = MemoryCluster(
            virtual_now, random_suffixes(chance), lambda: f"00000000-0000-4000-8000-{next(uids):012x}",
            admission=KindRules(compiled_rules(gates)), graceful_deletion=True,
        )  # fmt: skip

    async def play(self) -> History:
        for obj in self._story.given:
            await self._cluster.create(obj)
        states, findings = [], []
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._kept_running(kind), name=kind.name)
                for kind in self._loops
                if kind.runs(self._gates)
            ]
            for episode in self._story.episodes:
                await self._perform(episode)
                await self._calm()
                state = await stored(self._cluster)
                states.append(normal_form(state))
                findings += [f"after '{episode.name}': {problem}" for problem in problems(state)]
            for task in tasks:
                task.cancel()
        return History(tuple(states), tuple(findings))

    async def _kept_running(self, kind: LoopKind) -> None:
        """A loop with its own informers, as a process; started anew whenever it crashes."""
        names = count(1)
        sources = AmbientSources(
            virtual_now, lambda: f"{kind.name.replace(' ', '-')}-{next(names)}", self._chance.random
        )
        while True:
            cluster = TurbulentCluster(self._cluster, self._chance, self._weather)
            async with control_plane(cluster, sources, gates=self._gates, loops=(kind,)):
                await cluster.crashed.wait()
            await asyncio.sleep(self._chance.random())

    async def _perform(self, episode: Episode) -> None:
        self._weather.rough = self._disturbed
        for step in episode.steps:
            await asyncio.sleep(step.wait)
            with contextlib.suppress(NotFound):  # a pod that was never bound goes at once, and has nothing to stop
                await self._do(step)
        await asyncio.sleep(ROUGH_SECONDS)
        self._weather.rough = False

    async def _do(self, step: Step) -> None:
        if step.do == "create":
            if step.obj is not None:
                await self._cluster.create(step.obj)
        elif step.do == "finish":
            await self._cluster.patch(
                Pod, step.name, NAMESPACE, merge={"status": {"phase": step.phase}}, subresource="status"
            )
        else:
            await self._cluster.delete(step.kind, step.name, NAMESPACE, grace_seconds=0 if step.do == "stop" else None)

    async def _calm(self) -> None:
        """Wait until the cluster is quiet; kubelets stop what is being deleted."""
        for _ in range(int(CALM_SECONDS / CALM_TURN)):
            before = self._cluster.resource_version
            await asyncio.sleep(CALM_TURN)
            for pod in (await self._cluster.list(Pod)).items:
                if pod.metadata.deletion_timestamp is not None:
                    with contextlib.suppress(ApiError):
                        await self._cluster.delete(Pod, pod.name, pod.namespace, uid=pod.metadata.uid, grace_seconds=0)
            if self._cluster.resource_version == before:
                return


def quietly(work: Callable[[], tuple[Finding, ...]]) -> tuple[Finding, ...]:
    """The findings of some work, without the warnings that turbulence makes the loops write."""
    logging.disable(logging.WARNING)
    try:
        return work()
    finally:
        logging.disable(logging.NOTSET)
