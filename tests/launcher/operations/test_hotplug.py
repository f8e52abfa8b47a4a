"""Attaching and detaching devices of a running domain, GPUs among them, where KubeVirt has NICs only (K-8.10): in
order, and undone as a whole when a step fails."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

import pytest
from lxml import etree

from devtools.libvirt import witness as libvirt_witness
from devtools.libvirt.daemon import Daemon
from launcher import convert
from launcher.elements.hostdev import Hostdev, at_guest_address, mdev, pci, usb
from launcher.elements.page import compact
from launcher.errors import DUPLICATE_ADDRESS, LIBVIRT_REFUSED, LauncherError
from launcher.host_addresses.mdev import MdevUuid
from launcher.host_addresses.pci import PciAddress
from launcher.host_addresses.usb import UsbAddress
from launcher.operations import attach, detach
from launcher.operations.hotplug import NOT_ATTACHED, NOT_RELEASED, NOT_ROLLED_BACK, Patience, attach_all
from launcher.operations.obstacles import Obstacle, obstacles
from launcher.process import libvirt_conn

UUID = "aaaaaaaa-0000-4000-8000-000000000001"
PORTS = "".join(f'<controller type="pci" index="{index}" model="pcie-root-port"/>' for index in (1, 2, 10))
ROOT = '<controller type="pci" index="0" model="pcie-root"/>'
PRESENT = """<hostdev type="pci"><source><address domain="0" bus="0x40" slot="0" function="0x0"/></source>
 <alias name="ua-gpu-present"/><address type="pci" domain="0x0000" bus="0x0a" slot="0x00" function="0x0"/></hostdev>"""


def live(devices: str = ROOT + PORTS + PRESENT) -> str:
    return f"<domain><devices>{devices}</devices></domain>"


def function(name: str, address: str = "0000:41:00.0") -> Hostdev:
    return pci(PciAddress.parse(address), f"gpu-{name}")


def at(device: Hostdev, address: str) -> Hostdev:
    return at_guest_address(device, PciAddress.parse(address))


A, B, C = function("a"), function("b", "0000:42:00.0"), function("c", "0000:43:00.0")
VGPU, STICK = mdev(MdevUuid(UUID), "gpu-v"), usb(UsbAddress("1", "3"), "usb-host-s")


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ([A, VGPU], []),
        ([at(A, "0000:01:00.0"), at(B, "0000:02:00.0")], []),
        ([STICK, A, B], []),
        ([A, B, C], ["NoFreePort ua-gpu-c: 3 root ports are needed, 2 of the domain's 3 are free; define the domain "
                     "with spare root ports"]),
        ([at(A, "0000:01:00.0"), B, C], ["NoFreePort ua-gpu-c: 2 root ports are needed, 1 of the domain's 3 are free; "
                                         "define the domain with spare root ports"]),
        ([at(A, "0000:0a:00.0")], ["AddressTaken ua-gpu-a: ua-gpu-a: guest address 0000:0a:00.0 is taken"]),
        ([at(A, "0000:01:00.0"), at(B, "0000:01:00.1")],
         ["NotFunction0 ua-gpu-b: ua-gpu-b: libvirt attaches only function 0 of a guest slot to a running guest"]),
        ([function("present")],
         ["DuplicateAlias ua-gpu-present: ua-gpu-present: the domain has a device of this alias"]),
        ([A, function("a", "0000:42:00.0")],
         ["DuplicateAlias ua-gpu-a: ua-gpu-a: the domain has a device of this alias"]),
        ([function("x", "0000:40:00.0")], ["DuplicateAddress ua-gpu-x: ua-gpu-x: the domain has this host device"]),
        ([replace(A, alias=None)], ["NoAlias : a device needs an alias that begins with 'ua-', not ''"]),
        ([VGPU.shown(ramfb=True)], [
            "NotHotpluggable ua-gpu-v: ua-gpu-v: a device with ramfb can't be attached to a running guest; attach it "
            "without",
            "NoGraphics ua-gpu-v: ua-gpu-v: a device with a display needs a domain with graphics"]),
    ],
)  # fmt: skip
def test_what_can_not_be_attached_is_said_before_anything_is_done(devices: list[Hostdev], said: list[str]) -> None:
    assert [_said(obstacle) for obstacle in obstacles(etree.fromstring(live()), devices)] == said


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
def test_a_domain_with_spare_ports_has_room_for_devices_that_come_later() -> None:
    """As libvirt's QEMU driver completes it: devices of its own (USB, memory balloon) and a virtio disk take others, a
    CD-ROM on SATA none."""
    drives = [{"name": "system", "disk": {"bus": "virtio"}}, {"name": "installer", "cdrom": {"bus": "sata"}}]
    vmi = {
        "kind": "VirtualMachineInstance", "metadata": {"name": "vm"}, "spec": {"domain": {"devices": {"disks": drives}}}
    }  # fmt: skip
    domains = (convert(vmi, spare_ports=spare).domain_xml for spare in (1, 2))
    completed = [libvirt_witness.define(xml, libvirt_witness.QEMU) for xml in domains]
    said = [[_said(obstacle) for obstacle in obstacles(etree.fromstring(xml), [A, B])] for xml in completed]
    message = "2 root ports are needed, 1 of the domain's 4 are free; define the domain with spare root ports"
    assert said == [[f"NoFreePort ua-gpu-b: {message}"], []]


def test_a_machine_without_pcie_has_no_ports_to_run_out_of() -> None:
    domain = etree.fromstring(live('<controller type="pci" index="0" model="pci-root"/>'))
    assert list(obstacles(domain, [A, B, C])) == []


def test_a_device_with_a_display_needs_graphics() -> None:
    domain = etree.fromstring(live(ROOT + PORTS + '<graphics type="vnc"/>'))
    assert list(obstacles(domain, [VGPU.shown(ramfb=False)])) == []


class Domain:
    """A domain in memory. ``refuses``: aliases that can't be attached; ``holds``: those that the guest keeps;
    ``loses_answers``: a refused device is attached all the same."""

    def __init__(self, refuses: Sequence[str] = (), holds: Sequence[str] = (), loses_answers: bool = False) -> None:
        self.refuses, self.holds, self.loses_answers = set(refuses), set(holds), loses_answers
        self.steps: list[str] = []
        self.live, self.stored = {"ua-gpu-present": PRESENT}, {"ua-gpu-present": PRESENT}

    def xml(self) -> str:
        return live(ROOT + PORTS + "".join(self.live.values()))

    def attach(self, xml: str) -> None:
        (alias,) = re.findall(r'<alias name="(.*?)"', xml)
        self.steps.append(f"attach {alias}")
        if alias not in self.refuses or self.loses_answers:
            self.live[alias] = self.stored[alias] = xml
        if alias in self.refuses:
            raise LauncherError(LIBVIRT_REFUSED, "", f"no {alias}")

    def request_detach(self, alias: str) -> None:
        self.steps.append(f"detach {alias}")
        if alias not in self.holds:
            del self.live[alias]

    def forget(self, alias: str) -> None:
        self.steps.append(f"forget {alias}")
        del self.stored[alias]

    def aliases(self) -> tuple[list[str], list[str]]:
        """Those of the live and of the stored domain."""
        return list(self.live), list(self.stored)


class Clock:
    """Time that passes by pauses alone."""

    def __init__(self) -> None:
        self.time = 0.0

    def patience(self, seconds: float) -> Patience:
        return Patience(seconds, lambda: self.time, self._pause)

    def _pause(self, seconds: float) -> None:
        self.time += seconds


OWN = ["ua-gpu-present"]
WITH_TWO = ["ua-gpu-present", "ua-gpu-a", "ua-gpu-b"]


def test_devices_are_attached_in_order_and_detached_once_released() -> None:
    domain = Domain()
    attach(domain, [A, B])
    assert domain.aliases() == (WITH_TWO, WITH_TWO)
    detach(domain, ["ua-gpu-b", "ua-gpu-a"])
    assert domain.aliases() == (OWN, OWN)
    assert domain.steps == [
        "attach ua-gpu-a", "attach ua-gpu-b",
        "detach ua-gpu-b", "forget ua-gpu-b", "detach ua-gpu-a", "forget ua-gpu-a",
    ]  # fmt: skip


@pytest.mark.parametrize("loses_answers", [False, True])
def test_a_refusal_takes_back_what_was_attached(loses_answers: bool) -> None:
    """Also the device itself where only the answer was lost."""
    domain = Domain(refuses=["ua-gpu-b"], loses_answers=loses_answers)
    before = domain.xml()
    with pytest.raises(LauncherError, match=r"^no ua-gpu-b$"):
        attach(domain, [A, B])
    assert (domain.xml(), domain.aliases()) == (before, (OWN, OWN))


CHANNEL = '<channel type="unix"><target state="{}"/><alias name="channel0"/></channel>'


@pytest.mark.parametrize(
    ("later", "reason"), [({"channel0": CHANNEL.format("connected")}, LIBVIRT_REFUSED), ({}, NOT_ROLLED_BACK)]
)
def test_what_a_guest_changes_meanwhile_is_no_difference(later: dict[str, str], reason: str) -> None:
    """As the state of an agent's channel; a device that is gone is one."""

    class Busy(Domain):
        def attach(self, xml: str) -> None:
            del self.live["channel0"]
            self.live |= later
            super().attach(xml)

    domain = Busy(refuses=["ua-gpu-a"])
    domain.live["channel0"] = CHANNEL.format("disconnected")
    with pytest.raises(LauncherError) as refusal:
        attach(domain, [A])
    assert refusal.value.reason == reason


