"""libvirt as a witness: does its schema accept a domain, and does it define it?

Use the fixture ``libvirt`` (or call :func:`require`) before anything else here. QEMU's driver is asked in a daemon of
our own (:mod:`devtools.libvirt.daemon`), whose answers are the same whatever the host's ``/dev/kvm``.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import pytest
from lxml import etree

from devtools import needs
from devtools.libvirt import daemon as libvirt_daemon
from devtools.libvirt.daemon import NoDaemon, tool

TEST_DRIVER = "test:///default"
QEMU = "qemu:///system"
URIS = (TEST_DRIVER, QEMU)
SCHEMA = Path("/usr/share/libvirt/schemas/domain.rng")
TOOLS = ("virsh", "virt-xml-validate", "xmllint", "libvirtd")
PACKAGES = (
    "libvirt-daemon libvirt-daemon-driver-qemu libvirt-daemon-system "
    "libvirt-clients libvirt-dev libxml2-utils qemu-system-x86"
)
INSTALL = f"apt-get install {PACKAGES}"
_ANSWER_SECONDS = 60.0


class Refused(AssertionError):
    """libvirt or its schema does not accept the XML; the message is libvirt's."""


def require() -> None:
    """Skip the test, with one line of advice, where libvirt's tools are missing; fail it instead when CI=true."""
    needs.use("libvirt")
    missing = [name for name in TOOLS if tool(name) is None] + ([] if SCHEMA.exists() else [str(SCHEMA)])
    advice = f"{', '.join(missing)} missing: {INSTALL}" if missing else _without_daemon()
    if advice and os.environ.get("CI") == "true":
        pytest.fail(advice)
    if advice:
        pytest.skip(advice)


def require_binding() -> None:
    """The same for libvirt's Python binding, which is an optional extra."""
    if importlib.util.find_spec("libvirt") is None:
        advice = (
            "libvirt's Python binding is missing: apt-get install libvirt-dev "
            "pkg-config; pip install 'virt-dra[libvirt]'"
        )
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
        run = subprocess.run(
            [str(tool("virt-xml-validate")), str(path), "domain"], capture_output=True, text=True, check=False
        )
    if run.returncode != 0:
        raise Refused(run.stderr + xml)


def qemu_uri() -> str:
    """Where our own daemon answers for :data:`QEMU`. Raises :class:`NoDaemon`."""
    return libvirt_daemon.SHARED.uri()


def emulated(xml: str) -> str:
    """The domain as one that QEMU emulates, which its driver takes with and without KVM. Nothing else is changed."""
    domain = etree.fromstring(xml)
    if domain.get("type") == "kvm":
        domain.set("type", "qemu")
    return etree.tostring(domain, encoding="unicode")


def define(xml: str, uri: str) -> str:
    """libvirt defines the domain; answers it as completed by libvirt, and leaves nothing behind. Raises
    :class:`Refused`.

    The domain must carry a uuid, by which it is found again. QEMU's driver gets it :func:`emulated`.
    """
    name = uri
    if uri == QEMU:
        uri, xml = qemu_uri(), emulated(xml)
    uuid = etree.fromstring(xml).findtext("uuid")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "domain.xml")
        path.write_text(xml, encoding="utf-8")
        run = _virsh(uri, f"define {path}; dumpxml --inactive {uuid}; undefine {uuid}")
    if run.returncode != 0 or run.stderr.strip():
        raise Refused(f"{name}: {run.stderr}\n{xml}")
    return run.stdout


@lru_cache
def _schema() -> etree.RelaxNG:
    return etree.RelaxNG(file=str(SCHEMA))


def _virsh(uri: str, commands: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(tool("virsh")), "-q", "-c", uri, commands],
        capture_output=True,
        text=True,
        check=False,
        timeout=_ANSWER_SECONDS,
    )


def _without_daemon() -> str:
    """Why QEMU's driver can't be asked; nothing where it can."""
    try:
        qemu_uri()
    except NoDaemon as error:
        return str(error)
    return ""


def remarks() -> tuple[str, ...]:
    """What a reader of the tests' summary is to know."""
    if libvirt_daemon.SHARED.mode != "session":
        return ()
    return (
        "libvirt: no mount namespace can be made here (that takes root), so "
        "QEMU's driver was asked in a session daemon, "
        "which sees the host's /dev/kvm",
    )
