"""What clients make of our certificates, and of those that a thief of the authority's key signs.

The clients are Go's verifier, which is the API server's, and OpenSSL's.
"""

from __future__ import annotations

import ipaddress
import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from devtools import needs
from webhooks.tls.authority import KeyPair, SystemKeys, bootstrap, renewed, service_names

HERE = Path(__file__).parent
NAMES = service_names("hook", "virt-dra")
NOW = datetime.now(UTC)

Verify = Callable[[bytes, bytes, str], str]
"""From roots, a chain and the name that is called to an error, "" where there is none."""


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Verify:
    needs.use("go")
    if shutil.which("go") is None:
        pytest.skip("Go's verifier needs Go")
    program = tmp_path_factory.mktemp("go") / "client"
    subprocess.run(["go", "build", "-o", program, "."], cwd=HERE / "go_client", check=True)

    def verify(roots: bytes, leaf: bytes, name: str) -> str:
        question = json.dumps({"roots": roots.decode(), "leaf": leaf.decode(), "name": name})
        answer = subprocess.run([program], input=question, capture_output=True, text=True, check=True)
        return str(json.loads(answer.stdout))

    return verify


@pytest.fixture
def openssl(tmp_path: Path) -> Verify:
    if shutil.which("openssl") is None:
        pytest.skip("OpenSSL's verifier needs openssl")

    def verify(roots: bytes, leaf: bytes, name: str) -> str:
        (tmp_path / "roots").write_bytes(roots)
        (tmp_path / "leaf").write_bytes(leaf)
        kind = "-verify_ip" if _is_address(name) else "-verify_hostname"
        files = ["-CAfile", str(tmp_path / "roots"), "-untrusted", str(tmp_path / "leaf"), str(tmp_path / "leaf")]
        command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", kind, name, *files]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        return "" if answer.returncode == 0 else answer.stderr

    return verify


@pytest.fixture(params=[pytest.param("go", marks=pytest.mark.go), "openssl"])
def verify(request: pytest.FixtureRequest) -> Verify:
    chosen: Verify = request.getfixturevalue(request.param)
    return chosen


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("names", [NAMES, ("localhost", "127.0.0.1", "::1"), ("10.0.0.1",), ("::1",)])
def test_the_names_are_accepted(verify: Verify, names: tuple[str, ...]) -> None:
    bundle = bootstrap(names, NOW, SystemKeys())
    for name in names:
        assert verify(bundle.ca_bundle, bundle.to_files()["tls.crt"], name) == ""
    assert verify(bundle.ca_bundle, bundle.to_files()["tls.crt"], "other.example") != ""


def test_both_authorities_are_accepted_while_one_takes_over(verify: Verify) -> None:
    bundle = bootstrap(NAMES, NOW - timedelta(days=2500), SystemKeys())
    during = renewed(bundle, NAMES, NOW - timedelta(days=61), SystemKeys())
    assert len(during.trusted) == 2
    after = renewed(during, NAMES, NOW, SystemKeys())
    assert after.serving is not during.serving
    assert verify(during.ca_bundle, during.to_files()["tls.crt"], NAMES[0]) == ""
    assert verify(bundle.ca_bundle, during.to_files()["tls.crt"], NAMES[0]) == ""
    assert verify(during.ca_bundle, after.to_files()["tls.crt"], NAMES[0]) == ""


@pytest.mark.parametrize(
    ("names", "stolen"),
    [
        (NAMES, "kubernetes.default.svc"),
        (NAMES, "virt-api.kubevirt.svc"),
        (NAMES, "virt-dra.svc"),
        (NAMES, "other.virt-dra.svc"),
        (NAMES, "xhook.virt-dra.svc"),
        (NAMES, "hook"),
        (NAMES, "10.96.0.1"),
        (NAMES, "fd00::1"),
        (("hook", "10.0.0.1"), "10.0.0.2"),
        (("hook", "10.0.0.1"), "fd00::1"),
        (("10.0.0.1",), "kubernetes.default.svc"),
    ],
)
def test_a_thief_of_the_authoritys_key_can_sign_for_no_other_name(
    verify: Verify, names: tuple[str, ...], stolen: str
) -> None:
    bundle = bootstrap(names, NOW, SystemKeys())
    assert verify(bundle.ca_bundle, _signed(bundle.authority, names[0]), names[0]) == "", (
        "the signing here is as good as ours"
    )
    refusal = verify(bundle.ca_bundle, _signed(bundle.authority, stolen), stolen)
    assert "not permitted" in refusal or "permitted subtree violation" in refusal or "excluded" in refusal, refusal


def test_a_thief_of_the_authoritys_key_can_make_no_wildcard_and_no_other_authority(verify: Verify) -> None:
    bundle = bootstrap(NAMES, NOW, SystemKeys())
    assert verify(bundle.ca_bundle, _signed(bundle.authority, "*.virt-dra.svc"), NAMES[0]) != ""
    below = bootstrap(NAMES, NOW, SystemKeys()).authority
    authority = _signed(bundle.authority, None, key=below.key, authority=True)
    through = KeyPair(x509.load_pem_x509_certificate(authority), below.key)
    assert verify(bundle.ca_bundle, _signed(through, NAMES[0]) + authority, NAMES[0]) != ""


def test_what_an_authority_signs_for_clients_is_refused(openssl: Verify) -> None:
    bundle = bootstrap(NAMES, NOW, SystemKeys())
    client = _signed(bundle.authority, NAMES[0], usage=ExtendedKeyUsageOID.CLIENT_AUTH)
    assert openssl(bundle.ca_bundle, client, NAMES[0]) != ""


def _signed(
    signer: KeyPair,
    name: str | None,
    *,
    key: ec.EllipticCurvePrivateKey | None = None,
    authority: bool = False,
    usage: ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
) -> bytes:
    """A certificate as somebody makes it who has the key and none of our code."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "some body")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.certificate.subject)
        .public_key(key.public_key())
    )
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(NOW - timedelta(hours=1))
    builder = builder.not_valid_after(NOW + timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key()), critical=False
    )
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    signs = x509.KeyUsage(not authority, False, False, False, False, authority, authority, False, False)
    builder = builder.add_extension(signs, critical=True).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    if name is not None:
        general = x509.IPAddress(ipaddress.ip_address(name)) if _is_address(name) else x509.DNSName(name)
        builder = builder.add_extension(x509.SubjectAlternativeName([general]), critical=False)
    return builder.sign(signer.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
