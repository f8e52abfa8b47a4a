"""The faults. Each makes VMs on a site, does its worst meanwhile, and ends when all VMs run; the caller then
verifies."""

from __future__ import annotations

import itertools
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from devtools.cluster import processes
from devtools.cluster.control_plane import API_SERVER, ControlPlane
from devtools.cluster.ports import free_port
from devtools.cluster.processes import Component, ComponentError
from devtools.cluster.scripted_server import CuttingProxy, cutting_proxy
from devtools.deployed.overlay import configurations
from devtools.deployed.webhook import balanced
from devtools.faults.ledger import Audit
from devtools.faults.site import IDENTITY, Site, moments

_AMID = timedelta(milliseconds=100)
_TRIES = 3
"""A machine that does other work may keep an operator from its lease twice; an operator that fails by itself fails each
time."""


@dataclass
class Report:
    """``done`` and ``refused``: the operator's writes in the VMs' namespace. ``settled``: seconds from the last fault
    until all VMs ran."""

    name: str
    vms: list[str]
    faults: int = 0
    settled: float = 0.0
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[int] = field(default_factory=Counter)
    reported: Counter[str] = field(default_factory=Counter)
    """Events about the VMs, by reason."""
    notes: dict[str, int] = field(default_factory=dict)
    ends: list[str] = field(default_factory=list)
    """What operators said last that ended by themselves."""


def finish(site: Site, report: Report, audit: Audit) -> Report:
    site.verify(report.vms)
    mine = set(report.vms)
    for (vm, reason), count in site.ledger.events().items():
        if vm in mine:
            report.reported[reason] += count
    report.done, report.refused = audit.done(site.namespace), audit.refused(site.namespace)
    return report


# --- the operator is killed ---


