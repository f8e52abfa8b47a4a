"""A certificate authority for the webhook's certificate, for clusters without cert-manager. Pure: clock and key source
are arguments.

A :class:`Bundle` is the whole state: the authority, the serving certificate, and replaced authorities that clients must
still trust. The order of renewal never leaves a client without trust: a new authority is trusted first
(:attr:`Bundle.trusted` goes into the webhook configuration's ``caBundle``), and signs only from the serving
certificate's next renewal on, which is weeks later.

An authority is restricted to its names (RFC 5280, 4.2.1.10: name constraints) and to servers (extended key usage): with
its key one can impersonate the webhook, but no other server. The files of the two halves are separate, so that the
process that serves needs no access to the authority's key.
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
BACKDATED: Final = timedelta(days=1)
"""Certificates are valid from this long before they are made, because the clocks of a cluster differ and jump."""
LINGER: Final = timedelta(days=1)
"""How long a replaced authority stays trusted after the last certificate that it signed; replicas load a new one within
seconds."""

CA_CERTIFICATES: Final = "ca.crt"
CA_KEY: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
"""File names as in a Secret of type kubernetes.io/tls and as cert-manager writes them."""


class BundleError(ValueError):
    """Invalid names or files; the text says which and why."""


class KeySource(Protocol):
    """Source of randomness."""

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
class KeyPair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def renew_at(self) -> datetime:
        """The time when two thirds of its lifetime are over."""
        begin, end = self.certificate.not_valid_before_utc, self.certificate.not_valid_after_utc
        return begin + (end - begin) * 2 / 3


@dataclass(frozen=True)
class Bundle:
    """The authority and the serving certificate. ``predecessors``: replaced authorities that must still be trusted,
    newest first."""

    authority: KeyPair
    serving: KeyPair
    predecessors: tuple[x509.Certificate, ...] = ()

    @property
    def trusted(self) -> tuple[x509.Certificate, ...]:
        """The authorities that clients must trust."""
        return (self.authority.certificate, *self.predecessors)

    @property
    def ca_bundle(self) -> bytes:
        """:attr:`trusted` as PEM, for ``caBundle``."""
        return b"".join(_pem(certificate) for certificate in self.trusted)

    def to_files(self) -> Mapping[str, bytes]:
        """The bundle as PEM, by file name."""
        return {**self.authority_files(), **self.serving_files()}

    def authority_files(self) -> Mapping[str, bytes]:
        """The authority's files, only for the process that renews."""
        return {CA_CERTIFICATES: self.ca_bundle, CA_KEY: _key_pem(self.authority.key)}

    def serving_files(self) -> Mapping[str, bytes]:
        """The server's files: its certificate and key, and the certificates of trusted authorities."""
        return {
            CA_CERTIFICATES: self.ca_bundle,
            CERTIFICATE: _pem(self.serving.certificate),
            KEY: _key_pem(self.serving.key),
        }

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Bundle:
        """The bundle in files. Raises :class:`BundleError` where a file is missing, isn't PEM, or a key isn't its
        certificate's."""
        authority, predecessors = _authorities(files)
        serving = _certificates(files, CERTIFICATE)[0]
        return cls(authority, _pair(serving, _key(files, KEY), CERTIFICATE, KEY), predecessors)

    @classmethod
    def of_authority(
        cls, files: Mapping[str, bytes], dns_names: Sequence[str], now: datetime, keys: KeySource
    ) -> Bundle:
        """The authority of the files, with another serving certificate. Raises :class:`BundleError` where it can't be
        read."""
        authority, predecessors = _authorities(files)
        # The authority's certificate stands in for the serving one; it has none of the names, so that it is renewed.
        return renewed(cls(authority, authority, predecessors), dns_names, now, keys)


def bootstrap(dns_names: Sequence[str], now: datetime, keys: KeySource) -> Bundle:
    """A new authority with a serving certificate for the names (or IP addresses). Raises :class:`BundleError` for
    invalid names."""
    authority = _authority(dns_names, now, keys)
    return Bundle(authority, _serving(authority, dns_names, now, keys))


