"""The types of the document that ``virt-dra run -o json`` writes."""

from __future__ import annotations

from typing import TypedDict

from virt_dra.cluster.accepting import RefusedObjectJson
from virt_dra.cluster.duplicates import ReplacedJson
from virt_dra.model.unknown import UnknownFactJson
from virt_dra.simulator.held_twice import HeldTwiceJson
from virt_dra.simulator.outcome import VmOutcomeJson


class ReportedVmJson(VmOutcomeJson):
    """A VM with the file of its domain."""

    xmlPath: str | None
    """With --out."""


class ClusterRunJson(TypedDict):
    """What became of the VMs of one cluster."""

    input: str
    ready: bool
    kubevirt: str
    kubevirtAssumed: bool
    """True if the KubeVirt object's own version can't be read."""
    refused: list[RefusedObjectJson]
    replaced: list[ReplacedJson]
    heldTwice: list[HeldTwiceJson]
    unknown: list[UnknownFactJson]
    vms: list[ReportedVmJson]


class SeparateRunsJson(TypedDict):
    """With --separate: a run for each FILE."""

    clusters: list[ClusterRunJson]
