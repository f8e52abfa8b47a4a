"""The pod that an asker is, or gets, with its claims."""

from __future__ import annotations

from typing import Final

from devtools.fit.case import ASKER, NAMESPACE, FitCase
from virt_dra.api.core_v1 import Pod
from virt_dra.model.feeds.files import placeable_model
from virt_dra.scheduling.framework.refusals import Reason
from virt_dra.simulator.explaining.state import Wish
from virt_dra.simulator.explaining.subject import AskedSubject, SubjectFinder

_KINDS: Final = {"Pod": "pod", "VirtualMachine": "vm", "VirtualMachineInstance": "vmi"}


def subject_of(case: FitCase) -> AskedSubject:
    """The asker as explanations see it."""
    return SubjectFinder(placeable_model(case.objects)).find(_KINDS[case.asker.KIND], ASKER, NAMESPACE)


def wish_of(case: FitCase) -> Wish | None:
    """The asker's pod, with its claims; None where there can't be one. No VM owns it: the cluster has none yet.
    Whether it is admitted isn't asked."""
    model, asker = placeable_model(case.objects), case.asker
    if isinstance(asker, Pod):
        wish: Wish | Reason | None = subject_of(case).wish
    else:
        wish = SubjectFinder(model).wish_of(model.by_key(type(asker))[f"{NAMESPACE}/{ASKER}"])
    if not isinstance(wish, Wish):
        return None
    return Wish(wish.pod.with_(metadata=wish.pod.metadata.without("owner_references")), wish.claims)
