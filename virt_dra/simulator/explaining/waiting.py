"""Everything that waits among the objects of a cluster, each with its explanation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.controllers.loops.virtual_machines import wants_instance
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.unknown import UnknownFact
from virt_dra.simulator.explaining.answer import PLACED, ExplainedAnswer, JudgeProgress, answered
from virt_dra.simulator.explaining.state import ClusterState
from virt_dra.simulator.explaining.subject import AskedSubject, SubjectFinder


@dataclass(frozen=True)
class WaitingAnswers:
    """Explanations of what waits. ``left_out``: how many were not explained, since there were more than asked for."""

    answers: tuple[ExplainedAnswer, ...]
    left_out: int = 0

    @property
    def unknown(self) -> tuple[UnknownFact, ...]:
        """What couldn't be taken into account for some of them."""
        return tuple(dict.fromkeys(fact for answer in self.answers for fact in answer.unknown))


def waiting_answers(
    state: ClusterState, most: int, progress: JudgeProgress, restart: Callable[[], None]
) -> WaitingAnswers:
    """The explanations of the first ``most`` subjects that have no place. ``restart``: starts the time of each. Raises
    FatalError."""
    waiting = list(subjects_in(state.model, bound=False))
    answers: list[ExplainedAnswer] = []
    for number, subject in enumerate(waiting[:most]):
        progress(number, len(waiting))
        restart()
        answers.append(answered(subject, state, lambda done, total: None, restart))
    unplaced = tuple(answer for answer in answers if answer.verdict != PLACED)
    return WaitingAnswers(unplaced, max(len(waiting) - most, 0))


def still_waiting(explained: WaitingAnswers, model: ClusterModel) -> WaitingAnswers:
    """The answers whose subjects still wait."""
    waiting = {subject.title for subject in subjects_in(model, bound=False)}
    return WaitingAnswers(tuple(answer for answer in explained.answers if answer.title in waiting), explained.left_out)


def subjects_in(model: ClusterModel, *, bound: bool = True) -> Iterator[AskedSubject]:
    """VMs, VMIs, each VM once, then pods with claims that aren't theirs; without those that have finished, and unless
    ``bound`` without those that have their place and VMs that are to be stopped, which wait for nothing."""
    finder, instances = SubjectFinder(model), model.by_key(VirtualMachineInstance)
    for vm in model.of(VirtualMachine):
        if vm.key not in instances and (bound or wants_instance(vm)):
            yield finder.find("vm", vm.name, vm.namespace)
    for vmi in model.of(VirtualMachineInstance):
        if not vmi.finished and (bound or not finder.is_placed(vmi)):
            yield finder.find("vmi", vmi.name, vmi.namespace)
    for pod in model.of(Pod):
        if pod.spec.resource_claims and not pod.finished and not _of_vm(pod) and (bound or not finder.is_placed(pod)):
            yield finder.find("pod", pod.name, pod.namespace)


def _of_vm(pod: Pod) -> bool:
    owner = pod.metadata.controller_owner
    return owner is not None and owner.kind == VirtualMachineInstance.KIND
