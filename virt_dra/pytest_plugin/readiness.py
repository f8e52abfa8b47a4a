"""Runs VMs on an embedded cluster, and explains why one isn't ready."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from io import StringIO

from virt_dra.api.counting import counted
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.reading.documents import Document
from virt_dra.cli.run.tree import notes_of, outcome_tree
from virt_dra.cli.shared.console import visible_lines
from virt_dra.cli.shared.lint_options import unreadable
from virt_dra.cli.shared.quiet import QuietConsole
from virt_dra.cluster.duplicates import latest
from virt_dra.cluster.files import read_written
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.pytest_plugin import UnusableInput
from virt_dra.simulator.embedded import Ran, RunSettings
from virt_dra.simulator.outcome import VmOutcome
from virt_dra.simulator.preflight import judged_for_run, run_judged
from webhooks.lint import BY_ID, DENIAL, LintResult, LintSettings

_WIDTH = 100_000
"""Columns, so that no line of a message is wrapped."""


@dataclass(frozen=True)
class ReadinessInputs:
    """What a test asserts about: paths of VMs and of the cluster's objects, and the settings of a run."""

    vms: tuple[str, ...]
    cluster: tuple[str, ...]
    node: str | None
    namespace: str
    kubevirt: str | None
    gates: Mapping[str, bool]
    ignore: tuple[str, ...]


def ready_vms(inputs: ReadinessInputs) -> tuple[VmOutcome, ...]:
    """The outcomes of the VMs, all ready. Raises AssertionError with the explanation of those that aren't, and
    UnusableInput."""
    __tracebackhide__ = True
    settings = _settings(inputs)
    wanted, others = _documents(inputs)
    documents = latest((*others, *wanted), settings.namespace)
    judgement = judged_for_run(documents.documents, settings, LintSettings.for_command(ignore=_ids(inputs.ignore)))
    if not judgement.readable:
        raise UnusableInput(*unreadable(documents.documents))
    ran = replace(_run(judgement, settings), replaced=documents.replaced)
    places = {str(document.source) for document in wanted}
    outcomes = tuple(outcome for outcome in ran.outcomes if outcome.source in places)
    if not outcomes:
        missing = "no VirtualMachine or VirtualMachineInstance found; name the file that has one"
        raise UnusableInput(f"{', '.join(inputs.vms)}: {missing}")
    if not all(outcome.ready for outcome in outcomes):
        raise AssertionError(visible_lines(_explanation(ran, outcomes)))
    if judgement.unreadable:
        lost = (Document(manifest.raw, manifest.source) for manifest in judgement.unreadable)
        raise UnusableInput(*unreadable(lost))
    return outcomes


def _settings(inputs: ReadinessInputs) -> RunSettings:
    if not inputs.vms:
        raise UnusableInput("assert_vm_ready: name a file that has a VirtualMachine or VirtualMachineInstance")
    try:
        version = KubeVirtVersion.parse_known(inputs.kubevirt) if inputs.kubevirt is not None else None
    except ValueError as error:
        raise UnusableInput(f"kubevirt: {error}") from None
    return RunSettings(node=inputs.node, namespace=inputs.namespace, kubevirt=version, gates=inputs.gates)


def _ids(ignore: Sequence[str]) -> frozenset[str]:
    unknown = [finding for finding in ignore if finding not in BY_ID]
    if unknown:
        raise UnusableInput(f"ignore: {unknown[0]!r} is no finding; virt-dra lint --list shows them")
    return frozenset(ignore)


def _documents(inputs: ReadinessInputs) -> tuple[tuple[Document, ...], tuple[Document, ...]]:
    """The documents of the VMs' files, and those of the cluster's files without the former."""
    wanted, others = read_written(inputs.vms), read_written(inputs.cluster)
    problems = dict.fromkeys(str(problem) for problem in (*wanted.problems, *others.problems))
    if problems:
        raise UnusableInput(*problems)
    files = {os.path.realpath(document.source.name) for document in wanted.documents}
    return wanted.documents, tuple(of for of in others.documents if os.path.realpath(of.source.name) not in files)


def _run(judgement: LintResult, settings: RunSettings) -> Ran:
    """The run, on a cluster whose names and uids are counted: a test gets the same domain each time.

    In a thread of its own where this one has a running event loop, which then waits.
    """
    ran: list[Ran] = []

    async def drive() -> None:
        now = datetime.now(UTC)
        ran.append(await run_judged(MemoryCluster.deterministic(now), judgement, settings, lambda: now))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(drive())
    else:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: asyncio.run(drive())).result()
    return ran[0]


def _explanation(ran: Ran, outcomes: Sequence[VmOutcome]) -> str:
    """A sentence, then what else the input has wrong, then each VM that isn't ready as ``virt-dra run`` shows it."""
    waiting = [outcome for outcome in outcomes if not outcome.ready]
    several = f"{len(waiting)} of {counted(len(outcomes), 'VM')} aren't ready"
    head = _sentence(waiting[0]) if len(waiting) == 1 else several
    text = StringIO()
    console = QuietConsole(file=text, width=_WIDTH, color_system=None, highlight=False, markup=False, emoji=False)
    for outcome in waiting:
        console.print(outcome_tree(outcome, None), crop=False)
    trees = text.getvalue().rstrip().split("\n")
    return "\n".join((f"{head} ({ran.kubevirt})", *notes_of(ran), *trees, *map(str, ran.unknown)))


def _sentence(outcome: VmOutcome) -> str:
    name = f"{outcome.kind} {outcome.namespace}/{outcome.name} isn't ready"
    if outcome.failure is not None:
        return f"{name}: {outcome.failure.step}: {outcome.failure.message}"
    denials = [finding for finding in outcome.findings if finding.severity == DENIAL]
    return f"{name}: the lint denies it: {denials[0].message}" if denials else name
