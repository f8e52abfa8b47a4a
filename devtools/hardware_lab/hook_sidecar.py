"""The hook sidecar in the lab's machine, and KubeVirt's side of it: it reads the machine's sysfs, and the metadata file
of a claim."""

from __future__ import annotations

import itertools
import json
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from devtools.hardware_lab import hook_call
from devtools.hardware_lab.machine import ROOT, LabMachine
from devtools.hardware_lab.pods import DRIVER, METADATA

_SECONDS: Final = 120.0
_numbers = itertools.count(1)


@dataclass(frozen=True)
class LabSidecar:
    """``folder``: of the machine."""

    machine: LabMachine
    folder: str

    def define_domain(self, domain: str, vmi: Mapping[str, Any]) -> tuple[str, str]:
        """What libvirt gets in place of this domain, and in place of that."""
        files = {f"{self.folder}/domain.xml": domain, f"{self.folder}/vmi.json": json.dumps(vmi)}
        for path, text in files.items():
            self.machine.check("tee", path, stdin=text)
        said = self.machine.check(
            "env", f"--chdir={ROOT}", sys.executable, "-m", hook_call.__name__, f"{self.folder}/hook.sock", *files,
            timeout=_SECONDS,
        )  # fmt: skip
        first, second = json.loads(said)
        return first, second


@contextmanager
def hook_sidecar(machine: LabMachine, claim: str, request: str, address: str) -> Iterator[LabSidecar]:
    """``address``: of the PCI function that the driver's metadata file says the claim has."""
    folder = f"/run/hook{next(_numbers)}"
    device = {
        "driver": DRIVER, "pool": "lab", "name": "device",
        "attributes": {"resource.kubernetes.io/pciBusID": {"string": address}},
    }  # fmt: skip
    document = {
        "apiVersion": "metadata.resource.k8s.io/v1alpha1", "kind": "DeviceMetadata", "metadata": {"name": claim},
        "requests": [{"name": request, "devices": [device]}],
    }  # fmt: skip
    place = f"{folder}{METADATA}/{claim}/{request}"
    machine.check("sh", "-c", f"mkdir -p {place} && ln -s /sys {folder}/sys")
    machine.check("tee", f"{place}/{DRIVER}-metadata.json", stdin=json.dumps(document))
    program = str(Path(sys.executable).with_name("virt-dra-hook"))
    log = f"{folder}/log"
    process = machine.start(program, "--socket", f"{folder}/hook.sock", "--root", folder, log=log)
    try:
        yield LabSidecar(machine, folder)
    finally:
        machine.signal(process, signal.SIGKILL)
