"""Authentication of the webhook's callers: an API server with a client certificate, or an unverified caller. Pure.

The TLS handshake verifies that a certificate was signed by an authority of ``--client-ca``; this module decides whether
it is an API server's, and how unverified reviews are answered. Why: docs/decisions/0011-webhook-server.md, "Who asks".
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from virt_dra.api.counting import cut_after
from webhooks.review import BadReview

DEFAULT_NAME: Final = "kube-apiserver"
"""Common name or DNS name of the client certificate that API servers present."""

UnverifiedPolicy = Literal["refuse", "limit", "tell"]
REFUSE: Final = "refuse"
"""Reviews without a verified certificate get no verdict."""
LIMIT: Final = "limit"
"""They are decided by the content of the review alone (:attr:`webhooks.knowledge.Knowledge.for_unverified`)."""
TELL: Final = "tell"
"""They are decided by everything known of the cluster: for networks where only API servers can connect, or nothing is
secret."""

_MAX_SHOWN: Final = 100


@dataclass(frozen=True)
class Callers:
    """The policy for callers. ``unverified``: how reviews of callers without a certificate are answered. ``names``:
    common names and DNS names of certificates that are accepted; the server asks for a certificate only where its TLS
    has an authority for clients."""

    unverified: UnverifiedPolicy = LIMIT
    names: frozenset[str] = frozenset({DEFAULT_NAME})

    def verified(self, peer: Mapping[str, Any] | None, now: datetime) -> bool:
        """True if a certificate that the handshake has verified (as ``ssl`` shows it) is an API server's and hasn't
        expired since.

        Raises :class:`BadReview` for another certificate, if callers without one are refused.
        """
        if not peer:
            return False
        shown = names_of(peer)
        if self.names.isdisjoint(shown):
            if self.unverified == REFUSE:
                listed = ", ".join(sorted(self.names))
                whose = cut_after(", ".join(repr(name) for name in sorted(shown)), _MAX_SHOWN)
                message = f"the client certificate is of {whose}; reviews are answered to {listed} only (--client-name)"
                raise BadReview(403, "Forbidden", message)
            return False
        return now.timestamp() < ssl.cert_time_to_seconds(str(peer["notAfter"]))

    def full_answer(self, *, verified: bool) -> bool:
        """True if the answer may depend on everything known of the cluster. Raises :class:`BadReview` where the review
        is refused."""
        if verified or self.unverified == TELL:
            return True
        if self.unverified == REFUSE:
            message = (
                "this webhook answers reviews only to API servers that present a client certificate (--client-ca); "
                "configure it with kube-apiserver's --admission-control-config-file, see docs/guides/callers.md"
            )
            raise BadReview(401, "Unauthorized", message)
        return False


def names_of(peer: Mapping[str, Any]) -> frozenset[str]:
    """The common names and DNS names of a certificate as ``ssl.SSLSocket.getpeercert`` shows it."""
    common = {value for relative in peer.get("subject", ()) for key, value in relative if key == "commonName"}
    return frozenset(common | {value for kind, value in peer.get("subjectAltName", ()) if kind == "DNS"})