def killed(site: Site, vms: int, kills: int, seed: int, prefix: str = "killed") -> Report:
    """SIGKILL at random moments: each fourth while the process starts, the others within 0.6 s after it became ready,
    while VMs are made. The next one follows at once, as a kubelet starts a container anew in its pod."""
    chance, audit = moments(seed), site.audit()
    report = Report(f"operator killed, {site.overlay}", site.names(prefix, vms), kills)
    left = iter(report.vms)
    killed_at: list[datetime] = []
    for number in range(kills):
        some = list(itertools.islice(left, vms * (number + 1) // kills - vms * number // kills))
        with site.operator("--identity", IDENTITY) as running:
            if number % 4:
                running.ready()
            with making(site, some, 0.02):
                time.sleep(chance.uniform(0, 0.6 if number % 4 else 1.5))
                killed_at.append(datetime.now(UTC))
                running.kill()
    writes = [write.at for write in audit.writes(site.namespace)]
    report.notes["killed within 100 ms after a write"] = sum(
        any(at - _AMID <= write <= at for write in writes) for at in killed_at
    )
    with site.operator("--identity", IDENTITY) as running:
        report.settled = site.until_all_run(report.vms)
        assert running.ready().terminate() == 0
    return finish(site, report, audit)


# --- two at once ---


def two_at_once(site: Site, vms: int, prefix: str = "two") -> Report:
    """Two operators that both believe they lead, which the Lease otherwise prevents: resourceVersions alone keep them
    apart."""
    audit, report = site.audit(), Report("two operators at once, without a Lease", site.names(prefix, vms), 1)
    with (
        site.operator("--no-election", "--identity", "a") as first,
        site.operator("--no-election", "--identity", "b") as two,
    ):
        first.ready()
        two.ready()
        for name in report.vms:
            site.create(name)
        report.settled = site.until_all_run(report.vms)
        time.sleep(0.5)  # Events are written a little later
        for operator in (first, two):
            assert operator.terminate() == 0
    return finish(site, report, audit)


# --- the way to the API server ---


class Kept:
    """Operators that are started anew when they end, as a Deployment's are."""

    def __init__(
        self, site: Site, replicas: Sequence[str], *options: str, made: Callable[[str], Component] | None = None
    ) -> None:
        """``made``: starts the replica of that name, where it isn't the site's own operator."""
        self._site, self._options, self._make = site, options, made
        self._stack = ExitStack()
        self.ends: list[str] = []
        self._running = {name: self._started(name) for name in replicas}

    def _started(self, name: str) -> Component:
        made = self._make(name) if self._make is not None else self._site.operator("--identity", name, *self._options)
        return self._stack.enter_context(made)

    def tend(self) -> None:
        """Start those anew that have ended, but for the ones that were asked to."""
        for name, running in self._running.items():
            code = running.exit_code()
            if code:
                assert "Traceback" not in running.said()
                assert code == 1, running.tail()
                self.ends.append(running.said().splitlines()[-1])
                self._running[name] = self._started(name)

    def ready(self) -> None:
        """Returns when all are ready. One that ends meanwhile, since a loaded API server didn't renew its lease in
        time, is restarted."""
        for name in self._running:
            self._ready(name)

    def _ready(self, name: str) -> Component:
        for _ in range(_TRIES - 1):
            with suppress(ComponentError):
                return self._running[name].ready()
            self.tend()
        return self._running[name].ready()

    def end(self) -> None:
        """All run, and end in order when they are asked to. One that had just lost its lease is restarted, and asked
        again."""
        for name in self._running:
            for _ in range(_TRIES):
                self.tend()
                running = self._ready(name)
                if running.terminate() == 0:
                    break
            else:
                raise AssertionError(f"{name} didn't end in order, {_TRIES} times:\n{running.tail()}")

    def close(self) -> None:
        self._stack.close()


@contextmanager
def kept_running(kept: Kept) -> Iterator[Kept]:
    try:
        yield kept
    finally:
        kept.close()


def api_server_restarted(
    site: Site, vms: int, restarts: int, seed: int, *, gracefully: bool = False, prefix: str = "restarted"
) -> Report:
    """At random moments while VMs are made. What its watch cache knew is gone each time. It crashes, or ends
    ``gracefully``: then it takes no connections for up to a minute, until the requests that are open have ended."""
    chance, audit = moments(seed), site.audit()
    report = Report(
        f"API server {'ended in order' if gracefully else 'killed'} and started anew", site.names(prefix, vms), restarts
    )
    with kept_running(Kept(site, ("a", "b"))) as kept:
        kept.ready()
        with making(site, report.vms, 0.1):
            for _ in range(restarts):
                time.sleep(chance.uniform(0.2, 1.0))
                site.plane.restart_api_server(gracefully=gracefully)
                kept.tend()
        report.settled = site.until_all_run(report.vms, kept.tend)
        kept.end()
        report.ends = kept.ends
    return finish(site, report, audit)


def api_server_paused(site: Site, vms: int, pauses: int, seed: int, prefix: str = "paused") -> Report:
    """It accepts connections and says nothing (SIGSTOP) for one to three seconds: watches hang, requests wait."""
    chance, audit = moments(seed), site.audit()
    report = Report("API server hangs", site.names(prefix, vms), pauses)
    with kept_running(Kept(site, ("a", "b"))) as kept:
        kept.ready()
        with making(site, report.vms, 0.1):
            for _ in range(pauses):
                time.sleep(chance.uniform(0.2, 1.0))
                with site.plane.paused(API_SERVER):
                    time.sleep(chance.uniform(1, 3))
        report.settled = site.until_all_run(report.vms, kept.tend)
        kept.end()
        report.ends = kept.ends
    return finish(site, report, audit)


def connections_cut(site: Site, vms: int, cuts: int, seed: int, prefix: str = "cut") -> Report:
    """All connections of the operator end at once, again and again, in the middle of watches, lists and writes."""
    chance, audit = moments(seed), site.audit()
    report = Report("operator's connections cut", site.names(prefix, vms), cuts)
    with ExitStack() as stack:
        proxy: CuttingProxy = stack.enter_context(site.background.entered(cutting_proxy("127.0.0.1", site.plane.port)))
        kubeconfig = site.account.with_suffix(".proxied")
        kubeconfig.write_text(
            site.account.read_text().replace(f"127.0.0.1:{site.plane.port}", f"127.0.0.1:{proxy.port}")
        )
        kept = stack.enter_context(
            kept_running(Kept(site, ("a",), made=lambda name: site.operator("--identity", name, kubeconfig=kubeconfig)))
        )
        kept.ready()

        async def cut() -> None:
            proxy.cut()

        with making(site, report.vms, 0.05):
            for _ in range(cuts):
                time.sleep(chance.uniform(0.02, 0.3))
                site.background.do(cut())
                kept.tend()
        report.settled = site.until_all_run(report.vms, kept.tend)
        kept.end()
        report.ends = kept.ends
    return finish(site, report, audit)


@contextmanager
def making(site: Site, vms: Sequence[str], pause: float) -> Iterator[None]:
    """VMs are made in a thread, one after the other; all are there when the body has ended and this as well."""
    problems: list[BaseException] = []

    def make() -> None:
        try:
            for name in vms:
                site.create(name)
                time.sleep(pause)
        except BaseException as error:  # noqa: BLE001 - of the thread; raised below
            problems.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if problems:
        raise problems[0]


# --- the webhook is killed ---


def webhook_killed(site: Site, vms: int, kills: int, seed: int, prefix: str = "webhook") -> Report:
    """Two replicas behind one address take reviews of launcher pods by turns; one after the other is killed in the
    middle of them and started anew. Clients get no notice: connections of a replica that died just end."""
    chance, audit = moments(seed), site.audit()
    report = Report("webhook killed", site.names(prefix, vms), kills)
    account = site.plane.kubeconfig_of_service_account("virt-dra", "virt-dra-webhook")
    ports = (free_port(), free_port())
    with ExitStack() as stack:

        def started(port: int) -> Component:
            return stack.enter_context(processes.webhook(site.plane, account, port=port)).ready()

        replicas = {port: started(port) for port in ports}
        ask_at(site.plane, stack.enter_context(balanced(*ports)))
        stack.callback(ask_at, site.plane, site.running.webhook.port)
        with site.operator("--identity", IDENTITY) as operator:
            operator.ready()
            with making(site, report.vms, 0.05):
                for number in range(kills):
                    time.sleep(chance.uniform(0.05, 0.5))
                    port = ports[number % 2]
                    replicas[port].send(signal.SIGKILL)
                    replicas[port].ended()
                    replicas[port] = started(port)
            report.settled = site.until_all_run(report.vms)
            assert operator.terminate() == 0
    pods = site.list("pods").values()  # the others' too: all of them were reviewed
    assert all("virt-dra.io/integration" in pod["metadata"]["annotations"] for pod in pods)
    return finish(site, report, audit)


def ask_at(plane: ControlPlane, port: int) -> None:
    """Webhook configurations ask another port of loopback."""
    for path, configuration in configurations(plane):
        for index, webhook in enumerate(configuration["webhooks"]):
            url = re.sub(r":\d+/", f":{port}/", webhook["clientConfig"]["url"])
            patch = [{"op": "replace", "path": f"/webhooks/{index}/clientConfig/url", "value": url}]
            plane.request("PATCH", path, patch, "application/json-patch+json")
