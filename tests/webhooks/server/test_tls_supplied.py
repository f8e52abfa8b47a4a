"""A certificate kept in memory: served, replaced, and nothing of its key left on any disk, however the process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from webhooks.tls import CertificateError, ReloadingTls
from webhooks.tls_authority import SystemKeys, bootstrap
from webhooks.tls_supplied import SuppliedCertificate

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_what_is_supplied_is_served_until_something_else_is() -> None:
    one, other = (bootstrap(("localhost",), NOW + timedelta(days=days), SystemKeys()) for days in (0, 30))
    before = set(Path("/proc/self/fd").iterdir())
    with SuppliedCertificate() as supplied:
        supplied.put(one)
        tls = ReloadingTls(supplied)
        assert tls.expires == NOW + timedelta(days=90)
        assert not tls.reload()
        paths = supplied.certificate, supplied.key
        assert [path.read_bytes() for path in paths] == [one.to_files()["tls.crt"], one.to_files()["tls.key"]]
        supplied.put(one)
        assert (supplied.certificate, supplied.key) == paths
        supplied.put(other)
        assert paths[1].read_bytes() == one.to_files()["tls.key"], "who is reading it may finish"
        assert tls.reload()
        assert tls.expires == NOW + timedelta(days=120)
        for _ in range(3):
            supplied.put(one)
            supplied.put(other)
        assert len(set(Path("/proc/self/fd").iterdir()) - before) == 4, "this certificate and the one before"
        assert not os.get_inheritable(int(supplied.key.name))
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_before_there_is_one_nothing_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    supplied = SuppliedCertificate()
    with pytest.raises(CertificateError, match=r"^no tls\.crt yet: no such file$"):
        ReloadingTls(supplied)
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(CertificateError, match=r"^a certificate can be kept in memory on Linux only; elsewhere give a folder"):
        supplied.put(bootstrap(("localhost",), NOW, SystemKeys()))


_KILLED = """
import sys, time
from datetime import UTC, datetime
from webhooks.tls import ReloadingTls
from webhooks.tls_authority import SystemKeys, bootstrap
from webhooks.tls_supplied import SuppliedCertificate
supplied = SuppliedCertificate()
supplied.put(bootstrap(("localhost",), datetime.now(UTC), SystemKeys()))
tls = ReloadingTls(supplied)
print("serving", flush=True)
time.sleep(60)
"""


def test_who_is_killed_leaves_no_key(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen([sys.executable, "-c", _KILLED], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "serving\n"
        process.send_signal(signal.SIGKILL)
    assert [path.name for path in tmp_path.rglob("*")] == ["home"]
