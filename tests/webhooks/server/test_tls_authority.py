"""The authority of our own: what it makes, when it renews, and that clients never lose trust meanwhile."""

from __future__ import annotations

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from webhooks.tls.authority import (
    Bundle,
    BundleError,
    KeyPair,
    SystemKeys,
    _needed_until,
    bootstrap,
    names_of,
    permits,
    renewed,
    service_names,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = service_names("hook", "virt-dra")


def next_renewal(bundle: Bundle) -> datetime:
    """The time of the next renewal if the names don't change."""
    forgetting = (_needed_until(bundle, old) for old in bundle.predecessors)
    return min(bundle.authority.renew_at(), bundle.serving.renew_at(), *forgetting)


class Counted:
    """A key source that tells its keys apart: the scalars 1, 2, 3, … on P-256."""

    def __init__(self) -> None:
        self.made = 0

    def private_key(self) -> ec.EllipticCurvePrivateKey:
        self.made += 1
        return ec.derive_private_key(self.made, ec.SECP256R1())

    def serial_number(self) -> int:
        return 1000 + self.made


def _after(days: float) -> datetime:
    return NOW + timedelta(days=days)


def test_names_of_a_service() -> None:
    assert NAMES == ("hook.virt-dra.svc", "hook.virt-dra.svc.cluster.local")


def test_a_bundle_has_an_authority_and_a_certificate_for_the_names() -> None:
    bundle = bootstrap((*NAMES, "10.0.0.1", "::1"), NOW, Counted())
    authority, serving = bundle.authority.certificate, bundle.serving.certificate
    serving.verify_directly_issued_by(authority)
    assert names_of(serving) == {*NAMES, "10.0.0.1", "::1"}
    assert (serving.serial_number, authority.serial_number) == (1002, 1001)
    assert (serving.not_valid_before_utc, serving.not_valid_after_utc) == (_after(-1), _after(90))
    assert authority.not_valid_after_utc == _after(3650)
    assert authority.subject.rfc4514_string() == "CN=virt-dra webhook authority 3e9"
    assert bundle.trusted == (authority,)


@pytest.mark.parametrize(
    ("names", "want"),
    [
        ((), "a serving certificate needs at least one DNS name"),
        (("",), "'' is neither a DNS name nor an IP address"),
        (("a b",), "'a b' is neither a DNS name nor an IP address"),
        (("a..b",), "'a..b' is neither a DNS name nor an IP address"),
        (("x" * 64,), f"'{'x' * 64}' is neither a DNS name nor an IP address"),
        (("bücher.example",), "'bücher.example' is no DNS name; write it in ASCII"),
    ],
)
def test_names_that_cannot_be(names: tuple[str, ...], want: str) -> None:
    with pytest.raises(BundleError) as caught:
        bootstrap(names, NOW, Counted())
    assert str(caught.value) == want


def test_nothing_is_renewed_before_its_time() -> None:
    bundle = bootstrap(NAMES, NOW, Counted())
    assert next_renewal(bundle) == bundle.serving.renew_at()
    assert renewed(bundle, tuple(reversed(NAMES)), _after(59), Counted()) is bundle


def test_a_certificate_is_renewed_when_two_thirds_of_its_life_are_over() -> None:
    keys = Counted()
    bundle = bootstrap(NAMES, NOW, keys)
    renewal = renewed(bundle, NAMES, bundle.serving.renew_at(), keys)
    assert renewal.authority is bundle.authority
    assert renewal.serving.certificate.serial_number == 1003
    assert renewal.serving.certificate.not_valid_after_utc == bundle.serving.renew_at() + timedelta(days=90)
    assert _after(59) < bundle.serving.renew_at() < _after(60)


def test_names_that_the_authority_may_not_sign_for_are_served_at_once_by_a_new_one() -> None:
    keys = Counted()
    bundle = bootstrap(NAMES, NOW, keys)
    other = renewed(bundle, ("other.example",), NOW, keys)
    assert names_of(other.serving.certificate) == {"other.example"}
    assert not permits(bundle.authority.certificate, ("other.example",))
    assert permits(other.authority.certificate, ("other.example",))
    other.serving.certificate.verify_directly_issued_by(other.authority.certificate)
    assert other.predecessors == (bundle.authority.certificate,), (
        "replicas serve by it until they have taken the new one"
    )
    assert renewed(other, ("other.example",), _after(0.9), keys) is other
    assert renewed(other, ("other.example",), _after(1), keys).predecessors == ()
    fewer = renewed(bundle, NAMES[:1], NOW, keys)
    fewer.serving.certificate.verify_directly_issued_by(bundle.authority.certificate)
    assert not permits(fewer.authority.certificate, NAMES[1:]), "what is no longer needed is no longer permitted"


def test_an_authority_of_an_earlier_release_is_replaced_and_its_key_forgotten() -> None:
    keys = Counted()
    old = _without_constraints(bootstrap(NAMES, NOW, keys))
    first = renewed(old, NAMES, NOW, keys)
    assert first.authority is not old.authority
    assert first.serving is old.serving, "clients must learn the new one before it signs"
    assert first.trusted == (first.authority.certificate, old.authority.certificate)
    then = renewed(first, NAMES, first.serving.renew_at(), keys)
    then.serving.certificate.verify_directly_issued_by(first.authority.certificate)
    assert next_renewal(then) == first.serving.renew_at() + timedelta(days=1)
    assert renewed(then, NAMES, next_renewal(then), keys).trusted == (first.authority.certificate,), (
        "not for its ten years"
    )


def _without_constraints(bundle: Bundle) -> Bundle:
    authority = bundle.authority
    builder = (
        x509.CertificateBuilder().subject_name(authority.certificate.subject).issuer_name(authority.certificate.subject)
    )
    builder = (
        builder.public_key(authority.key.public_key())
        .serial_number(7)
        .not_valid_before(NOW)
        .not_valid_after(_after(3650))
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return replace(bundle, authority=KeyPair(builder.sign(authority.key, hashes.SHA256()), authority.key))


def test_an_authority_signs_for_its_names_only_and_a_certificate_signs_nothing() -> None:
    bundle = bootstrap((NAMES[0], "10.0.0.1"), NOW, Counted())
    authority, serving = bundle.authority.certificate.extensions, bundle.serving.certificate.extensions
    constraints = authority.get_extension_for_class(x509.NameConstraints)
    assert constraints.critical
    assert constraints.value.permitted_subtrees == [x509.IPAddress(ip_network("10.0.0.1/32")), x509.DNSName(NAMES[0])]
    basic = authority.get_extension_for_class(x509.BasicConstraints)
    assert (basic.critical, basic.value.ca, basic.value.path_length) == (True, True, 0)
    for extensions, uses in ((authority, {"key_cert_sign", "crl_sign"}), (serving, {"digital_signature"})):
        usage = extensions.get_extension_for_class(x509.KeyUsage)
        assert usage.critical
        # What its class says of encipher_only and decipher_only can be asked only where key_agreement is set.
        names = (
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "key_cert_sign",
        )
        assert {name for name in (*names, "crl_sign") if getattr(usage.value, name)} == uses
        assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
            ExtendedKeyUsageOID.SERVER_AUTH
        ]


@pytest.mark.parametrize("hours", [-2, -1, 1, 2])
@pytest.mark.parametrize("days", [0, 30, 59.7, 60, 2433, 2434])
def test_a_clock_that_jumps_by_an_hour_replaces_nothing_that_others_accept(days: float, hours: float) -> None:
    """``days``: beside others, in the hours about the renewals of the certificate and of the authority."""
    keys = Counted()
    bundle = renewed(bootstrap(NAMES, NOW, keys), NAMES, _after(days), keys)
    jumped = renewed(bundle, NAMES, _after(days) + timedelta(hours=hours), keys)
    assert _accepted(jumped, bundle)
    for client in (-2, -1, 0, 1, 2):
        now = _after(days) + timedelta(hours=client)
        for certificate in (jumped.serving.certificate, *jumped.trusted):
            assert certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc
    back = renewed(jumped, NAMES, _after(days), keys)
    assert back is jumped, "two clocks don't renew by turns"


@pytest.mark.parametrize("days", [2, 365, 4000])
def test_what_a_clock_made_that_was_days_ahead_is_made_anew_when_it_is_right_again(days: float) -> None:
    keys = Counted()
    ahead = bootstrap(NAMES, _after(days), keys)
    healed = renewed(ahead, NAMES, NOW, keys)
    for certificate in (healed.serving.certificate, *healed.trusted):
        assert certificate.not_valid_before_utc <= NOW < certificate.not_valid_after_utc
    serving_ahead = replace(bootstrap(NAMES, NOW, keys), serving=bootstrap(NAMES, _after(days), keys).serving)
    healed = renewed(serving_ahead, NAMES, NOW, keys)
    assert healed.authority is serving_ahead.authority
    assert healed.serving.certificate.not_valid_before_utc <= NOW


def test_a_new_authority_is_trusted_before_it_signs() -> None:
    keys = Counted()
    bundle = bootstrap(NAMES, NOW, keys)
    old = bundle.authority
    signers: list[bool] = []
    now = NOW
    while now < old.certificate.not_valid_after_utc:
        before = bundle
        bundle = renewed(bundle, NAMES, now, keys)
        # Whoever trusts what was published before the change accepts what is served after it, and the other way round.
        assert _accepted(bundle, before)
        assert _accepted(before, bundle)
        assert bundle.serving.certificate.not_valid_after_utc > now
        if bundle.authority is not old:
            signers.append(_issued(bundle, old.certificate))
        now = max(next_renewal(bundle), now + timedelta(days=1))
    assert signers[0], "the old one signs on at first"
    assert not signers[-1]
    bundle = renewed(bundle, NAMES, now, keys)
    assert bundle.trusted == (bundle.authority.certificate,), "the old one is forgotten when it has expired"


def _accepted(served: Bundle, trusting: Bundle) -> bool:
    return any(_issued(served, authority) for authority in trusting.trusted)


def _issued(bundle: Bundle, authority: x509.Certificate) -> bool:
    return bundle.serving.certificate.issuer == authority.subject


def test_an_expired_bundle_is_made_anew() -> None:
    keys = Counted()
    bundle = bootstrap(NAMES, NOW, keys)
    anew = renewed(bundle, NAMES, _after(3650), keys)
    assert anew.authority.certificate.serial_number == 1003
    assert anew.predecessors == ()
    anew.serving.certificate.verify_directly_issued_by(anew.authority.certificate)


def test_a_certificate_that_nobody_trusted_signed_is_replaced() -> None:
    keys = Counted()
    bundle, other = bootstrap(NAMES, NOW, keys), bootstrap(NAMES, NOW, keys)
    mixed = Bundle(bundle.authority, other.serving)
    renewed(mixed, NAMES, NOW, keys).serving.certificate.verify_directly_issued_by(bundle.authority.certificate)


def test_files_hold_the_whole_bundle() -> None:
    keys = Counted()
    bundle = bootstrap(NAMES, NOW, keys)
    bundle = renewed(bundle, NAMES, bundle.authority.renew_at(), keys)
    assert len(bundle.predecessors) == 1
    assert Bundle.from_files(bundle.to_files()).to_files() == bundle.to_files()
    assert bundle.ca_bundle.count(b"BEGIN CERTIFICATE") == 2
    assert set(bundle.serving_files()) == {"ca.crt", "tls.crt", "tls.key"}, "who serves gets no key that signs"
    assert set(bundle.authority_files()) == {"ca.crt", "ca.key"}
    assert {**bundle.authority_files(), **bundle.serving_files()} == bundle.to_files()


RSA = rsa.generate_private_key(65537, 2048).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        ({"ca.key": None}, "ca.key is missing"),
        ({"tls.crt": b"nonsense"}, "tls.crt holds no certificate in PEM"),
        ({"tls.key": b"nonsense"}, "tls.key holds no unencrypted private key in PEM"),
        ({"tls.key": RSA}, "tls.key is no key on an elliptic curve, as this program makes them"),
        ({"tls.key": SystemKeys().private_key()}, "tls.key is not the key of tls.crt"),
    ],
)
def test_files_that_are_no_bundle(change: dict[str, object], want: str) -> None:
    files = dict(bootstrap(NAMES, NOW, Counted()).to_files())
    for name, content in change.items():
        if isinstance(content, ec.EllipticCurvePrivateKey):
            content = content.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        if isinstance(content, bytes):
            files[name] = content
        else:
            del files[name]
    with pytest.raises(BundleError) as caught:
        Bundle.from_files(files)
    assert str(caught.value) == want


def test_a_strict_client_accepts_the_chain(tmp_path: Path) -> None:
    bundle = bootstrap(NAMES, datetime.now(UTC), SystemKeys())
    for name, content in bundle.to_files().items():
        (tmp_path / name).write_bytes(content)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=NAMES[0])
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (asking, answering, asking, answering):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert asking.version() == "TLSv1.3"
