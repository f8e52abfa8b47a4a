"""Guests that our launcher starts beside pods, with devices that are bound to vfio already; in a pod:
:mod:`.launcher_pods`."""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any, Final

from devtools.hardware_lab import probe
from devtools.hardware_lab.machine import ROOT, LabError, LabMachine

_DISK: Final = "/var/run/kubevirt-private/vmi-disks/system/disk.img"
_VIRTLOGD: Final = "/run/libvirt/virtlogd-sock"
_SECONDS: Final = 400.0
_numbers = itertools.count(1)


def launch(machine: LabMachine, *addresses: str) -> tuple[str, ...]:
    """Runs a guest with the probe to its end, with the PCI functions at these addresses; what the probe said. Raises
    :class:`~devtools.hardware_lab.machine.LabError`."""
    number = next(_numbers)
    image, info = machine.folder / f"probe{number}.img", f"/run/info{number}"
    probe.write_disk(image)
    machine.check("sh", "-c", f"mkdir -p {info} $(dirname {_DISK}) && cp {image} {_DISK}")
    machine.check("tee", f"{info}/vmi.json", stdin=json.dumps(_vmi(len(addresses))))
    if machine.run("test", "-S", _VIRTLOGD).status:
        machine.start("/usr/sbin/virtlogd", log="/run/virtlogd.log")
    launched = machine.run(
        "env", f"--chdir={ROOT}", sys.executable, "-m", "launcher.process.entry", "--info-dir", info, "--run-dir",
        f"/run/launcher{number}", "--termination-message", "/run/message", "--daemon", "/usr/sbin/libvirtd",
        environment={f"PCI_RESOURCE_EXAMPLE_ORG_DEVICE{index}": at for index, at in enumerate(addresses)},
        timeout=_SECONDS,
    )  # fmt: skip
    if launched.status != 0:
        raise LabError(f"the launcher ended with {launched.status}: {launched.err}")
    return probe.said(machine, _DISK)


def _vmi(count: int) -> dict[str, Any]:
    devices = [{"name": f"device{index}", "deviceName": f"example.org/device{index}"} for index in range(count)]
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm", "namespace": "default"},
        "spec": {
            "domain": {
                "memory": {"guest": "64Mi"},
                "devices": {"disks": [{"name": "system", "disk": {"bus": "virtio"}}], "hostDevices": devices},
            }
        },
    }
