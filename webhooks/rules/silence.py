"""The annotation with the ids of lint findings to silence, separated by commas.

A VM may have it itself and in its template, from which KubeVirt copies it to the VMI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from virt_dra.api.integration.paths import LINT_IGNORE_ANNOTATION
from virt_dra.api.kubevirt_v1 import VirtualMachine
from webhooks.rules.reviewed_spec import VmObject

IGNORE_ANNOTATION: Final = LINT_IGNORE_ANNOTATION


def annotated(subject: VmObject) -> Mapping[str, tuple[str, ...]]:
    """The ids by the path of the annotation, without blanks and empty ones."""
    places = {"metadata": subject.metadata.annotations}
    if isinstance(subject, VirtualMachine):
        places["spec.template.metadata"] = subject.spec.template.metadata.annotations
    return {
        f"{place}.annotations[{IGNORE_ANNOTATION}]": tuple(
            id for part in annotations[IGNORE_ANNOTATION].split(",") if (id := part.strip())
        )
        for place, annotations in places.items()
        if IGNORE_ANNOTATION in annotations
    }


def silenced(subject: VmObject) -> frozenset[str]:
    """The ids that the object silences."""
    return frozenset(id for ids in annotated(subject).values() for id in ids)
