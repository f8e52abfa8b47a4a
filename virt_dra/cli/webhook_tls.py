"""The webhook's own authority where replicas share it: a Secret, and the webhook configurations that must trust it.

What is written is decided by :mod:`webhooks.tls_secret`; here it is read, written, and tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from virt_dra.api.meta import UnknownObject
from virt_dra.cluster.kinds import unknown_kind
from virt_dra.cluster.port import AlreadyExists, ApiError, Cluster, Conflict, NotFound
from webhooks.tls_authority import Bundle, BundleError, KeySource, SystemKeys
from webhooks.tls_secret import filled, new_secret, settled, trust_operations
from webhooks.tls_supplied import SuppliedCertificate

SECRET: Final = unknown_kind("v1", "Secret")
CONFIGURATIONS: Final[tuple[type[UnknownObject], ...]] = tuple(
    unknown_kind("admissionregistration.k8s.io/v1", f"{what}WebhookConfiguration") for what in ("Validating", "Mutating")
)
_TRIES: Final = 10
"""Of a write that others were faster with."""


class NotSettled(Exception):
    """The Secret can't be used; the text says why and what to do."""


@dataclass
class SharedAuthority:
    """Keeps the certificate that is in a Secret, in memory, renews both, and has webhook configurations trust the authority.

    ``configuration``: the name of a Validating- and a MutatingWebhookConfiguration, of which either may be missing; "" for none.
    Its only state is what it serves by.
    """

    cluster: Cluster
    name: str
    namespace: str
    dns_names: Sequence[str]
    configuration: str
    served: SuppliedCertificate
    clock: Callable[[], datetime]
    keys: KeySource = field(default_factory=SystemKeys)
    log: logging.Logger = field(default_factory=lambda: logging.getLogger(__name__))
    _held: Bundle | None = None
    _told: str = ""

    async def settle(self) -> None:
        """One look: the Secret is made or renewed where that is due, the server and the configurations get what is in it.

        Raises :class:`NotSettled`, ApiError, :class:`webhooks.tls.CertificateError`.
        """
        bundle = await self._stored()
        if self._held is None or bundle.to_files() != self._held.to_files():
            self.served.put(bundle)
            self._held = bundle
        for kind in CONFIGURATIONS if self.configuration else ():
            await self._trust(kind, bundle)

    async def keep(self, every_seconds: float) -> None:
        """Settle for ever; failures are told once each, and tried again."""
        while True:
            await asyncio.sleep(every_seconds)
            try:
                await self.settle()
                self._told = ""
            except (NotSettled, ApiError, ValueError, OSError) as error:  # the last where no memory or no descriptor is left
                if str(error) != self._told:
                    self.log.error("the shared authority can't be looked after", extra={"fields": {"reason": str(error)}})
                self._told = str(error)

    async def _stored(self) -> Bundle:
        """What the Secret holds, once it holds what it should."""
        for _ in range(_TRIES):
            there = await self._secret()
            raw = there.to_wire() if there is not None else None
            try:
                wanted = settled(raw, self._held, None if self._held else self.dns_names, self.clock(), self.keys)
            except BundleError as error:
                advice = "delete the Secret, or correct it; it is not overwritten"
                raise NotSettled(f"Secret {self.namespace}/{self.name}: {error}; {advice}") from None
            if wanted.data is None:
                return wanted.bundle
            try:
                if raw is None:
                    await self.cluster.create(SECRET.from_wire(new_secret(self.name, self.namespace, wanted.data)))
                else:
                    await self.cluster.update(SECRET.from_wire(filled(raw, wanted.data)))
            except (AlreadyExists, Conflict, NotFound):
                continue  # another replica was faster, or somebody deleted it
            expires = wanted.bundle.serving.certificate.not_valid_after_utc.isoformat()
            self.log.info("certificate made", extra={"fields": {"secret": f"{self.namespace}/{self.name}", "expires": expires}})
            return wanted.bundle
        raise NotSettled(f"Secret {self.namespace}/{self.name} changes as often as it is written; who else writes it?")

    async def _secret(self) -> UnknownObject | None:
        try:
            return await self.cluster.get(SECRET, self.name, self.namespace)
        except NotFound:
            return None

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
