"""Certificates in files: loaded, renewed, and kept where their successor can't be used."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from webhooks.tls.authority import SystemKeys, bootstrap
from webhooks.tls.folder import AuthorityFolder
from webhooks.tls.reloading import CertificateError, CertificateFolder, ReloadingTls

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _write(folder: Path, now: datetime = NOW, *names: str) -> None:
    files = bootstrap(("localhost",), now, SystemKeys()).to_files()
    for name in names or ("tls.crt", "tls.key"):
        (folder / name).write_bytes(files[name])


def test_a_renewed_certificate_is_taken(tmp_path: Path) -> None:
    _write(tmp_path)
    tls = ReloadingTls(CertificateFolder(tmp_path))
    context = tls.context
    assert tls.expires == NOW + timedelta(days=90)
    assert not tls.reload()
    _write(tmp_path, NOW + timedelta(days=60))
    assert tls.reload()
    assert tls.expires == NOW + timedelta(days=150)
    assert not tls.reload()
    assert tls.context is context


def _encrypted(folder: Path) -> None:
    key = SystemKeys().private_key()
    secret = serialization.BestAvailableEncryption(b"secret")
    (folder / "tls.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)
    )


@pytest.mark.parametrize(
    ("break_it", "want"),
    [
        pytest.param(
            lambda f: _write(f, NOW, "tls.crt"),
            "tls.crt and tls.key: the key is not the certificate's",
            id="half renewed",
        ),
        pytest.param(lambda f: (f / "tls.key").unlink(), "tls.key: no such file", id="no key"),
        pytest.param(
            lambda f: (f / "tls.crt").write_text("x"),
            "tls.crt and tls.key: no certificate with its key in PEM",
            id="no PEM",
        ),
        pytest.param(
            _encrypted, "tls.crt and tls.key: the key is encrypted; give one without a password", id="a password"
        ),
    ],
)
def test_a_certificate_that_cannot_be_used_changes_nothing(
    tmp_path: Path, break_it: Callable[[Path], object], want: str
) -> None:
    _write(tmp_path)
    tls = ReloadingTls(CertificateFolder(tmp_path))
    break_it(tmp_path)
    for _ in range(2):  # it is looked at again each time
        with pytest.raises(CertificateError) as caught:
            tls.reload()
        assert str(caught.value) == f"{tmp_path}/{want}"
    assert tls.expires == NOW + timedelta(days=90)
    _write(tmp_path, NOW + timedelta(days=1))
    assert tls.reload()
    assert tls.expires == NOW + timedelta(days=91)


def test_a_server_does_not_begin_without_one(tmp_path: Path) -> None:
    with pytest.raises(CertificateError) as caught:
        ReloadingTls(CertificateFolder(tmp_path))
    assert str(caught.value) == f"{tmp_path}/tls.crt: no such file"


# --- the authority's folder ---------------------------------------------------------------------------------------


def _state(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "current").iterdir()}


def test_a_folder_is_filled_and_renewed(tmp_path: Path) -> None:
    clock = [NOW]
    source = AuthorityFolder(tmp_path / "tls", ("localhost",), lambda: clock[0])
    tls = ReloadingTls(source)
    first = _state(source.folder)
    assert sorted(first) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    assert (source.folder / "current").stat().st_mode & 0o777 == 0o700
    assert {(source.folder / "current" / name).stat().st_mode & 0o777 for name in first} == {0o600}
    clock[0] += timedelta(days=59)
    assert not tls.reload()
    clock[0] += timedelta(days=1)
    assert tls.reload()
    second = _state(source.folder)
    assert {name for name in second if second[name] != first[name]} == {"tls.crt", "tls.key"}
    for _ in range(3):
        clock[0] += timedelta(days=60)
        assert tls.reload()
    assert len(list(source.folder.glob("state-*"))) == 2, "the previous state stays for who is reading it"


def test_a_folder_that_exists_is_used_again(tmp_path: Path) -> None:
    ReloadingTls(AuthorityFolder(tmp_path, ("localhost",), lambda: NOW))
    before = _state(tmp_path)
    ReloadingTls(AuthorityFolder(tmp_path, ("localhost",), lambda: NOW + timedelta(days=1)))
    assert _state(tmp_path) == before


def test_who_was_killed_while_writing_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "state-killed").mkdir()
    (tmp_path / "state-killed" / "ca.crt").write_text("half a certif")
    ReloadingTls(AuthorityFolder(tmp_path, ("localhost",), lambda: NOW))
    assert [path.name for path in tmp_path.glob("state-*")] == [(tmp_path / "current").readlink().name]


def test_what_cannot_be_read_is_not_overwritten(tmp_path: Path) -> None:
    source = AuthorityFolder(tmp_path, ("localhost",), lambda: NOW)
    ReloadingTls(source)
    (tmp_path / "current" / "ca.key").write_text("mine")
    with pytest.raises(CertificateError) as caught:
        source.refresh()
    assert str(caught.value) == f"{tmp_path}: ca.key holds no unencrypted private key in PEM"
    assert (tmp_path / "current" / "ca.key").read_text() == "mine"


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CertificateError) as caught:
        AuthorityFolder(tmp_path / "file", ("localhost",), lambda: NOW).refresh()
    assert str(caught.value) == f"{tmp_path}/file: File exists"


_FILL = """
import sys
from datetime import datetime, timezone
from pathlib import Path
from webhooks.tls.folder import AuthorityFolder
AuthorityFolder(Path(sys.argv[1]), ("localhost",), lambda: datetime(2026, 1, 1, tzinfo=timezone.utc)).refresh()
print((Path(sys.argv[1]) / "current").readlink())
"""


def test_processes_that_share_a_folder_agree(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    command = [sys.executable, "-c", _FILL, str(folder)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) for _ in range(3)]
    told = [process.communicate()[0].strip() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert told == [os.readlink(folder / "current")] * 3  # noqa: PTH115 # as the processes print it


def test_a_full_disk_leaves_the_certificate_in_service_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the renewal is tried."""
    clock = [NOW]
    tls = ReloadingTls(AuthorityFolder(tmp_path, ("localhost",), lambda: clock[0]))
    before = sorted(tmp_path.iterdir())
    writing = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if path.name == "tls.key":
            writing(path, content[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        return writing(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    expires = tls.expires
    clock[0] = expires - timedelta(hours=1)
    for _ in range(3):
        with pytest.raises(CertificateError, match="No space left on device"):
            tls.reload()
    assert (sorted(tmp_path.iterdir()), tls.expires) == (before, expires)
    monkeypatch.undo()
    assert tls.reload()
    assert tls.expires > expires
