"""Reviews without end, each on a new connection that trusts what the webhook configuration says, while certificates
change under them."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from devtools.cluster import processes
from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.processes import Component
from devtools.faults.site import Site
from devtools.webhooks.serving import JSON, body, launcher_pod, vmi
from webhooks.tls.authority import Bundle, SystemKeys, bootstrap, names_of, renewed
from webhooks.tls.secret import encoded, files_of, filled

Json = dict[str, Any]

_AUTHORITY: Final = "/api/v1/namespaces/virt-dra/secrets/virt-dra-webhook-authority"
_SERVING: Final = "/api/v1/namespaces/virt-dra/secrets/virt-dra-webhook-tls"
_CONFIGURATION: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/virt-dra"
_POD: Final = launcher_pod(annotations={"virt-dra.io/integration-path": "metadata-shim"})
"""Which needs no template."""
_REVIEWS: Final = (("/validate-vmi", body(vmi())), ("/mutate-launcher-pod", body(_POD)))
_PATIENCE: Final = 120.0
_LOADED: Final = 'virt_dra_webhook_certificate_reloads_total{result="loaded"}'


@dataclass
class Reviews:
    """``answered``: by replica's port. ``failed``: what went wrong, or was answered wrongly."""

    answered: Counter[int] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    serving: set[int] = field(default_factory=set)
    """Serial numbers of the certificates that were served."""
    problem: BaseException | None = None
    """Why the certificates were changed no further."""


@contextmanager
def changing(site: Site, *, rounds: int = 1, replicas: int = 2, per_second: float = 20.0) -> Iterator[Reviews]:
    """While it lasts, and until it is done: the certificate that all replicas share is renewed; then in each round a
    new authority is trusted beside the old ones, and signs the next certificate. The replicas run beside the site's
    own; each is asked so often a second."""
    account = site.plane.kubeconfig_of_service_account("virt-dra", "virt-dra-webhook")
    reviews = Reviews()
    with ExitStack() as stack:
        running = [stack.enter_context(processes.webhook(site.plane, account)) for _ in range(replicas)]
        for replica in running:
            replica.ready()
        done, trust = threading.Event(), _Trust(site.plane)
        askers = [
            threading.Thread(target=_ask, args=(replica.port, trust, reviews, done, 1 / per_second))
            for replica in running
        ]
        changes = threading.Thread(target=_change, args=(site.plane, running, trust, reviews, done, rounds))
        for thread in (*askers, changes):
            thread.start()
        try:
            yield reviews
        finally:
            changes.join()
            done.set()
            for thread in askers:
                thread.join()
    if reviews.problem is not None:
        raise reviews.problem


class _Trust:
    """What the webhook configuration says whom to trust, as the API server learns it by its watch: a moment later."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.refresh()

    def refresh(self) -> None:
        configuration = self._plane.request("GET", _CONFIGURATION)
        self.bundle = base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"])
        context = ssl.create_default_context(cadata=self.bundle.decode())
        context.load_cert_chain(self._plane.webhook_client)
        self.context = context  # when it is whole: other threads connect with it meanwhile


def _ask(port: int, trust: _Trust, reviews: Reviews, done: threading.Event, pause: float) -> None:
    number = 0
    while not done.wait(pause):
        path, content = _REVIEWS[number % len(_REVIEWS)]
        number += 1
        connection = http.client.HTTPSConnection("localhost", port, context=trust.context, timeout=10)
        try:
            connection.connect()
            shown = connection.sock.getpeercert()
            connection.request("POST", path, content, JSON)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200 or json.loads(text)["response"]["allowed"] is not True:
                reviews.failed.append(f"{path}: {answer.status} {text[:300]!r}")
            reviews.answered[port] += 1
            reviews.serving.add(int(str(shown["serialNumber"]), 16) if shown else 0)
        except (OSError, http.client.HTTPException) as error:
            reviews.failed.append(f"{path}: {type(error).__name__}: {error}")
        finally:
            connection.close()


def _change(
    plane: ControlPlane, running: list[Component], trust: _Trust, reviews: Reviews, done: threading.Event, rounds: int
) -> None:  # fmt: skip
    try:
        _renew(plane, running, 1)
        for number in range(rounds):
            _add_authority(plane, trust)
            _renew(plane, running, number + 2)
        time.sleep(1)
    except BaseException as error:  # noqa: BLE001 - of the thread; raised by whom it works for
        reviews.problem = error
    finally:
        done.set()


def _renew(plane: ControlPlane, running: list[Component], number: int) -> None:
    """Issue another certificate of the present authority, as if clients didn't trust the old one; returns when all
    serve it."""
    old, now, keys = _stored(plane), datetime.now(UTC), SystemKeys()
    names = _names(old)
    _store(plane, renewed(replace(old, serving=bootstrap(names, now, keys).serving), names, now, keys))
    _until(
        lambda: all(replica.metrics().get(_LOADED, 0) >= number for replica in running),
        "the renewed certificate isn't served",
    )


def _add_authority(plane: ControlPlane, trust: _Trust) -> None:
    """The next certificate's. No certificate is signed by it before everybody trusts it: virt-dra-certificates tells
    the webhook configurations."""
    old = _stored(plane)
    new = bootstrap(_names(old), datetime.now(UTC), SystemKeys())
    _store(plane, replace(old, authority=new.authority, predecessors=old.trusted))
    _until(lambda: new.ca_bundle in _refreshed(trust), "the new authority isn't trusted")
    time.sleep(1)


def _refreshed(trust: _Trust) -> bytes:
    trust.refresh()
    return trust.bundle


def _names(bundle: Bundle) -> tuple[str, ...]:
    return tuple(names_of(bundle.serving.certificate))


def _stored(plane: ControlPlane) -> Bundle:
    return Bundle.from_files(files_of(plane.request("GET", _SERVING)) | files_of(plane.request("GET", _AUTHORITY)))


def _store(plane: ControlPlane, bundle: Bundle) -> None:
    for path, files in ((_AUTHORITY, bundle.authority_files()), (_SERVING, bundle.serving_files())):
        plane.request("PUT", path, filled(plane.request("GET", path), encoded(files)))


def _until(holds: Callable[[], bool], problem: str) -> None:
    end = time.monotonic() + _PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"{problem} after {_PATIENCE:.0f} s")
        time.sleep(0.25)
