"""The preferred alignments that the VMs of a run get, chosen in the order in which they compete for devices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from virt_dra.api.meta import TypedObject
from virt_dra.api.profiles.alignment import PreferredAlignment, with_alignments
from virt_dra.api.profiles.expansion import template_name
from virt_dra.api.profiles.lines import LineSurroundings
from virt_dra.api.reading.documents import Sourced
from virt_dra.api.resource_v1 import ResourceClaimTemplate
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.feeds.files import placeable_model
from virt_dra.scheduling.alignment import AlignmentChoice, aligned_claims, chosen_alignments, placed_beside
from virt_dra.scheduling.framework.refusals import Reason
from virt_dra.simulator.explaining.subject import SubjectFinder
from virt_dra.simulator.input_vms import InputVm, SortedInput


def aligned(given: SortedInput, surroundings: LineSurroundings) -> SortedInput:
    """The input with the alignments that its VMs get in their claims' templates; the others are notes."""
    preferences = {
        number: own
        for number, vm in enumerate(given.vms)
        if vm.vmi is None and vm.blocked is None and (own := surroundings.admitted(vm.subject.object).preferences)
    }
    if not preferences:
        return given
    objects = [sourced.object for sourced in given.others]
    choices = _choices(given.vms, preferences, placeable_model([*objects, *(vm.subject.object for vm in given.vms)]))
    held: defaultdict[str, list[PreferredAlignment]] = defaultdict(list)
    vms = list(given.vms)
    for number, choice in choices.items():
        vms[number] = replace(vms[number], notes=(*vms[number].notes, *choice.texts))
        subject = vms[number].subject.object
        for alignment in choice.held:
            held[f"{subject.namespace}/{template_name(subject.name, alignment.entry)}"].append(alignment)
    return SortedInput(tuple(vms), tuple(_with(sourced, held) for sourced in given.others))


def _choices(
    vms: Sequence[InputVm], preferences: Mapping[int, Sequence[PreferredAlignment]], model: ClusterModel
) -> dict[int, AlignmentChoice]:
    """The choice for each VM, by its place in the input. VMs that come first keep what they got."""
    finder = SubjectFinder(model)
    choices: dict[int, AlignmentChoice] = {}
    order = sorted(range(len(vms)), key=lambda number: vms[number].stopped)
    for number in order[: max(map(order.index, preferences)) + 1]:
        vm = vms[number]
        wish = finder.wish_of(vm.reviewed) if vm.vmi is None and vm.blocked is None else None
        if wish is None or isinstance(wish, Reason):
            continue
        choice = choices[number] = chosen_alignments(wish.pod, wish.claims, preferences.get(number, ()), model)
        claims = aligned_claims(wish.pod, wish.claims, choice.held)
        model = placed_beside(wish.pod, claims, model, f"run-{number}")
    return {number: choice for number, choice in choices.items() if number in preferences}


def _with(sourced: Sourced[TypedObject], held: Mapping[str, Sequence[PreferredAlignment]]) -> Sourced[TypedObject]:
    obj = sourced.object
    if not isinstance(obj, ResourceClaimTemplate) or obj.key not in held:
        return sourced
    return Sourced(obj.with_(spec=obj.spec.with_(spec=with_alignments(obj.spec.spec, held[obj.key]))), sourced.source)
