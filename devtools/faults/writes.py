"""The operator's writes are answered wrongly, with one replica only, which has to recover by itself."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from devtools.faults.answers import FAULTS, Answering, Asked, Fault, answering, each_once
from devtools.faults.scenarios import Kept, Report, finish, kept_running, making
from devtools.faults.site import Site

TRIES = 2
"""Of each write go wrong."""


@contextmanager
def _operator_behind(site: Site, *options: str) -> Iterator[tuple[Answering, Kept]]:
    with ExitStack() as stack:
        state: Answering = stack.enter_context(site.background.entered(answering(site.plane)))
        kubeconfig = behind(site.account, state.url)
        made = Kept(site, ("a",), made=lambda name: site.operator("--identity", name, *options, kubeconfig=kubeconfig))
        kept = stack.enter_context(kept_running(made))
        kept.ready()
        yield state, kept


def behind(kubeconfig: Path, url: str) -> Path:
    """A copy that leads to another URL, with the same token."""
    content = json.loads(kubeconfig.read_text())
    for cluster in content["clusters"]:
        cluster["cluster"] = {"server": url}
    path = kubeconfig.with_suffix(".answering")
    path.write_text(json.dumps(content))
    return path


def answered_wrongly(
    site: Site, vms: int, seed: int, *, faults: tuple[Fault, ...] = FAULTS, prefix: str = "answers", late: float = 6.0
) -> Report:
    """The first attempts of every write (objects, annotations, status, Events, the Lease) go wrong, each in a way that
    chance picks."""
    audit = site.audit()
    which = "in any way" if faults == FAULTS else f"with {', '.join(faults)}"
    report = Report(f"writes answered {which}, {site.overlay}", site.names(prefix, vms))
    with _operator_behind(site) as (state, kept):
        state.late = late
        state.choose = each_once(faults, seed, TRIES)
        with making(site, report.vms, 0.05):
            pass
        report.settled = site.until_all_run(report.vms, kept.tend)
        state.choose = lambda resource, path, before: None
        kept.end()
        report.ends = kept.ends
        asked = list(state.asked)
    report.faults = sum(request.fault is not None for request in asked)
    report.notes |= _counted(asked)
    # What goes wrong twice is tried a third time, and what depends on it is planned anew: not more than a few times
    # what is needed.
    assert len(asked) <= 30 * vms + 60, Counter(request.resource for request in asked)
    return finish(site, report, audit)


def refused_for(site: Site, vms: int, seconds: float, fault: Fault, *, prefix: str) -> Report:
    """Every write but the Lease's goes wrong for a while: how often each is tried, and how soon all is well
    afterwards."""
    audit = site.audit()
    report = Report(f"all writes answered with {fault} for {seconds:.0f} s, {site.overlay}", site.names(prefix, vms), 1)
    with _operator_behind(site) as (state, kept):
        state.choose = lambda resource, path, before: None if resource == "leases" else fault
        began = time.monotonic()
        with making(site, report.vms, 0.02):
            pass
        while time.monotonic() < began + seconds:
            kept.tend()
            time.sleep(0.2)
        asked = [request for request in state.asked if request.resource != "leases"]
        last = asked[-1].at if asked else began
        state.choose = lambda resource, path, before: None
        report.settled = site.until_all_run(report.vms, kept.tend)
        kept.end()
        report.ends = kept.ends
    report.notes |= {"tries": len(asked), "in the last second": sum(request.at > last - 1 for request in asked)}
    by_path = Counter((request.method, request.path) for request in asked if request.resource != "events")
    busiest = max((count // vms if method == "POST" else count for (method, _), count in by_path.items()), default=0)
    report.notes["of one write"] = busiest
    # 5 ms, 10 ms, … : about 8 in the first second, one more each time the time doubles; where a plan is old, every 5 s
    # at last.
    assert 1 <= busiest <= 25 + seconds, by_path.most_common(3)
    return finish(site, report, audit)


def _counted(asked: list[Asked]) -> dict[str, int]:
    wrong = Counter(request.resource for request in asked if request.fault is not None)
    return {"tries": len(asked), **{f"wrong {resource}": count for resource, count in sorted(wrong.items())}}
