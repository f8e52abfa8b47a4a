"""The connection to libvirt without libvirt: what is opened is closed, and every refusal is told as ours."""

from __future__ import annotations

import sys

import pytest
from pytest_mock import MockerFixture, MockType

from launcher.errors import LIBVIRT_REFUSED, LIBVIRT_UNAVAILABLE, LauncherError
from tests.launcher.libvirt_domains import define


class LibvirtError(Exception):
    """Stands for libvirt.libvirtError."""


@pytest.fixture
def libvirt(mocker: MockerFixture) -> MockType:
    binding: MockType = mocker.MagicMock(libvirtError=LibvirtError)
    mocker.patch.dict(sys.modules, {"libvirt": binding})
    return binding


@pytest.mark.libvirt
def test_a_domain_is_defined_and_the_connection_closed(libvirt: MockType) -> None:
    libvirt.open.return_value.defineXML.return_value.UUIDString.return_value = "u"
    assert define("<domain/>", "test:///default") == "u"
    libvirt.open.assert_called_once_with("test:///default")
    libvirt.open.return_value.defineXML.assert_called_once_with("<domain/>")
    libvirt.open.return_value.close.assert_called_once_with()


@pytest.mark.libvirt
def test_a_refusal_is_told_and_the_connection_closed(libvirt: MockType) -> None:
    libvirt.open.return_value.defineXML.side_effect = LibvirtError("XML error: no name")
    with pytest.raises(LauncherError) as refusal:
        define("<domain/>", "test:///default")
    assert (refusal.value.reason, str(refusal.value)) == (LIBVIRT_REFUSED, "test:///default: XML error: no name")
    libvirt.open.return_value.close.assert_called_once_with()


@pytest.mark.libvirt
def test_a_daemon_that_does_not_answer_is_told_with_a_question(libvirt: MockType) -> None:
    libvirt.open.side_effect = LibvirtError("Failed to connect socket")
    with pytest.raises(LauncherError) as refusal:
        define("<domain/>", "qemu:///system")
    assert refusal.value.reason == LIBVIRT_UNAVAILABLE
    assert str(refusal.value) == "qemu:///system: Failed to connect socket; is the libvirt daemon running?"


def test_a_missing_binding_is_told_with_the_way_to_get_it(mocker: MockerFixture) -> None:
    mocker.patch.dict(sys.modules, {"libvirt": None})
    with pytest.raises(LauncherError) as refusal:
        define("<domain/>", "test:///default")
    assert refusal.value.reason == LIBVIRT_UNAVAILABLE
    assert str(refusal.value).endswith("install it with: pip install 'virt-dra[libvirt]'")
