"""A domain that our launcher makes, started by libvirt on a machine with an IOMMU: the guest uses the device."""

from __future__ import annotations

import json
import sys

import pytest

from devtools.hardware_lab import probe
from devtools.hardware_lab.machine import ROOT, LabMachine

pytestmark = pytest.mark.hardware

EDU = "1234:11e8"
VMI = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "metadata": {"name": "vm", "namespace": "default"},
    "spec": {
        "domain": {
            "memory": {"guest": "64Mi"},
            "devices": {
                "disks": [{"name": "system", "disk": {"bus": "virtio"}}],
                "hostDevices": [{"name": "edu", "deviceName": "example.org/edu"}],
            },
        }
    },
}
DISK = "/var/run/kubevirt-private/vmi-disks/system/disk.img"


def test_a_guest_of_our_launcher_does_dma_with_its_device(machine: LabMachine) -> None:
    probe.write_disk(machine.folder / "probe.img")
    address = _bound_to_vfio(machine, EDU)
    machine.check("sh", "-c", f"mkdir -p /run/info $(dirname {DISK}) && cp {machine.folder}/probe.img {DISK}")
    machine.check("tee", "/run/info/vmi.json", stdin=json.dumps(VMI))
    machine.start("/usr/sbin/virtlogd", log="/run/virtlogd.log")
    launched = machine.run(
        "env", f"--chdir={ROOT}", sys.executable, "-m", "launcher.entry", "--info-dir", "/run/info", "--run-dir",
        "/run/launcher", "--termination-message", "/run/message", "--daemon", "/usr/sbin/libvirtd",
        environment={"PCI_RESOURCE_EXAMPLE_ORG_EDU": address}, timeout=400,
    )  # fmt: skip
    assert launched.status == 0, launched.err
    lines = probe.said(machine, DISK)
    assert (lines[0], lines[-1]) == ("probe begins", "probe ends")
    (used,) = [line for line in lines if line.startswith("edu ")]
    assert used.split()[2:] == ["id=ok", "invert=ok", "dma=ok"]


def _bound_to_vfio(machine: LabMachine, ids: str) -> str:
    """The address of the only function with these ids, after it was bound to vfio-pci as an administrator does."""
    vendor, device = ids.split(":")
    script = f"""
        modprobe vfio-pci
        for function in /sys/bus/pci/devices/*; do
          if [ "$(cat $function/vendor) $(cat $function/device)" = "0x{vendor} 0x{device}" ]; then
            echo vfio-pci > $function/driver_override
            basename $function | tee /sys/bus/pci/drivers_probe
          fi
        done"""
    return machine.check("sh", "-c", script).strip()
