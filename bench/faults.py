"""Faults on a real control plane while VMs start: nothing lost, nothing doubled, all VMs ready in the end.

Run: ``python -m bench faults`` (about ten minutes; ``--quick``: a tenth of it). Each line is a scenario of :mod:`tests.faults.scenarios`,
which fails if a VM doesn't come up, an object was made twice, something published was taken back, or two VMs have the same device.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.cluster.control_plane import ControlPlane
from tests.faults import certificates, scenarios
from tests.faults.ledger import audit_arguments
from tests.faults.scenarios import Report
from tests.faults.site import Site, site
from virt_dra.cli.install_plan import BESIDE_KUBEVIRT, STANDALONE, Overlay

SEED = 20261121
KILLS, VMS = 50, 100
OTHERS, SOME = 20, 10
"""VMs and faults of the other scenarios."""
ROUNDS = 3
"""Of authorities that follow each other."""


def main(*, quick: bool = False) -> None:
    kills, vms, others, some, rounds = (5, 10, 4, 2, 1) if quick else (KILLS, VMS, OTHERS, SOME, ROUNDS)
    console = Console(width=160)
    table = Table("scenario", "VMs", "faults", "took", "then settled", "created", "patched", "updated", "Events", "refused", "besides",
                  title=f"Faults on a real control plane, seed {SEED}")  # fmt: skip

    def run(scenario: Callable[[], Report]) -> None:
        began = time.monotonic()
        _add(table, scenario(), time.monotonic() - began)
        console.print(f"{len(table.rows)} done")

    with _site(BESIDE_KUBEVIRT, vms + 7 * others) as here:
        with certificates.changing(here, rounds=rounds) as reviews:
            run(lambda: scenarios.killed(here, vms, kills, SEED))
        assert reviews.failed == [], reviews.failed[:5]
        run(lambda: scenarios.two_at_once(here, others))
        run(lambda: scenarios.webhook_killed(here, others, some, SEED))
        run(lambda: scenarios.connections_cut(here, others, 5 * some, SEED))
        run(lambda: scenarios.api_server_paused(here, others, some // 2, SEED))
        run(lambda: scenarios.api_server_restarted(here, others, some // 2, SEED))
        if not quick:
            run(lambda: scenarios.api_server_restarted(here, others, 1, SEED, gracefully=True, prefix="ended"))
    with _site(STANDALONE, vms + others) as here:
        run(lambda: scenarios.killed(here, vms, kills, SEED))
        run(lambda: scenarios.two_at_once(here, others))
    console.print(table)
    answered, served = sum(reviews.answered.values()), len(reviews.serving)
    console.print(f"Reviews while certificates changed: {answered} answered, {len(reviews.failed)} failed; {served} certificates served")


@contextmanager
def _site(overlay: Overlay, devices: int) -> Iterator[Site]:
    """On a control plane of its own."""
    with tempfile.TemporaryDirectory(prefix="virt-dra-faults-") as name:
        folder = Path(name)
        arguments, log = audit_arguments(folder)
        (folder / "containers").mkdir()
        with ControlPlane(arguments=arguments) as plane, site(plane, log, overlay, folder / "containers", devices) as here:
            yield here


def _add(table: Table, report: Report, took: float) -> None:
    by_verb = [sum(count for what, count in report.done.items() if what.startswith(verb) and "events" not in what)
               for verb in ("create", "patch", "update")]  # fmt: skip
    refused = ", ".join(f"{code}: {count}" for code, count in sorted(report.refused.items()))
    told = ", ".join(f"{reason}: {count}" for reason, count in sorted(report.told.items()))
    notes = [f"{name}: {count}" for name, count in report.notes.items()]
    if report.ends:
        notes.append(f"operators that ended: {len(report.ends)}")
    counts = (str(len(report.vms)), str(report.faults), f"{took:.0f} s", f"{report.settled:.1f} s", *map(str, by_verb))
    table.add_row(report.name, *counts, told, refused, ", ".join(notes))


if __name__ == "__main__":
    main()
