"""Everything that waits among the objects of a cluster, each with its explanation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.simulator.explaining.answer import PLACED, ExplainedAnswer, JudgeProgress, answered
from virt_dra.simulator.explaining.state import ClusterState
from virt_dra.simulator.explaining.subject import AskedSubject, SubjectFinder


@dataclass(frozen=True)
class WaitingAnswers:
    """``left_out``: how many were not explained, since there were more than asked for."""

    answers: tuple[ExplainedAnswer, ...]
    left_out: int = 0


def waiting_answers(
    objects: Sequence[TypedObject],
    namespace: str,
    state: ClusterState,
    most: int,
    progress: JudgeProgress,
    restart: Callable[[], None],
) -> WaitingAnswers:
    """The first ``most`` that have no place. ``restart``: starts the time limit of each. Raises FatalError for slices
    that can't be read."""
    waiting = list(subjects_in(objects, namespace, bound=False))
    found: list[ExplainedAnswer] = []
    for number, subject in enumerate(waiting[:most]):
        progress(number, len(waiting))
        restart()
        found.append(answered(subject, state, lambda done, total: None, restart))
    return WaitingAnswers(tuple(each for each in found if each.verdict != PLACED), max(len(waiting) - most, 0))


def still_waiting(explained: WaitingAnswers, objects: Sequence[TypedObject], namespace: str) -> WaitingAnswers:
    """Of answers that were found before, those of subjects that wait still."""
    waiting = {each.title for each in subjects_in(objects, namespace, bound=False)}
    return WaitingAnswers(tuple(each for each in explained.answers if each.title in waiting), explained.left_out)


def subjects_in(objects: Sequence[TypedObject], namespace: str, *, bound: bool = True) -> Iterator[AskedSubject]:
    """VMs and VMIs, each once, then pods with claims that aren't theirs; without those that have finished, and without
    those whose pods have a node unless ``bound``."""
    instances = {
        (each.namespace or namespace, each.name) for each in objects if isinstance(each, VirtualMachineInstance)
    }
    finder = SubjectFinder(objects, namespace)
    for each in finder.objects:
        kind = ""
        if isinstance(each, VirtualMachineInstance) and not each.finished:
            kind = "vmi" if bound or not finder.is_bound(each) else ""
        elif isinstance(each, VirtualMachine) and (each.namespace or namespace, each.name) not in instances:
            kind = "vm"
        elif isinstance(each, Pod) and each.spec.resource_claims and not each.finished and not _of_vm(each):
            kind = "pod" if bound or not finder.is_bound(each) else ""
        if kind:
            yield finder.find(kind, each.name, each.namespace)


def _of_vm(pod: Pod) -> bool:
    owner = pod.metadata.controller_owner
    return owner is not None and owner.kind == VirtualMachineInstance.KIND
