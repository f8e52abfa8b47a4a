"""The DeviceClass that serves an extended resource (KEP-5004, A-25).

Computed from all known classes at once: updated class by class, as upstream's cache is, entries get lost (AC-19).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from virt_dra.api.resource_v1 import DeviceClass

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Followed by a class's name, it is the extended resource that every class has."""


def classes_by_resource(classes: Iterable[DeviceClass]) -> Mapping[str, DeviceClass]:
    """Extended resource name -> the class that serves it.

    If several classes name one resource, the youngest counts, and among equally old ones the first by name.
    """
    by_name = sorted(classes, key=lambda each: each.name)
    found: dict[str, DeviceClass] = {}
    for each in sorted(by_name, key=lambda each: each.metadata.creation_timestamp or "", reverse=True):  # stable: names stay in order
        if each.spec.extended_resource_name:
            found.setdefault(each.spec.extended_resource_name, each)
    # A class can't take another's implicit name from it, whatever it names itself.
    return found | {IMPLICIT_PREFIX + each.name: each for each in by_name}
