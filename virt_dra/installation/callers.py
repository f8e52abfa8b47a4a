"""Manifests of ``virt-dra install`` that restrict the webhook's callers: a CA for API servers' client certificates, and
networks. Pure."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final

from virt_dra.api.wire import Json

CLIENT_CA: Final = "components/client-ca"
SECRET: Final = "virt-dra-webhook-client-ca"
"""The name in the component. A Secret although certificates aren't secret, because cert-manager and kubectl store them
in Secrets."""
_POLICY: Final = "virt-dra-webhook"
_REVIEWS: Final = 8443


def client_ca_secret(namespace: str, authorities: bytes, labels: Json) -> Json:
    """The Secret with the CA certificates (PEM)."""
    metadata = {"name": SECRET, "namespace": namespace, "labels": labels}
    data = {"ca.crt": base64.b64encode(authorities).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def from_addresses(obj: Json, networks: Sequence[str]) -> Json:
    """The webhook's NetworkPolicy, changed to admit reviews from these networks only; any other object unchanged."""
    if not networks or obj["kind"] != "NetworkPolicy" or obj["metadata"]["name"] != _POLICY:
        return obj
    blocks = [{"ipBlock": {"cidr": network}} for network in networks]

    def limited(rule: Json) -> Json:
        return {"from": blocks, **rule} if any(port.get("port") == _REVIEWS for port in rule["ports"]) else rule

    return {**obj, "spec": {**obj["spec"], "ingress": [limited(rule) for rule in obj["spec"]["ingress"]]}}


def read_networks(texts: Iterable[str]) -> tuple[str, ...]:
    """Networks and addresses in CIDR notation. Raises ValueError for one that is malformed or has host bits set."""
    networks = []
    for text in texts:
        try:
            network = ipaddress.ip_interface(text).network
        except ValueError:
            raise ValueError(f"{text!r} is neither an address nor a network; write it as 10.0.0.0/28") from None
        try:
            ipaddress.ip_network(text)
        except ValueError:
            # Not masked: the author may have meant this single address, and the network would let others connect, too.
            raise ValueError(f"{text!r} has host bits set; write {network}") from None
        networks.append(str(network))
    return tuple(networks)


def reads_as_certificates(content: bytes) -> bool:
    """True for PEM with a certificate and without a private key, which must not get into the cluster."""
    return b"-----BEGIN CERTIFICATE-----" in content and b"PRIVATE KEY-----" not in content