def renewed(bundle: Bundle, dns_names: Sequence[str], now: datetime, keys: KeySource) -> Bundle:
    """The bundle with everything renewed that is due; the same object if nothing is.

    * An authority is replaced when two thirds of its life are over, or when it isn't constrained to the names. A
      serving certificate that is due at the same time is signed by the old one, if its constraints permit that; then
      the old key is deleted. The old certificate stays trusted until :data:`LINGER` after the serving certificate has
      been replaced by one of the new authority.
    * The serving certificate is replaced when two thirds of its life are over, when the names differ, when no authority
      in :attr:`Bundle.trusted` signed it, or when it isn't valid yet: then it was made by a clock that was ahead by
      more than :data:`BACKDATED`, and no client accepts it. A jump of less changes nothing.
    * A bundle whose authority has expired, or isn't valid yet, is made anew.
    """
    old = bundle.authority.certificate
    if not old.not_valid_before_utc <= now < old.not_valid_after_utc:
        return bootstrap(dns_names, now, keys)
    needed = (predecessor for predecessor in bundle.predecessors if now < _needed_until(bundle, predecessor))
    renewal = replace(bundle, predecessors=tuple(needed))
    if now >= bundle.authority.renew_at() or _constraints_of(old) != _constraints(dns_names):
        renewal = replace(renewal, authority=_authority(dns_names, now, keys), predecessors=renewal.trusted)
    if _serving_is_due(renewal, dns_names, now):
        # By the previous authority: no client trusts a new one yet.
        signer = bundle.authority if permits(old, dns_names) else renewal.authority
        renewal = replace(renewal, serving=_serving(signer, dns_names, now, keys))
    return bundle if renewal == bundle else renewal


def succeeded(bundle: Bundle, dns_names: Sequence[str], now: datetime, keys: KeySource) -> Bundle:
    """The bundle with a new authority; the old one stops signing, and is trusted as long as needed."""
    return replace(bundle, authority=_authority(dns_names, now, keys), predecessors=bundle.trusted)


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The names of a Service's certificate; the first is the one that an API server verifies.

    Not the short ones: an authority that may sign for ``virt-dra-webhook`` may sign for everything below it too.
    """
    return f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local"


def names_of(certificate: x509.Certificate) -> frozenset[str]:
    """The DNS names and IP addresses of a certificate."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = names.get_values_for_type(x509.IPAddress)
    return frozenset((*names.get_values_for_type(x509.DNSName), *map(str, addresses)))


def permits(authority: x509.Certificate, dns_names: Sequence[str]) -> bool:
    """True if the authority's name constraints let it sign for all the names (or IP addresses); without constraints it
    may for any."""
    constraints = _constraints_of(authority)
    if constraints is None:
        return True
    permitted = constraints.permitted_subtrees or ()
    return all(any(_within(_general_name(name), subtree) for subtree in permitted) for name in dns_names)


def _within(name: x509.GeneralName, subtree: x509.GeneralName) -> bool:
    if isinstance(name, x509.DNSName) and isinstance(subtree, x509.DNSName):
        return f".{name.value}".lower().endswith(f".{subtree.value}".lower())
    if isinstance(name, x509.IPAddress) and isinstance(subtree, x509.IPAddress):
        address, network = ipaddress.ip_network(name.value), ipaddress.ip_network(subtree.value)
        return address.version == network.version and network.supernet_of(address)  # type: ignore[arg-type] # of one version
    return False


def _serving_is_due(bundle: Bundle, dns_names: Sequence[str], now: datetime) -> bool:
    serving = bundle.serving.certificate
    if not serving.not_valid_before_utc <= now < bundle.serving.renew_at() or names_of(serving) != frozenset(dns_names):
        return True
    return not any(_issued(authority, serving) for authority in bundle.trusted)


