"""The state of :mod:`webhooks.tls.authority` in two Secrets, and in the webhook configurations that trust it. Pure.

One Secret has the authority with its key, for the process that renews; servers mount the other. A Secret is written
with the resourceVersion that was read, so that of two concurrent renewals one is refused and adopts the other. A
certificate is trusted before it is served: a new authority gets into ``caBundle`` weeks before it signs.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from virt_dra.api.integration.paths import PART_OF, PART_OF_LABEL
from virt_dra.api.wire import Json
from webhooks.tls.authority import (
    CA_CERTIFICATES,
    CA_KEY,
    CERTIFICATE,
    KEY,
    Bundle,
    BundleError,
    KeySource,
    bootstrap,
    names_of,
    renewed,
    succeeded,
)

SECRET_TYPE: Final = "kubernetes.io/tls"
AUTHORITY_TYPE: Final = "Opaque"
_FILES: Final = (CA_CERTIFICATES, CA_KEY, CERTIFICATE, KEY)


@dataclass(frozen=True)
class SettledSecrets:
    """The current bundle. ``authority`` and ``serving``: the new data of the Secrets, None for one that is up to
    date."""

    bundle: Bundle
    authority: Json | None
    serving: Json | None


def settled(
    authority: Json | None,
    serving: Json | None,
    held: Bundle | None,
    dns_names: Sequence[str] | None,
    now: datetime,
    keys: KeySource,
) -> SettledSecrets:
    """The desired content of the Secrets.

    ``authority``, ``serving``: as read, None if missing. ``held``: the last bundle, with which deleted or emptied
    Secrets are restored, so that clients needn't trust another authority. ``dns_names``: the desired names; None keeps
    them (else two releases side by side would renew in turns), and needs ``held``.

    A serving Secret that isn't of the authority is overwritten: it was empty, or cert-manager's. One that has an
    authority's key is of a release with only one Secret: its certificate and its authority stay trusted, and a new
    authority replaces it. Raises :class:`BundleError` if the authority's Secret has a key and can't be read; it is
    never overwritten.
    """
    signing, served = files_of(authority), files_of(serving)
    present = _present(signing, served, held, tuple(dns_names or _names(held)), now, keys)
    bundle = renewed(present, tuple(dns_names or _names(present)), now, keys)
    return SettledSecrets(
        bundle,
        None if signing == bundle.authority_files() else encoded(bundle.authority_files()),
        None if served == bundle.serving_files() else encoded(bundle.serving_files()),
    )


def _present(
    signing: Mapping[str, bytes],
    served: Mapping[str, bytes],
    held: Bundle | None,
    names: Sequence[str],
    now: datetime,
    keys: KeySource,
) -> Bundle:
    if CA_KEY in signing:
        pair = {name: content for name, content in served.items() if name in (CERTIFICATE, KEY)}
        own = {name: content for name, content in signing.items() if name in (CA_CERTIFICATES, CA_KEY)}
        try:
            return Bundle.from_files({**pair, **own})
        except BundleError:
            if held is not None and held.authority_files() == signing:
                return held
            return Bundle.of_authority(signing, names, now, keys)
    if held is not None:
        return held
    if CA_KEY in served:
        try:
            return succeeded(Bundle.from_files(served), names, now, keys)
        except BundleError:
            pass  # an unreadable certificate was never served
    return bootstrap(names, now, keys)


def _names(bundle: Bundle | None) -> tuple[str, ...]:
    return tuple(sorted(names_of(bundle.serving.certificate))) if bundle is not None else ()


def files_of(secret: Json | None) -> dict[str, bytes]:
    """The files of a bundle in a Secret; none without one. Raises :class:`BundleError` for invalid base64."""
    data = (secret or {}).get("data")
    if not isinstance(data, dict):
        return {}
    files: dict[str, bytes] = {}
    for name in _FILES:
        value = data.get(name)
        if not value:
            continue
        try:
            files[name] = base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise BundleError(f"{name} is not base64") from None
    return files


def encoded(files: Mapping[str, bytes]) -> Json:
    """Files as the ``data`` of a Secret."""
    return {name: _base64(content) for name, content in files.items()}


def new_secret(name: str, namespace: str, data: Json, secret_type: str) -> Json:
    metadata = {"name": name, "namespace": namespace, "labels": {PART_OF_LABEL: PART_OF}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": secret_type, "data": data}


def filled(secret: Json, data: Json) -> Json:
    """A Secret with the files of a bundle replaced. It keeps its other data, its resourceVersion and its type."""
    old = secret.get("data")
    kept = {name: value for name, value in old.items() if name not in _FILES} if isinstance(old, dict) else {}
    return {**secret, "data": {**kept, **data}}


def trust_operations(configuration: Json, ca_bundle: bytes) -> list[Json]:
    """Operations (RFC 6902) that make all webhooks of a configuration trust the authorities; [] if they do.

    They fail if the list of webhooks has changed meanwhile, instead of changing another one.
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
