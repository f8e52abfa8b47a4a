"""An authority of our own for the webhook's certificate, for clusters without cert-manager. Pure: clock and key source come in.

A :class:`Bundle` is everything there is to keep: the authority, the serving certificate, and whom clients must trust meanwhile. Renewal has
an order that never leaves a client without trust: a new authority is trusted first (:attr:`Bundle.trusted` goes into the webhook
configuration's ``caBundle``), and signs only from the serving certificate's next renewal on, which is weeks later.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFETIME: Final = timedelta(days=3650)
SERVING_LIFETIME: Final = timedelta(days=90)
BACKDATED: Final = timedelta(minutes=5)
"""Clocks of a cluster differ; a certificate is valid from a little before it is made."""

CA_CERTIFICATES: Final = "ca.crt"
CA_KEY: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
"""Names as in a Secret of type kubernetes.io/tls and as cert-manager writes them."""


class BundleError(ValueError):
    """Names or files of which no certificate can be made or read; the text says which and why."""


class KeySource(Protocol):
    """Where randomness comes from."""

    def private_key(self) -> ec.EllipticCurvePrivateKey:
        """A new key."""

    def serial_number(self) -> int:
        """A new positive number of at most 159 bits."""


class SystemKeys:
    """Keys on P-256 and serial numbers, from the operating system's randomness."""

    def private_key(self) -> ec.EllipticCurvePrivateKey:
        return ec.generate_private_key(ec.SECP256R1())

    def serial_number(self) -> int:
        return x509.random_serial_number()


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def renew_at(self) -> datetime:
        """When two thirds of its lifetime are over."""
        begin, end = self.certificate.not_valid_before_utc, self.certificate.not_valid_after_utc
        return begin + (end - begin) * 2 / 3


@dataclass(frozen=True)
class Bundle:
    """``predecessors``: authorities that were replaced and are still valid, newest first."""

    authority: Pair
    serving: Pair
    predecessors: tuple[x509.Certificate, ...] = ()

    @property
    def trusted(self) -> tuple[x509.Certificate, ...]:
        """What clients must trust."""
        return (self.authority.certificate, *self.predecessors)

    @property
    def ca_bundle(self) -> bytes:
        """:attr:`trusted` as PEM, for ``caBundle``."""
        return b"".join(_pem(certificate) for certificate in self.trusted)

    def to_files(self) -> Mapping[str, bytes]:
        """The bundle as PEM, by file name."""
        return {
            CA_CERTIFICATES: self.ca_bundle,
            CA_KEY: _key_pem(self.authority.key),
            CERTIFICATE: _pem(self.serving.certificate),
            KEY: _key_pem(self.serving.key),
        }

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Bundle:
        """Raises :class:`BundleError` where a file is missing, isn't PEM, or a key isn't its certificate's."""
        authorities = _certificates(files, CA_CERTIFICATES)
        serving = _certificates(files, CERTIFICATE)[0]
        return cls(
            authority=_pair(authorities[0], _key(files, CA_KEY), CA_CERTIFICATES, CA_KEY),
            serving=_pair(serving, _key(files, KEY), CERTIFICATE, KEY),
            predecessors=tuple(authorities[1:]),
        )


def bootstrap(dns_names: Sequence[str], now: datetime, keys: KeySource) -> Bundle:
    """A new authority with a serving certificate for the names (or IP addresses). Raises :class:`BundleError` for names that can't be."""
    authority = _authority(now, keys)
    return Bundle(authority, _serving(authority, dns_names, now, keys))