def test_an_obstacle_leaves_the_domain_alone() -> None:
    domain = Domain()
    with pytest.raises(LauncherError) as refusal:
        attach(domain, [A, function("x", "0000:40:00.0")])
    assert (refusal.value.reason, refusal.value.subject, domain.steps) == (DUPLICATE_ADDRESS, "ua-gpu-x", [])


def test_a_refusal_that_can_not_be_undone_says_both() -> None:
    domain, clock = Domain(refuses=["ua-gpu-b"], holds=["ua-gpu-a"]), Clock()
    with pytest.raises(LauncherError) as refusal:
        attach(domain, [A, B], clock.patience(2))
    message = "no ua-gpu-b; undoing it failed: ua-gpu-a: the guest didn't release the device within 2 s"
    assert (refusal.value.reason, refusal.value.subject, str(refusal.value)) == (NOT_ROLLED_BACK, "ua-gpu-a", message)


def test_a_guest_that_keeps_a_device_gets_the_others_back_where_they_were() -> None:
    domain, clock = Domain(holds=["ua-gpu-b"]), Clock()
    attach(domain, [at(A, "0000:02:00.0"), B])
    before = dict(domain.live)
    with pytest.raises(LauncherError) as refusal:
        detach(domain, ["ua-gpu-a", "ua-gpu-b"], clock.patience(5))
    assert (refusal.value.reason, refusal.value.subject) == (NOT_RELEASED, "ua-gpu-b")
    assert str(refusal.value) == "ua-gpu-b: the guest didn't release the device within 5 s"
    assert (domain.live, domain.stored) == (before, before)
    assert 5 <= clock.time < 5.2