def _needed_until(bundle: Bundle, predecessor: x509.Certificate) -> datetime:
    """The time until which a replaced authority must be trusted."""
    serving, end = bundle.serving.certificate, predecessor.not_valid_after_utc
    return end if _issued(predecessor, serving) else min(end, serving.not_valid_before_utc + BACKDATED + LINGER)


def _issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _constraints_of(authority: x509.Certificate) -> x509.NameConstraints | None:
    try:
        return authority.extensions.get_extension_for_class(x509.NameConstraints).value
    except x509.ExtensionNotFound:
        return None


def _constraints(dns_names: Sequence[str]) -> x509.NameConstraints:
    """Constraints to the names. A type of name without a permitted one would be unrestricted, so it is excluded as a
    whole."""
    names = [_general_name(name) for name in sorted(set(dns_names))]
    permitted = [
        x509.IPAddress(ipaddress.ip_network(name.value)) if isinstance(name, x509.IPAddress) else name for name in names
    ]
    excluded: list[x509.GeneralName] = []
    if not any(isinstance(name, x509.DNSName) for name in names):
        excluded.append(x509.DNSName(""))
    if not any(isinstance(name, x509.IPAddress) for name in names):
        excluded += [x509.IPAddress(ipaddress.ip_network(everything)) for everything in ("0.0.0.0/0", "::/0")]
    return x509.NameConstraints(permitted or None, excluded or None)


def _authority(dns_names: Sequence[str], now: datetime, keys: KeySource) -> KeyPair:
    if not dns_names:
        raise BundleError("a serving certificate needs at least one DNS name")
    constraints = _constraints(dns_names)
    key, serial = keys.private_key(), keys.serial_number()
    # The serial number makes the name unique, for clients that look an issuer up by its name.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"virt-dra webhook authority {serial:x}"[:64])])
    builder = (
        _builder(name, name, key, serial, now, now + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(_SERVERS_ONLY, critical=False)
        .add_extension(constraints, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def _serving(authority: KeyPair, dns_names: Sequence[str], now: datetime, keys: KeySource) -> KeyPair:
    names = [_general_name(name) for name in dns_names]
    key, serial = keys.private_key(), keys.serial_number()
    issuer = authority.certificate
    # OpenSSL takes a common name for a DNS name where there is no other; an IP address would then be refused as one.
    common = dns_names[0][:64] if isinstance(names[0], x509.DNSName) else "virt-dra webhook"
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    end = min(now + SERVING_LIFETIME, issuer.not_valid_after_utc)
    builder = (
        _builder(subject, issuer.subject, key, serial, now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(_SERVERS_ONLY, critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return KeyPair(builder.sign(authority.key, hashes.SHA256()), key)


_SERVERS_ONLY: Final = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])


def _usage(*, signs: bool) -> x509.KeyUsage:
    """The usage of a key that signs certificates and CRLs, or of one that signs handshakes."""
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, serial: int, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    names = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(serial)
    )
    return names.not_valid_before(now - BACKDATED).not_valid_after(end)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    labels = name.split(".")
    if len(name) > 253 or not all(0 < len(label) <= 63 and label.replace("-", "").isalnum() for label in labels):
        raise BundleError(f"{name!r} is neither a DNS name nor an IP address")
    if not name.isascii():
        raise BundleError(f"{name!r} is no DNS name; write it in ASCII")
    return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _authorities(files: Mapping[str, bytes]) -> tuple[KeyPair, tuple[x509.Certificate, ...]]:
    """The authority that signs, and its predecessors."""
    certificates = _certificates(files, CA_CERTIFICATES)
    return _pair(certificates[0], _key(files, CA_KEY), CA_CERTIFICATES, CA_KEY), tuple(certificates[1:])


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


def _pair(
    certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, certificate_name: str, key_name: str
) -> KeyPair:
    if certificate.public_key() != key.public_key():
        raise BundleError(f"{key_name} is not the key of {certificate_name}")
    return KeyPair(certificate, key)
