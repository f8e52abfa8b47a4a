"""The outcomes of ``virt-dra run`` as a table for people, a row for each VM."""

from __future__ import annotations

from collections.abc import Sequence

from virt_dra.api.counting import counted
from virt_dra.api.go_text import visible
from virt_dra.cli.shared.aligned import aligned
from virt_dra.simulator.outcome import DeviceOutcome, VmOutcome
from webhooks.lint import DENIAL

_HEADINGS = ("VM", "READY", "NODE", "DEVICES", "REMARKS")
_WIDE = ("KIND", "POD", "CLAIMS", "ALLOCATED", "FINDINGS", "SOURCE")
_SHOWN = 4
"""Devices of a VM that are named in a row; the wide table names all."""
_LONGEST = 100
"""Characters of a message in a row."""


def outcome_table(outcomes: Sequence[VmOutcome], *, wide: bool = False) -> list[str]:
    """The lines of the table. ``wide``: with more columns and full texts."""
    rows = [[*_cells(outcome, wide=wide), *(_wide_cells(outcome) if wide else ())] for outcome in outcomes]
    return aligned((*_HEADINGS, *_WIDE) if wide else _HEADINGS, rows)


def outcome_name(outcome: VmOutcome) -> str:
    """``kind/namespace/name``, as ``virt-dra get -o name`` writes it."""
    return visible(f"{outcome.kind.lower()}/{outcome.namespace}/{outcome.name}")


def _cells(outcome: VmOutcome, *, wide: bool) -> tuple[str, ...]:
    devices = [_device(device) for device in outcome.devices if device.allocated]
    more = len(devices) - _SHOWN
    shown = devices if wide or more <= 0 else [*devices[:_SHOWN], f"{more} more"]
    name, ready = visible(f"{outcome.namespace}/{outcome.name}"), "yes" if outcome.ready else "no"
    return name, ready, outcome.node or "-", ", ".join(shown) or "-", _remarks(outcome)


def _device(device: DeviceOutcome) -> str:
    name = device.device.rpartition("/")[2]
    address = device.mdev_uuid or device.pci_address or ""
    return f"{name} {address}".rstrip()


def _remarks(outcome: VmOutcome) -> str:
    """Why it isn't ready, else what else is to be said of it."""
    if outcome.denied:
        denials = sum(finding.severity == DENIAL for finding in outcome.findings)
        return f"denied by {counted(denials, 'finding')} of the lint"
    if outcome.failure is not None:
        message = outcome.failure.message.partition("\n")[0]
        return f"{outcome.failure.step}: {message if len(message) <= _LONGEST else message[:_LONGEST] + '…'}"
    runs = ["runs already"] if outcome.taken_over else []
    findings = [counted(len(outcome.findings), "finding") + " of the lint"] if outcome.findings else []
    return ", ".join([*runs, *findings])


def _wide_cells(outcome: VmOutcome) -> tuple[str, ...]:
    return (
        outcome.kind,
        outcome.pod or "-",
        ", ".join(claim.claim for claim in outcome.claims) or "-",
        ", ".join(device.allocated for device in outcome.devices if device.allocated) or "-",
        ", ".join(dict.fromkeys(finding.id for finding in outcome.findings)) or "-",
        outcome.source,
    )
