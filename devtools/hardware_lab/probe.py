"""A VM's disk with nothing but a probe of PCI devices (``tests/hardware/guest``), and what it said afterwards."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Final

from devtools.hardware_lab.machine import ROOT, LabMachine

SOURCES: Final = ROOT / "tests" / "hardware" / "guest"
_SAID_AT, _SAID_SECTORS, _SECTOR = 2048, 32, 512
_DISK_BYTES: Final = 2 << 20


def write_disk(path: Path) -> None:
    """Compiles the probe and writes the disk. Needs gcc."""
    with tempfile.TemporaryDirectory() as folder:
        boot, probe, image = (f"{folder}/{name}" for name in ("boot.o", "probe.o", "probe"))
        freestanding = ("-ffreestanding", "-fno-pic", "-fno-stack-protector", "-O1", "-Wall", "-Wextra", "-Werror")
        for command in (
            ("gcc", "-m32", "-c", "-o", boot, str(SOURCES / "boot.S")),
            ("gcc", "-m32", *freestanding, "-c", "-o", probe, str(SOURCES / "probe.c")),
            ("ld", "-m", "elf_i386", "--oformat", "binary", "-Ttext", "0x7c00", "-o", f"{image}.boot", boot),
            ("ld", "-m", "elf_i386", "-T", str(SOURCES / "image.ld"), "-o", image, probe),
        ):
            subprocess.run(command, check=True, capture_output=True)
        content = Path(f"{image}.boot").read_bytes() + Path(image).read_bytes()
    if len(content) > _SAID_AT * _SECTOR:
        raise ValueError("the probe doesn't fit before the sectors that take what it says")
    path.write_bytes(content.ljust(_DISK_BYTES, b"\0"))


def said(machine: LabMachine, disk: str) -> tuple[str, ...]:
    """The lines that the probe wrote onto its disk, a file inside of the machine."""
    script = f"dd if={disk} bs={_SECTOR} skip={_SAID_AT} count={_SAID_SECTORS} status=none | tr -d '\\0'"
    return tuple(line.rstrip() for line in machine.check("sh", "-c", script).splitlines())
