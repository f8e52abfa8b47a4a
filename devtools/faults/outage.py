"""The API server's own storage is gone: it answers with errors, or not at all, for minutes."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from devtools.cluster.control_plane import ETCD
from devtools.faults.ledger import Audit
from devtools.faults.scenarios import Kept, Report, finish, kept_running, making
from devtools.faults.site import Site, moments
from devtools.webhooks.serving import JSON, body, launcher_pod, vmi

_REVIEWS: Final = (
    ("/validate-vmi", body(vmi())),
    ("/mutate-launcher-pod", body(launcher_pod(annotations={"virt-dra.io/integration-path": "metadata-shim"}))),
)
_CALM: Final = 3
"""VMs that run before the outage, and must not notice it."""


def etcd_gone(site: Site, vms: int, seconds: float, seed: int, *, hangs: bool = False, prefix: str = "etcd") -> Report:
    """etcd is killed and started anew on what it stored, or ``hangs`` (SIGSTOP), while VMs are made; two operators, and
    the site's webhook. Users try to make VMs all the while. The webhook must answer reviews as ever."""
    chance, audit = moments(seed), site.audit()
    report = Report(
        f"etcd {'hangs' if hangs else 'gone'} for {seconds:.0f} s, {site.overlay}", site.names(prefix, vms), 1
    )
    site.patience = seconds + 120
    with (
        kept_running(Kept(site, ("a", "b"))) as kept,
        reviewing(site.running.webhook.port, site.plane.webhook_client) as reviews,
    ):
        kept.ready()
        for name in report.vms[:_CALM]:
            site.create(name)
        site.until_all_run(report.vms[:_CALM])
        with making(site, report.vms[_CALM:], 0.3):
            time.sleep(chance.uniform(0.5, 2.0))
            with _without_etcd(site, hangs):
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    kept.tend()
                    time.sleep(0.2)
            kept.tend()
        report.settled = site.until_all_run(report.vms, kept.tend, seconds=240)
        kept.end()
        report.ends = kept.ends
        # A write that etcd was storing when it died was not acknowledged: the writer repeats it.
        report.notes["reviews answered"] = reviews.answered
        report.notes["slowest review, ms"] = round(reviews.slowest * 1000)
    assert reviews.failed == [], reviews.failed[:5]
    assert reviews.answered > seconds
    return finish(site, report, Audit(audit.log, audit.begin))


@contextmanager
def _without_etcd(site: Site, hangs: bool) -> Iterator[None]:
    if hangs:
        with site.plane.paused(ETCD):
            yield
    else:
        site.plane.kill_etcd()
        yield
    site.plane.start_etcd()


@dataclass
class Reviews:
    """``slowest``: seconds."""

    answered: int = 0
    slowest: float = 0.0
    failed: list[str] = field(default_factory=list)


@contextmanager
def reviewing(port: int, client: Path, per_second: float = 5.0) -> Iterator[Reviews]:
    """Reviews, each on a connection of its own that presents the certificate ``client``, as long as the body runs."""
    reviews, done = Reviews(), threading.Event()
    context = ssl._create_unverified_context()  # whether the certificate is trusted is another test's
    context.load_cert_chain(client)

    def ask() -> None:
        number = 0
        while not done.wait(1 / per_second):
            path, content = _REVIEWS[number % len(_REVIEWS)]
            number += 1
            began = time.monotonic()
            connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=10)
            try:
                connection.request("POST", path, content, JSON)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status != 200 or json.loads(text)["response"]["allowed"] is not True:
                    reviews.failed.append(f"{path}: {answer.status} {text[:300]!r}")
                reviews.answered += 1
            except (OSError, http.client.HTTPException) as error:
                reviews.failed.append(f"{path}: {type(error).__name__}: {error}")
            finally:
                connection.close()
            reviews.slowest = max(reviews.slowest, time.monotonic() - began)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield reviews
    finally:
        done.set()
        thread.join()
