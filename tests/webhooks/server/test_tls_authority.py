"""The authority of our own: what it makes, when it renews, and that clients never lose trust meanwhile."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from webhooks.tls_authority import Bundle, BundleError, SystemKeys, bootstrap, names_of, next_renewal, renewed, service_names

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = service_names("hook", "virt-dra")


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
    assert NAMES == ("hook.virt-dra.svc", "hook.virt-dra.svc.cluster.local", "hook.virt-dra", "hook")


def test_a_bundle_has_an_authority_and_a_certificate_for_the_names() -> None:
    bundle = bootstrap((*NAMES, "10.0.0.1", "::1"), NOW, Counted())
    authority, serving = bundle.authority.certificate, bundle.serving.certificate
    serving.verify_directly_issued_by(authority)
    assert names_of(serving) == {*NAMES, "10.0.0.1", "::1"}
    assert (serving.serial_number, authority.serial_number) == (1002, 1001)
    assert (serving.not_valid_before_utc, serving.not_valid_after_utc) == (NOW - timedelta(minutes=5), _after(90))
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


def test_other_names_are_served_at_once() -> None:
    keys = Counted()
    bundle = bootstrap(NAMES, NOW, keys)
    assert names_of(renewed(bundle, ("other.example",), NOW, keys).serving.certificate) == {"other.example"}


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
            content = content.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
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
