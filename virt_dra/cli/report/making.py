"""Makes what a report says from the objects of a cluster: explains what waits, checks VMs, within limits of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Final

from virt_dra.allocator import FatalError
from virt_dra.api.core_v1 import Node
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance
from virt_dra.api.reading.documents import DocumentSource, Sourced
from virt_dra.cli.report.contents import ReportContents, free_of_models, kept_devices, state_counts, taken_by_day
from virt_dra.cli.report.settings import ReportSettings
from virt_dra.inventory.device_rows import device_rows
from virt_dra.inventory.topology import PLACES, topology
from virt_dra.inventory.vm_rows import Readiness, VmRow, vm_rows
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.feeds.admitted import as_admitted
from virt_dra.simulator.deadline import AllocationDeadline
from virt_dra.simulator.explaining.state import ClusterState
from virt_dra.simulator.explaining.waiting import WaitingAnswers, still_waiting, waiting_answers
from webhooks.lint import LintSettings, findings_on_vms
from webhooks.lint.inputs import EVERYTHING, KubeVirtAtHand, LintInputs
from webhooks.rules.reviewed_spec import VmObject

_EXPLAIN_SECONDS: Final = 1.0
"""For judging the nodes of one waiting VM, and again for its ways out."""
_LINTED: Final = 50
"""VMs that are checked: on 40,000 devices a check takes some ten milliseconds."""

ReportProgress = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Shows that something is being done, given its name; as :func:`virt_dra.cli.shared.console.progress`."""


def contents_of(
    model: ClusterModel,
    settings: ReportSettings,
    now: datetime,
    progress: ReportProgress,
    explained: WaitingAnswers | None = None,
) -> ReportContents:
    """What the report says of these objects. ``now`` is for devices that are still being waited for.

    ``explained``: answers of before, of which those are taken whose subjects wait still; None: all are found anew.
    """
    model = as_admitted(model)
    kubevirt = next(iter(model.of(KubeVirt)), None)
    # Before the model is changed: what is derived here is shared.
    inputs = LintInputs.from_model(model, EVERYTHING, KubeVirtAtHand.configured(kubevirt), settings.address_keys)
    rows = device_rows(model, settings.address_keys)
    nodes = topology(rows, model.of(Node))
    deadline = AllocationDeadline(_EXPLAIN_SECONDS)
    notes: tuple[str, ...] = ()
    try:
        with progress("explaining what waits") as report:
            state = ClusterState.from_model(model, deadline)
            waiting = (
                waiting_answers(state, settings.most, report, deadline.start)
                if explained is None
                else still_waiting(explained, model)
            )
    except FatalError as error:
        waiting, notes = WaitingAnswers(()), (f"What waits can't be explained: {error}",)
    vms = tuple(vm_rows(model, now, settings.address_keys))
    chosen, left_out = _linted(model, vms)
    if left_out:
        notes += (
            f"Findings are those of {len(chosen):,} VMs, the ones that aren't ready first; virt-dra lint checks all.",
        )
    subjects = [Sourced(vm, DocumentSource("cluster", 0)) for vm in chosen]
    with progress("checking VMs") as report:
        judged = findings_on_vms(inputs, subjects, LintSettings.for_command(), report)
    number, findings = sum(node.name not in PLACES for node in nodes), tuple(obj for obj in judged if obj.findings)
    return ReportContents(
        number,
        state_counts(rows),
        vms,
        tuple(nodes),
        waiting,
        free_of_models(nodes),
        findings,
        taken_by_day(rows),
        kept_devices(rows),
        notes,
    )


def _linted(model: ClusterModel, rows: Sequence[VmRow]) -> tuple[list[VmObject], int]:
    """The VMs and VMIs to check, those first that aren't ready, and how many are left out."""
    unready = {(row.namespace, row.name) for row in rows if row.readiness is Readiness.NOT_READY}
    vms: list[VmObject] = [*model.of(VirtualMachine), *model.of(VirtualMachineInstance)]
    vms.sort(key=lambda vm: (vm.namespace, vm.name) not in unready)
    return vms[:_LINTED], max(len(vms) - _LINTED, 0)
