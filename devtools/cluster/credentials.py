"""Certificates and kubeconfigs of a control plane for tests: a serving certificate for loopback, and any user.

Servers and users have an authority each: that of servers is private to the control plane.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from devtools.cluster.ports import PORTS
from webhooks.tls.authority import BACKDATED, SERVING_LIFETIME, Bundle, KeyPair, SystemKeys, bootstrap

ADMINS = "system:masters"
API_SERVER_NAME = "kube-apiserver"
INSTALLED_WEBHOOK = "virt-dra-webhook.virt-dra.svc"
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "kubernetes.default.svc", "10.0.0.1", "10.0.2.2")
"""The last one is this machine's loopback as QEMU's guests see it."""


@dataclass(frozen=True)
class User:
    """Whom a kubeconfig stands for: by a client certificate and its key (PEM), or by a bearer token."""

    name: str
    certificate: bytes = b""
    key: bytes = b""
    token: str = ""


class Credentials:
    """What the servers of one control plane are given, as files in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._keys = SystemKeys()
        self.bundle: Bundle = bootstrap(LOOPBACK_NAMES, datetime.now(UTC), self._keys)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.bundle.to_files().items():
            (folder / name).write_bytes(content)
        self.authority, self.certificate, self.key = folder / "ca.crt", folder / "tls.crt", folder / "tls.key"
        self._signer = client_authority(self._keys)
        self.client_authority = folder / "client-ca.crt"
        self.admission_configuration = self.admission(folder)
        self.client_authority.write_bytes(self._signer.certificate.public_bytes(serialization.Encoding.PEM))
        self.service_account_key = folder / "sa.key"
        self.service_account_key.write_bytes(_pem(self._keys.private_key()))

    def user(self, name: str, groups: Sequence[str] = ()) -> User:
        """A user by a certificate: Kubernetes takes its name from CN, its groups from O."""
        pair = client_certificate(self._signer, name, groups, self._keys)
        return User(name, _certificate_pem(pair), _pem(pair.key))

    def admission(self, folder: Path) -> Path:
        """An AdmissionConfiguration by which the API server presents a client certificate to our webhook and no other.

        Ours is called by its Service, or as ``localhost`` at a port that a test takes later; KubeVirt's by its address.
        :attr:`webhook_client_ca` signed it; :attr:`webhook_client` holds it with its key.
        """
        signer = client_authority(self._keys, "authority of API servers")
        pair = client_certificate(signer, API_SERVER_NAME, keys=self._keys)
        self.webhook_client_ca = folder / "webhook-client-ca.crt"
        self.webhook_client_ca.write_bytes(signer.certificate.public_bytes(serialization.Encoding.PEM))
        self.webhook_client = folder / "webhook-client.pem"
        self.webhook_client.write_bytes(_certificate_pem(pair) + _pem(pair.key))
        path = str(self.webhook_client.resolve())
        shown = {"client-certificate": path, "client-key": path}
        hosts = (INSTALLED_WEBHOOK, *(f"localhost:{port}" for port in PORTS))
        users = [{"name": host, "user": shown} for host in hosts]
        kubeconfig = folder / "webhooks.kubeconfig"
        kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "users": users}))
        configuration = {
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": str(kubeconfig)
        }  # fmt: skip
        plugins = [
            {"name": f"{action}AdmissionWebhook", "configuration": configuration}
            for action in ("Validating", "Mutating")
        ]
        file = folder / "admission.json"
        file.write_text(
            json.dumps(
                {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}
            )
        )
        return file

    def kubeconfig(self, server: str, user: User, namespace: str = "default") -> str:
        """A kubeconfig (JSON, which is YAML) that holds all it needs."""
        identity = (
            {"token": user.token}
            if user.token
            else {"client-certificate-data": _base64(user.certificate), "client-key-data": _base64(user.key)}
        )
        return json.dumps({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "virt-dra",
                "cluster": {"server": server, "certificate-authority-data": _base64(self.authority.read_bytes())},
            }],
            "users": [{"name": user.name, "user": identity}],
            "contexts": [{"name": "virt-dra",
                "context": {"cluster": "virt-dra", "user": user.name, "namespace": namespace}}],
            "current-context": "virt-dra",
        }, indent=1)  # fmt: skip


def client_authority(keys: SystemKeys, name: str = "clients") -> KeyPair:
    """What signs for clients."""
    key = keys.private_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, subject, key, keys).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def client_certificate(
    signer: KeyPair,
    name: str,
    groups: Sequence[str] = (),
    keys: SystemKeys | None = None,
    *,
    dns_names: Sequence[str] = (),
    usage: ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
    until: datetime | None = None,
) -> KeyPair:
    """A certificate with CN, O and perhaps DNS names."""
    keys = keys or SystemKeys()
    key = keys.private_key()
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    attributes += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    builder = _builder(x509.Name(attributes), signer.certificate.subject, key, keys, until)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    if dns_names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(dns_name) for dns_name in dns_names]), critical=False
        )
    return KeyPair(builder.sign(signer.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    keys: SystemKeys,
    until: datetime | None = None,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    return (
        builder.serial_number(keys.serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(until or now + SERVING_LIFETIME)
    )


def _certificate_pem(pair: KeyPair) -> bytes:
    return pair.certificate.public_bytes(serialization.Encoding.PEM)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