def test_a_device_that_the_domain_lacks_can_not_be_detached() -> None:
    domain = Domain()
    attach(domain, [A])
    with pytest.raises(LauncherError) as refusal:
        detach(domain, ["ua-gpu-a", "ua-gpu-z"])
    assert (refusal.value.reason, refusal.value.subject, domain.steps) == (
        NOT_ATTACHED,
        "ua-gpu-z",
        ["attach ua-gpu-a"],
    )


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
def test_libvirt_undoes_what_it_attached_before_it_refused() -> None:
    """QEMU without a guest's system: a USB tablet is released at once, a PCI device never; host devices are absent."""
    libvirt_witness.require_binding()
    vmi = {
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "hotplug"},
        "spec": {"domain": {"memory": {"guest": "64Mi"}, "devices": {}}},
    }
    tablet = '<input type="tablet" bus="usb"><alias name="ua-tablet"/></input>'
    absent = compact(usb(UsbAddress("99", "99"), "usb-host-absent"))
    xml, patience = libvirt_witness.emulated(convert(vmi).domain_xml), Patience(20)
    with closing(Daemon("session")) as daemon, libvirt_conn.started(xml, uri := daemon.uri()) as guest:
        before = guest.xml()
        with pytest.raises(LauncherError) as refusal:
            attach_all(guest, {"ua-tablet": tablet, "ua-usb-host-absent": absent}, patience)
        assert (refusal.value.reason, guest.xml()) == (LIBVIRT_REFUSED, before)
        attach_all(guest, {"ua-tablet": tablet}, patience)
        with libvirt_conn.running("default_hotplug", uri) as same:
            assert 'name="ua-tablet"' in same.xml().replace("'", '"')
            detach(same, ["ua-tablet"], patience)
        assert guest.xml() == before
        random = '<rng model="virtio"><backend model="random">/dev/urandom</backend>{}</rng>'
        with pytest.raises(LauncherError, match="function=0"):
            guest.attach(random.format('<address type="pci" bus="0x00" slot="0x08" function="0x1"/>'))


def _said(obstacle: Obstacle) -> str:
    return f"{obstacle.reason} {obstacle.subject}: {obstacle.message}"
