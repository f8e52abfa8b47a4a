"""libvirt as a witness: does its schema accept a domain, and does it define it?

Use the fixture ``libvirt`` (or call :func:`require`) before anything else here.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from functools import lru_cache
from pathlib import Path

import pytest
from lxml import etree

TEST_DRIVER = "test:///default"
QEMU = "qemu:///system"
URIS = (TEST_DRIVER, QEMU)
SCHEMA = Path("/usr/share/libvirt/schemas/domain.rng")
TOOLS = ("virsh", "virt-xml-validate", "xmllint", "libvirtd")
PACKAGES = "libvirt-daemon libvirt-daemon-driver-qemu libvirt-daemon-system libvirt-clients libvirt-dev libxml2-utils qemu-system-x86"
INSTALL = f"apt-get install {PACKAGES}"
_START_SECONDS = 20.0
_ANSWER_SECONDS = 180.0
"""Where QEMU may not use /dev/kvm, libvirt asks it for its capabilities again and again, about 50 s a time."""
# A daemon of ours ends by itself when nobody has used it for so long; so parallel test processes can share one.
_IDLE_SECONDS = 30


class Refused(AssertionError):
    """libvirt or its schema does not accept the XML; the message is libvirt's."""


def require() -> None:
    """Skip the test, with one line of advice, where libvirt's tools are missing; fail it instead when CI=true."""
    missing = [tool for tool in TOOLS if _tool(tool) is None] + ([] if SCHEMA.exists() else [str(SCHEMA)])
    advice = f"{', '.join(missing)} missing: {INSTALL}" if missing else _start_daemon()
    if advice and os.environ.get("CI") == "true":
        pytest.fail(advice)
    if advice:
        pytest.skip(advice)


def require_binding() -> None:
    """The same for libvirt's Python binding, which is an extra of ours."""
    if importlib.util.find_spec("libvirt") is None:
        advice = "libvirt's Python binding is missing: apt-get install libvirt-dev pkg-config; pip install 'virt-dra[libvirt]'"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(advice)


def validate(xml: str) -> None:
    """The domain satisfies libvirt's RNG schema. Raises :class:`Refused`."""
    schema = _schema()
    if not schema.validate(etree.fromstring(xml)):
        raise Refused(f"{schema.error_log}\n{xml}")


def validate_with_tool(xml: str) -> None:
    """The same by ``virt-xml-validate``, which also guesses the kind of document. Raises :class:`Refused`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "domain.xml")
        path.write_text(xml, encoding="utf-8")
        run = subprocess.run([str(_tool("virt-xml-validate")), str(path), "domain"], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise Refused(run.stderr + xml)


def define(xml: str, uri: str) -> str:
    """libvirt defines the domain; answers it as completed by libvirt, and leaves nothing behind. Raises :class:`Refused`.

    The domain must carry a uuid, by which it is found again.
    """
    if uri == QEMU:
        advice = _start_daemon()
        assert not advice, advice
    uuid = etree.fromstring(xml).findtext("uuid")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "domain.xml")
        path.write_text(xml, encoding="utf-8")
        run = _virsh(uri, f"define {path}; dumpxml --inactive {uuid}; undefine {uuid}")
    if run.returncode != 0 or run.stderr.strip():
        raise Refused(f"{uri}: {run.stderr}\n{xml}")
    return run.stdout


@lru_cache
def _schema() -> etree.RelaxNG:
    return etree.RelaxNG(file=str(SCHEMA))


def _tool(name: str) -> str | None:
    """Daemons live in folders that are not on every user's path."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin")))


def _virsh(uri: str, commands: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(_tool("virsh")), "-q", "-c", uri, commands], capture_output=True, text=True, check=False, timeout=_ANSWER_SECONDS
    )


def _start_daemon() -> str:
    """Start libvirtd unless one answers. Answers advice if that does not succeed, else nothing. It works without systemd."""
    if _virsh(QEMU, "uri").returncode == 0:
        return ""
    started = subprocess.run(
        [str(_tool("libvirtd")), "--daemon", "--timeout", str(_IDLE_SECONDS)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    last = ""
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        run = _virsh(QEMU, "uri")
        if run.returncode == 0:
            return ""
        last = run.stderr.strip()
        time.sleep(0.1)
    failed = f"libvirtd (exit {started.returncode}) could not be started"
    return f"no libvirt daemon answers on {QEMU}, and {failed}; run as root: libvirtd -d ({last})"
