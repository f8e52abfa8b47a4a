"""The authority of :mod:`webhooks.tls_authority` in a Secret that all replicas share, and the webhook configurations that trust it. Pure.

A Secret is written with the resourceVersion it was read with, so that of two replicas that renew at once one is refused and takes what the
other wrote. A certificate is trusted before it is served: a new authority gets into ``caBundle`` weeks before it signs.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from virt_dra.api.integration_paths import PART_OF, PART_OF_LABEL
from virt_dra.api.wire import Json
from webhooks.tls_authority import CA_CERTIFICATES, CA_KEY, CERTIFICATE, KEY, Bundle, BundleError, KeySource, bootstrap, names_of, renewed

SECRET_TYPE: Final = "kubernetes.io/tls"
_FILES: Final = (CA_CERTIFICATES, CA_KEY, CERTIFICATE, KEY)


@dataclass(frozen=True)
class Settled:
    """The bundle to serve by. ``data``: what the Secret must get, None where it has it."""

    bundle: Bundle
    data: Json | None


def settled(secret: Json | None, held: Bundle | None, dns_names: Sequence[str] | None, now: datetime, keys: KeySource) -> Settled:
    """What the Secret should hold.

    ``secret``: as read, None where there is none. ``held``: what this replica serves by; a Secret that has vanished gets it back, so that
    nobody has to learn another authority. ``dns_names``: the names wanted; None leaves them as they are (replicas of two releases would
    else renew by turns), and needs ``secret`` or ``held``. A Secret without ``ca.key`` isn't one of ours, or is empty: it is filled.
    Raises :class:`BundleError` where it has one and can't be read; that is never overwritten.
    """
    files = files_of(secret) if secret is not None else {}
    stored = Bundle.from_files(files) if CA_KEY in files else None
    present = stored or held
    if present is None:
        if not dns_names:
            raise BundleError("a serving certificate needs at least one DNS name")
        present = bootstrap(dns_names, now, keys)
    wanted = tuple(dns_names) if dns_names else tuple(sorted(names_of(present.serving.certificate)))
    bundle = renewed(present, wanted, now, keys)
    return Settled(bundle, None if bundle is stored else data_of(bundle))


def files_of(secret: Json) -> dict[str, bytes]:
    """The files that a Secret has of ours. Raises :class:`BundleError` for what isn't base64."""
    data = secret.get("data")
    if not isinstance(data, dict):
        return {}
    found: dict[str, bytes] = {}
    for name in _FILES:
        value = data.get(name)
        if not value:
            continue
        try:
            found[name] = base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise BundleError(f"{name} is not base64") from None
    return found


def data_of(bundle: Bundle) -> Json:
    """The ``data`` of a Secret."""
    return {name: _base64(content) for name, content in bundle.to_files().items()}


def new_secret(name: str, namespace: str, data: Json) -> Json:
    metadata = {"name": name, "namespace": namespace, "labels": {PART_OF_LABEL: PART_OF}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": SECRET_TYPE, "data": data}


def filled(secret: Json, data: Json) -> Json:
    """A Secret, as read, with other content of ours. It keeps its resourceVersion and type."""
    there = secret.get("data")
    return {**secret, "data": {**(there if isinstance(there, dict) else {}), **data}}


def trust_operations(configuration: Json, ca_bundle: bytes) -> list[Json]:
    """Operations (RFC 6902) that make all webhooks of a configuration trust the authorities; [] where they do.

    They fail, instead of hitting another one, where the list of webhooks has changed meanwhile.
    """
    wanted = _base64(ca_bundle)
    operations: list[Json] = []
    listed = configuration.get("webhooks")
    for index, webhook in enumerate(listed if isinstance(listed, list) else ()):
        client: Mapping[str, object] = webhook.get("clientConfig") or {}
        if client.get("caBundle") != wanted:
            operations.append({"op": "test", "path": f"/webhooks/{index}/name", "value": webhook.get("name")})
            operations.append({"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": wanted})
    return operations


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
