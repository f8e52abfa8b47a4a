"""Reconciles the webhook's own authority on a cluster: its Secret, the Secret that the webhook mounts, the
configurations that trust it.

Decisions are in :mod:`webhooks.tls.secret`; this module reads, writes and retries. The webhook itself has no part in
it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from virt_dra.api.meta import UnknownObject
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.api.wire import Json
from virt_dra.cluster.port import AlreadyExists, ApiError, Cluster, Conflict, NotFound
from webhooks.tls.authority import Bundle, BundleError, KeySource, SystemKeys
from webhooks.tls.secret import (
    AUTHORITY_TYPE,
    SECRET_TYPE,
    SettledSecrets,
    filled,
    new_secret,
    settled,
    trust_operations,
)

SECRET: Final = unknown_kind("v1", "Secret")
CONFIGURATIONS: Final[tuple[type[UnknownObject], ...]] = tuple(
    unknown_kind("admissionregistration.k8s.io/v1", f"{review}WebhookConfiguration")
    for review in ("Validating", "Mutating")
)
_TRIES: Final = 10
"""Attempts of a reconcile that conflicts with other writers."""


class NotReconciled(Exception):
    """A Secret can't be used; the text says why, and what to do."""


@dataclass
class StoredAuthority:
    """The authority and the webhook's certificate in their Secrets. Renews both, and makes webhook configurations trust
    the authority.

    ``authority_secret``: contains the authority's key, which no other account should be able to read. ``secret``:
    mounted by the webhook. ``configuration``: the name of a Validating- and a MutatingWebhookConfiguration, of which
    either may be missing; "" for none. Its only state is the last bundle.
    """

    cluster: Cluster
    authority_secret: str
    secret: str
    namespace: str
    dns_names: Sequence[str]
    configuration: str
    clock: Callable[[], datetime]
    keys: KeySource = field(default_factory=SystemKeys)
    log: logging.Logger = field(default_factory=lambda: logging.getLogger(__name__))
    _held: Bundle | None = None
    _last_error: str = ""

    async def reconcile(self) -> None:
        """Renew certificates that are due. A new authority is trusted before its certificates are served.

        Raises :class:`NotReconciled`, ApiError.
        """
        for _ in range(_TRIES):
            authority, serving = await self._read(self.authority_secret), await self._read(self.secret)
            wanted = self._wanted(authority, serving)
            try:
                if wanted.authority is not None:
                    await self._write(self.authority_secret, authority, wanted.authority, AUTHORITY_TYPE)
                for kind in CONFIGURATIONS if self.configuration else ():
                    await self._trust(kind, wanted.bundle)
                if wanted.serving is not None:
                    await self._write(self.secret, serving, wanted.serving, SECRET_TYPE)
                    expires = wanted.bundle.serving.certificate.not_valid_after_utc.isoformat()
                    fields = {"secret": f"{self.namespace}/{self.secret}", "expires": expires}
                    self.log.info("certificate made", extra={"fields": fields})
            except (AlreadyExists, Conflict, NotFound):
                continue  # a concurrent writer changed or deleted it
            self._held = wanted.bundle
            return
        names = f"Secrets {self.namespace}/{self.authority_secret} and {self.secret}"
        raise NotReconciled(f"{names} change as often as they are written; find out which other process writes them")

    async def keep(self, every_seconds: float) -> None:
        """Reconcile for ever; errors are logged when they change, and retried."""
        while True:
            await asyncio.sleep(every_seconds)
            try:
                await self.reconcile()
                self._last_error = ""
            except (NotReconciled, ApiError, ValueError, OSError) as error:  # OSError: no file descriptor is left
                if str(error) != self._last_error:
                    self.log.error(
                        "the webhook's certificate can't be renewed", extra={"fields": {"reason": str(error)}}
                    )
                self._last_error = str(error)

    def _wanted(self, authority: Json | None, serving: Json | None) -> SettledSecrets:
        try:
            return settled(
                authority, serving, self._held, None if self._held else self.dns_names, self.clock(), self.keys
            )
        except BundleError as error:
            advice = "delete the Secret, or correct it; it is not overwritten"
            raise NotReconciled(f"Secret {self.namespace}/{self.authority_secret}: {error}; {advice}") from None

    async def _read(self, name: str) -> Json | None:
        try:
            return (await self.cluster.get(SECRET, name, self.namespace)).to_wire()
        except NotFound:
            return None

    async def _write(self, name: str, there: Json | None, data: Json, secret_type: str) -> None:
        if there is None:
            await self.cluster.create(SECRET.from_wire(new_secret(name, self.namespace, data, secret_type)))
        else:
            await self.cluster.update(SECRET.from_wire(filled(there, data)))

    async def _trust(self, kind: type[UnknownObject], bundle: Bundle) -> None:
        try:
            there = await self.cluster.get(kind, self.configuration)
        except NotFound:
            return  # an overlay may have only one of them, and may be applied later
        operations = trust_operations(there.to_wire(), bundle.ca_bundle)
        if operations:
            await self.cluster.patch(kind, self.configuration, operations=operations)
            fields = {"kind": kind.KIND, "name": self.configuration}
            self.log.info("the webhook configuration trusts the authority now", extra={"fields": fields})