def renewed(bundle: Bundle, dns_names: Sequence[str], now: datetime, keys: KeySource) -> Bundle:
    """The bundle as it should be now; the same object where nothing is due.

    * An authority is replaced when two thirds of its life are over; the old one stays trusted until it expires, and signs what is due in
      the same moment.
    * The serving certificate is replaced when two thirds of its life are over, when the names differ, or when nobody in
      :attr:`Bundle.trusted` signed it.
    * A bundle whose authority has expired is made anew.
    """
    if now >= bundle.authority.certificate.not_valid_after_utc:
        return bootstrap(dns_names, now, keys)
    renewal = replace(bundle, predecessors=tuple(old for old in bundle.predecessors if now < old.not_valid_after_utc))
    if now >= bundle.authority.renew_at():
        renewal = replace(renewal, authority=_authority(now, keys), predecessors=renewal.trusted)
    if _serving_is_due(renewal, dns_names, now):
        # By the authority that was there before: nobody trusts one that is made in this moment.
        renewal = replace(renewal, serving=_serving(bundle.authority, dns_names, now, keys))
    return bundle if renewal == bundle else renewal


def next_renewal(bundle: Bundle) -> datetime:
    """When :func:`renewed` will have something to do, if the names stay."""
    return min(bundle.authority.renew_at(), bundle.serving.renew_at(), *(old.not_valid_after_utc for old in bundle.predecessors))


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The names under which an API server calls a Service; the first is the one that it verifies."""
    return f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", f"{service}.{namespace}", service


def names_of(certificate: x509.Certificate) -> frozenset[str]:
    """The DNS names and IP addresses of a certificate."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = names.get_values_for_type(x509.IPAddress)
    return frozenset((*names.get_values_for_type(x509.DNSName), *map(str, addresses)))


def _serving_is_due(bundle: Bundle, dns_names: Sequence[str], now: datetime) -> bool:
    serving = bundle.serving
    return now >= serving.renew_at() or names_of(serving.certificate) != frozenset(dns_names) or not _is_trusted(bundle)


def _is_trusted(bundle: Bundle) -> bool:
    for authority in bundle.trusted:
        try:
            bundle.serving.certificate.verify_directly_issued_by(authority)
        except (InvalidSignature, ValueError, TypeError):
            continue
        return True
    return False


def _authority(now: datetime, keys: KeySource) -> Pair:
    key, serial = keys.private_key(), keys.serial_number()
    # The serial number tells authorities of one name apart, for clients that look an issuer up by its name.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"virt-dra webhook authority {serial:x}"[:64])])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _builder(name, name, key, serial, now, now + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Pair(builder.sign(key, hashes.SHA256()), key)


def _serving(authority: Pair, dns_names: Sequence[str], now: datetime, keys: KeySource) -> Pair:
    names = [_general_name(name) for name in dns_names]
    if not names:
        raise BundleError("a serving certificate needs at least one DNS name")
    key, serial = keys.private_key(), keys.serial_number()
    issuer = authority.certificate
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, dns_names[0][:64])])
    end = min(now + SERVING_LIFETIME, issuer.not_valid_after_utc)
    builder = (
        _builder(subject, issuer.subject, key, serial, now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, serial: int, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    names = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key()).serial_number(serial)
    return names.not_valid_before(now - BACKDATED).not_valid_after(end)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    if not name or len(name) > 253 or not all(0 < len(label) <= 63 and label.replace("-", "").isalnum() for label in name.split(".")):
        raise BundleError(f"{name!r} is neither a DNS name nor an IP address")
    if not name.isascii():
        raise BundleError(f"{name!r} is no DNS name; write it in ASCII")
    return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _certificates(files: Mapping[str, bytes], name: str) -> list[x509.Certificate]:
    content = _content(files, name)
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError:
        raise BundleError(f"{name} holds no certificate in PEM") from None


def _key(files: Mapping[str, bytes], name: str) -> ec.EllipticCurvePrivateKey:
    content = _content(files, name)
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError):
        raise BundleError(f"{name} holds no unencrypted private key in PEM") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BundleError(f"{name} is no key on an elliptic curve, as this program makes them")
    return key


def _content(files: Mapping[str, bytes], name: str) -> bytes:
    content = files.get(name)
    if content is None:
        raise BundleError(f"{name} is missing")
    return content


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, certificate_name: str, key_name: str) -> Pair:
    if certificate.public_key() != key.public_key():
        raise BundleError(f"{key_name} is not the key of {certificate_name}")
    return Pair(certificate, key)
