"""Clocks of our processes that are set while they run: libfaketime stands between them and the machine's clock.

The clock that can't be set (CLOCK_MONOTONIC) stays as it is, as it does where an administrator or NTP sets the other. A
control plane's programs don't ask the C library for the time, so theirs can't be set in this way; what they say is what
ours differs from.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from devtools.cluster import processes
from devtools.faults.scenarios import Kept, Report, ask_at, finish, kept_running, making
from devtools.faults.site import Site, moments
from virt_dra.api.meta import parse_time
from virt_dra.installation.plan import BESIDE_KUBEVIRT

HOUR: Final = 3600
_NEAR: Final = timedelta(minutes=10)


def library() -> Path:
    """libfaketime. Skips the test where it is missing."""
    path = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
    if path is None:
        pytest.skip("no libfaketime: apt-get install faketime")
    return path


class Clock:
    """Of processes that are started with :attr:`environment`."""

    def __init__(self, file: Path, ahead: int = 0) -> None:
        self._file = file
        self.set(ahead)
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, ahead: int) -> None:
        """``ahead``: seconds by which it is fast."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{ahead:+d}\n")
        new.replace(self._file)


def jumping(site: Site, vms: int, jumps: int, seed: int, folder: Path, prefix: str = "clocks") -> Report:
    """The clocks of two operators, of the webhook and of who keeps its certificate are an hour fast or slow when they
    start, and are set by an hour or two at random moments, each for itself. No Lease is lost for it, and what is
    written bears the cluster's time."""
    chance, audit = moments(seed), site.audit()
    report = Report(f"clocks jump by an hour, {site.overlay}", site.names(prefix, vms), jumps)
    clocks = {
        name: Clock(folder / f"{prefix}-{name}", ahead)
        for name, ahead in (("a", HOUR), ("b", -HOUR), ("webhook", -HOUR))
    }
    with ExitStack() as stack:
        if site.overlay == BESIDE_KUBEVIRT:
            account = site.plane.kubeconfig_of_service_account("virt-dra", "virt-dra-webhook")
            environment = clocks["webhook"].environment
            webhook = stack.enter_context(processes.webhook(site.plane, account, environment=environment)).ready()
            keeper = site.plane.kubeconfig_of_service_account("virt-dra", "virt-dra-certificates")
            stack.enter_context(processes.certificates(site.plane, keeper, environment=environment))
            ask_at(site.plane, webhook.port)
            stack.callback(ask_at, site.plane, site.running.webhook.port)
        made = Kept(
            site, ("a", "b"), made=lambda name: site.operator("--identity", name, environment=clocks[name].environment)
        )
        kept = stack.enter_context(kept_running(made))
        kept.ready()
        with making(site, report.vms, 0.1):
            for _ in range(jumps):
                time.sleep(chance.uniform(0.1, 1.0))
                clocks[chance.choice(sorted(clocks))].set(chance.choice((-HOUR, 0, HOUR)))
                kept.tend()
        report.settled = site.until_all_run(report.vms, kept.tend)
        kept.end()
        report.ends = kept.ends
    assert kept.ends == []
    wrong = [text for text in _written(site, set(report.vms)) if abs(parse_time(text) - datetime.now(UTC)) > _NEAR]
    assert wrong == [], wrong[:5]
    return finish(site, report, audit)


def _written(site: Site, vms: set[str]) -> Iterator[str]:
    """Timestamps that the operator wrote: of conditions, and of Events."""
    plurals = (
        ("virtualmachineinstancedevices",)
        if site.overlay == BESIDE_KUBEVIRT
        else ("virtualmachines", "virtualmachineinstances")
    )
    for plural in plurals:
        for name, item in site.list(plural).items():
            conditions: list[dict[str, Any]] = item["status"]["conditions"] if name in vms else []
            yield from (condition["lastTransitionTime"] for condition in conditions)
    for event in site.list("events").values():
        if event["involvedObject"]["name"] in vms and event["source"].get("component") == "virt-dra-operator":
            yield event["lastTimestamp"]
