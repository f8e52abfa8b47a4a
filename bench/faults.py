"""Faults on a real control plane while VMs start: nothing lost, nothing doubled, all VMs ready in the end.

Each line is a scenario of :mod:`devtools.faults`, which fails if a VM doesn't come up, an object was made twice,
something published was taken back, or two VMs have the same device.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from devtools.cluster.control_plane import ControlPlane
from devtools.faults import certificates, clocks, outage, scenarios, writes
from devtools.faults.answers import Fault
from devtools.faults.ledger import audit_arguments
from devtools.faults.scenarios import Report
from devtools.faults.site import Site, site
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE, Overlay

SEED = 20261121
ROUNDS = 3
"""Of authorities that follow each other while the operator is killed."""


@dataclass(frozen=True)
class Scenario:
    """``vms`` and ``faults``: how many, in full and with ``--quick``. ``takes``: minutes in full, on two cores."""

    name: str
    overlay: Overlay
    vms: tuple[int, int]
    faults: tuple[int, int]
    takes: float
    run: Callable[[Site, int, int], Report]
    by_default: bool = True

    @property
    def title(self) -> str:
        return f"{self.name}-{'standalone' if self.overlay == STANDALONE else 'beside'}"


def _killed_while_certificates_change(here: Site, vms: int, faults: int) -> Report:
    with certificates.changing(here, rounds=ROUNDS if faults > 5 else 1) as reviews:
        report = scenarios.killed(here, vms, faults, SEED)
    assert reviews.failed == [], reviews.failed[:5]
    report.notes["reviews answered"] = sum(reviews.answered.values())
    report.notes["certificates served"] = len(reviews.serving)
    return report


def _killed(here: Site, vms: int, faults: int) -> Report:
    return scenarios.killed(here, vms, faults, SEED)


def _many_kills(here: Site, vms: int, faults: int) -> Report:
    return scenarios.killed(here, vms, faults, SEED + 1, prefix="many")


def _restarted(here: Site, vms: int, faults: int) -> Report:
    return scenarios.api_server_restarted(here, vms, faults, SEED)


def _ended(here: Site, vms: int, faults: int) -> Report:
    return scenarios.api_server_restarted(here, vms, faults, SEED, gracefully=True, prefix="ended")


def _answers(here: Site, vms: int, _: int) -> Report:
    return writes.answered_wrongly(here, vms, SEED, late=31.0)


def _refused(fault: Fault) -> Callable[[Site, int, int], Report]:
    return lambda here, vms, _: writes.refused_for(here, vms, 30.0, fault, prefix=fault)


def _etcd(here: Site, vms: int, _: int) -> Report:
    return outage.etcd_gone(here, vms, 120.0 if vms > 10 else 15.0, SEED)


def _etcd_hangs(here: Site, vms: int, _: int) -> Report:
    return outage.etcd_gone(here, vms, 120.0 if vms > 10 else 15.0, SEED, hangs=True, prefix="slow")


def _clocks(here: Site, vms: int, jumps: int) -> Report:
    with tempfile.TemporaryDirectory(prefix="virt-dra-clocks-") as folder:
        return clocks.jumping(here, vms, jumps, SEED, Path(folder))


SCENARIOS: Final = (
    Scenario("killed", BESIDE_KUBEVIRT, (100, 10), (50, 5), 2, _killed_while_certificates_change),
    Scenario("two", BESIDE_KUBEVIRT, (20, 4), (1, 1), 0.3, lambda here, vms, _: scenarios.two_at_once(here, vms)),
    Scenario(
        "webhook",
        BESIDE_KUBEVIRT,
        (20, 4),
        (10, 2),
        0.5,
        lambda here, vms, n: scenarios.webhook_killed(here, vms, n, SEED),
    ),
    Scenario(
        "cut",
        BESIDE_KUBEVIRT,
        (20, 4),
        (50, 10),
        0.3,
        lambda here, vms, n: scenarios.connections_cut(here, vms, n, SEED),
    ),
    Scenario(
        "paused",
        BESIDE_KUBEVIRT,
        (20, 4),
        (5, 1),
        0.4,
        lambda here, vms, n: scenarios.api_server_paused(here, vms, n, SEED),
    ),
    Scenario("restarted", BESIDE_KUBEVIRT, (20, 4), (5, 1), 1, _restarted),
    Scenario("ended", BESIDE_KUBEVIRT, (20, 4), (1, 1), 2, _ended),
    Scenario("answers", BESIDE_KUBEVIRT, (20, 4), (1, 1), 3, _answers),
    Scenario("internal", BESIDE_KUBEVIRT, (20, 4), (1, 1), 1, _refused("internal")),
    Scenario("conflict", BESIDE_KUBEVIRT, (20, 4), (1, 1), 1, _refused("conflict")),
    Scenario("many", BESIDE_KUBEVIRT, (20, 4), (1, 1), 1, _refused("many")),
    Scenario("etcd", BESIDE_KUBEVIRT, (20, 6), (1, 1), 4, _etcd),
    Scenario("etcd-hangs", BESIDE_KUBEVIRT, (20, 6), (1, 1), 4, _etcd_hangs),
    Scenario("clocks", BESIDE_KUBEVIRT, (20, 4), (40, 8), 1, _clocks),
    Scenario("many-kills", BESIDE_KUBEVIRT, (500, 10), (500, 20), 15, _many_kills, by_default=False),
    Scenario("killed", STANDALONE, (100, 10), (50, 5), 2, _killed),
    Scenario("two", STANDALONE, (20, 4), (1, 1), 0.3, lambda here, vms, _: scenarios.two_at_once(here, vms)),
    Scenario("answers", STANDALONE, (20, 4), (1, 1), 3, _answers),
    Scenario("internal", STANDALONE, (20, 4), (1, 1), 1, _refused("internal")),
    Scenario("conflict", STANDALONE, (20, 4), (1, 1), 1, _refused("conflict")),
    Scenario("many", STANDALONE, (20, 4), (1, 1), 1, _refused("many")),
    Scenario("etcd", STANDALONE, (20, 6), (1, 1), 4, _etcd),
    Scenario("etcd-hangs", STANDALONE, (20, 6), (1, 1), 4, _etcd_hangs),
    Scenario("clocks", STANDALONE, (20, 4), (40, 8), 1, _clocks),
    Scenario("many-kills", STANDALONE, (500, 10), (500, 20), 15, _many_kills, by_default=False),
)


def command(arguments: Sequence[str]) -> None:
    """``python -m bench faults …``."""
    listed = "\n".join(
        f"  {scenario.title:28} {scenario.vms[0]:4} VMs, {scenario.faults[0]:4} faults, "
        f"about {scenario.takes:g} min{'' if scenario.by_default else '; only if named'}"
        for scenario in SCENARIOS
    )
    parser = argparse.ArgumentParser(
        prog="python -m bench faults", description=__doc__, epilog=f"scenarios:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help="those to run; without: all but those that must be named"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of VMs and faults, for a look")
    options = parser.parse_args(arguments)
    titles = [scenario.title for scenario in SCENARIOS]
    unknown = [name for name in options.scenarios if name not in titles]
    if unknown:
        parser.error(f"no such scenario: {', '.join(unknown)}; there are {', '.join(titles)}")
    main(quick=options.quick, named=options.scenarios)


def main(*, quick: bool = False, named: Sequence[str] = ()) -> None:
    """Exits with 1 if a scenario failed; the others are run all the same."""
    console = Console(width=180)
    wanted = [scenario for scenario in SCENARIOS if (scenario.title in named if named else scenario.by_default)]
    table = Table("scenario", "VMs", "faults", "took", "then settled", "created", "patched", "updated", "Events",
        "refused", "besides",
                  title=f"Faults on a real control plane, seed {SEED}")  # fmt: skip
    failed = []
    for overlay in (BESIDE_KUBEVIRT, STANDALONE):
        here = [scenario for scenario in wanted if scenario.overlay == overlay]
        if not here:
            continue
        with _site(overlay, sum(scenario.vms[quick] for scenario in here)) as made:
            for scenario in here:
                began = time.monotonic()
                try:
                    report = scenario.run(made, scenario.vms[quick], scenario.faults[quick])
                except Exception:  # noqa: BLE001 - of a scenario; shown, and the exit code says it
                    traceback.print_exc()
                    failed.append(scenario.title)
                    continue
                _add(table, report, time.monotonic() - began)
                console.print(f"{scenario.title} done in {time.monotonic() - began:.0f} s")
    console.print(table)
    if failed:
        console.print(f"failed: {', '.join(failed)}")
        sys.exit(1)


@contextmanager
def _site(overlay: Overlay, devices: int) -> Iterator[Site]:
    """On a control plane of its own."""
    with tempfile.TemporaryDirectory(prefix="virt-dra-faults-") as name:
        folder = Path(name)
        arguments, log = audit_arguments(folder)
        (folder / "containers").mkdir()
        with (
            ControlPlane(arguments=arguments) as plane,
            site(plane, log, overlay, folder / "containers", devices) as here,
        ):
            yield here


def _add(table: Table, report: Report, took: float) -> None:
    by_verb = [
        sum(count for write, count in report.done.items() if write.startswith(verb) and "events" not in write)
        for verb in ("create", "patch", "update")
    ]
    refused = ", ".join(f"{code}: {count}" for code, count in sorted(report.refused.items()))
    reported = ", ".join(f"{reason}: {count}" for reason, count in sorted(report.reported.items()))
    notes = [f"{name}: {count}" for name, count in report.notes.items()]
    if report.ends:
        notes.append(f"operators that ended: {len(report.ends)}")
    counts = (str(len(report.vms)), str(report.faults), f"{took:.0f} s", f"{report.settled:.1f} s", *map(str, by_verb))
    table.add_row(report.name, *counts, reported, refused, ", ".join(notes))


if __name__ == "__main__":
    main()
