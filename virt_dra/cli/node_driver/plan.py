"""``virt-dra node-driver --plan``: reads trees and policies, and prints what would be published."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn

import click

from node_driver.devices import PublishedSet
from node_driver.hardware.reading import HardwareRoots, read_hardware
from node_driver.plan import plan_document
from node_driver.policy.deciding import published_set, wanted_vfs
from node_driver.policy.exclusions import ExclusionReason
from node_driver.slices import PoolOwner
from virt_dra.api.go_text import visible
from virt_dra.cli.node_driver.policy_files import policies_from
from virt_dra.cli.shared.aligned import aligned
from virt_dra.cli.shared.output import print_output, refusing

_HEADINGS: Final = ("DEVICE", "KIND", "ADDRESS", "DRIVER OR TYPE", "MEMBERS")


@dataclass(frozen=True)
class PlanRequest:
    """``labels``: the node's. ``verbose``: also say which devices no policy names."""

    roots: HardwareRoots
    policy: Path
    labels: Mapping[str, str]
    driver: str
    node: str
    verbose: bool
    output: str


def print_plan(request: PlanRequest) -> NoReturn:
    """Ends the process with 1 if nothing would be published, with 2 for input that can't be used."""
    policies = policies_from(request.policy, request.output)
    with refusing(request.output, OSError):
        hardware = read_hardware(request.roots)
    published = published_set(hardware, policies, request.labels)
    if not request.verbose:
        said = (excluded for excluded in published.excluded if excluded.reason != ExclusionReason.NOT_SELECTED)
        published = replace(published, excluded=tuple(said))
    wanted = wanted_vfs(hardware, policies, request.labels)
    vfs = {address: count.number for address, count in wanted.items()}
    if request.output == "table":
        click.echo("\n".join(_table(published, vfs)))
    else:
        members = plan_document(published, vfs, PoolOwner(request.driver, request.node, ""))
        print_output("NodeDevicePlan", members, request.output)
    sys.exit(0 if published.devices else 1)


def _table(published: PublishedSet, vfs: Mapping[str, int]) -> list[str]:
    rows = []
    for device in published.devices:
        driver = device.target_driver if device.members else device.type_id
        rows.append((device.name, device.kind.value, device.address, driver, " ".join(device.members)))
    lines = aligned(_HEADINGS, rows)
    lines += [f"{address} gets {number} virtual functions" for address, number in sorted(vfs.items())]
    if published.excluded:
        lines += ["", "NOT PUBLISHED"]
        lines += [visible(f"{excluded.subject}: {excluded.message}") for excluded in published.excluded]
    return lines
