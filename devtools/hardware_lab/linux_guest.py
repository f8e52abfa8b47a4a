"""A Linux guest that says what it sees of its VM (``tests/hardware/guest/linux-init``): the tree of PCI functions, NUMA
nodes, what NVMe controllers wrote into its memory, and the addresses of its network cards, from which it sends."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final
from xml.etree import ElementTree

from devtools.hardware_lab import plugging
from devtools.hardware_lab.machine import ROOT, LabError, LabMachine, kernel_folder
from devtools.hardware_lab.probe import SOURCES

_FOLDER: Final = "/var/lib/lab/linux"
"""Of the machine: the guest's kernel and initramfs, which QEMU reads as a user of its own."""
_SECONDS: Final = 300.0
_TAIL_LINES: Final = 30
_MODULES: Final = ("nvme", "igbvf")
_NUMA: Final = re.compile(r"numa (?P<node>\d+) cpus=(?P<cpus>\S*)")
_PCI: Final = re.compile(r"pci (?P<path>\S+) (?P<id>\S+) numa=(?P<node>-?\d+)")
_NVME: Final = re.compile(r"nvme (?P<address>\S+) serial=(?P<serial>\S*)")
_NETWORK: Final = re.compile(r"net (?P<address>\S+) mac=(?P<mac>\S+)")
_GONE: Final = "gone"
_ALL_SAID: Final = "guest has said all"
_COMMAND_LINE: Final = "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off"
_WATCH: Final = " lab.watch=1"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Function:
    """A PCI function. ``path``: its place in the tree, as ``pci0000:fd/0000:fd:00.0/0000:fe:00.0``. ``numa_node``: -1
    where the firmware says nothing."""

    path: PurePosixPath
    id: str
    numa_node: int

    @property
    def root(self) -> str:
        """The PCI root that it is below."""
        return self.path.parts[0]


@dataclass(frozen=True)
class Sight:
    """What a guest saw. ``cpus``: of each NUMA node, as Linux lists them. ``functions``: by address. ``serials``: of
    each NVMe controller that answered a command, which it does by DMA, its address by serial number. ``macs``: of
    network interfaces, by the address of their function."""

    cpus: dict[int, str]
    functions: dict[str, Function]
    serials: dict[str, str]
    macs: dict[str, str]

    def controller(self, serial: str) -> Function:
        return self.functions[self.serials[serial]]


class LinuxGuests:
    """Linux guests of libvirt's daemon in a machine. Raises :class:`~devtools.hardware_lab.machine.LabError`."""

    def __init__(self, machine: LabMachine) -> None:
        """Starts the daemon, unless it runs."""
        self._machine = machine
        initramfs = machine.folder / "linux-initramfs"
        write_initramfs(initramfs)
        copied = f"mkdir -p {_FOLDER} && cp {kernel_folder()}/vmlinux {_FOLDER} && cp {initramfs} {_FOLDER}/initramfs"
        machine.check("sh", "-c", copied)
        for daemon, socket in (("virtlogd", "virtlogd-sock"), ("libvirtd", "libvirt-sock")):
            path = f"/run/libvirt/{socket}"
            if machine.run("test", "-S", path).status:
                machine.start(f"/usr/sbin/{daemon}", log=f"/run/{daemon}.log")
            machine.wait_for(path, timeout=_SECONDS)

    def see(self, domain: str, *, by_schema: bool = True) -> Sight:
        """What a guest sees of this domain. ``by_schema``: libvirt's schema is asked about it, too; False: for domains
        with KubeVirt's ``<source><address type="pci">``, which libvirt's parser takes and its schema refuses."""
        with self.running(domain, by_schema=by_schema) as guest:
            return guest.sight()

    @contextmanager
    def running(self, domain: str, *, watches: bool = False, by_schema: bool = True) -> Iterator[LinuxGuest]:
        """A guest of this domain that has said what it sees. ``watches``: it doesn't power off then."""
        number = next(_numbers)
        console, xml = f"/run/linux{number}.console", f"/run/linux{number}.xml"
        self._machine.check("tee", xml, stdin=with_linux(domain, console, _COMMAND_LINE + _WATCH * watches))
        name = ElementTree.fromstring(domain).findtext("name", "")
        self._machine.check("virsh", "define", xml, *(["--validate"] if by_schema else []), timeout=_SECONDS)
        try:
            self._machine.check("virsh", "start", name, timeout=_SECONDS)
            guest = LinuxGuest(self._machine, name, console)
            guest.wait_for(_ALL_SAID)
            yield guest
        finally:
            self._machine.run("virsh", "destroy", name)  # if it isn't off yet
            self._machine.run("virsh", "undefine", name)


@dataclass(frozen=True)
class LinuxGuest:
    """A guest of the domain with this name. ``console``: a file of the machine. Raises
    :class:`~devtools.hardware_lab.machine.LabError`, with the end of the console where the guest takes too long."""

    machine: LabMachine
    domain: str
    console: str

    def sight(self) -> Sight:
        """What it has said until now."""
        return sight(self.machine.check("cat", self.console).splitlines())

    def wait_for(self, text: str) -> None:
        """Until it has said that."""
        try:
            self.machine.wait_for(self.console, text, timeout=2 * _SECONDS)
        except LabError as error:
            raise self._overdue(str(error)) from None

    def attach(self, alias: str, address: str) -> None:
        """Attaches the PCI function of the machine as our launcher does, and waits until the guest has seen it."""
        before = len(self.sight().functions)
        self._plug("attach", alias, address)
        deadline = time.monotonic() + _SECONDS
        while len(self.sight().functions) == before:
            if time.monotonic() > deadline:
                raise self._overdue(f"the guest hasn't seen {address} after {_SECONDS:.0f} s")
            time.sleep(0.5)

    def detach(self, alias: str) -> None:
        """Detaches it again, once the guest has released it."""
        self._plug("detach", alias)

    def _overdue(self, fault: str) -> LabError:
        console = self.machine.run("tail", "-n", str(_TAIL_LINES), self.console)
        return LabError(f"{fault}:\n{console.out or console.err}")

    def _plug(self, *arguments: str) -> None:
        program = (sys.executable, "-m", plugging.__name__, self.domain, *arguments)
        self.machine.check("env", f"--chdir={ROOT}", *program, timeout=_SECONDS)


def with_linux(domain: str, console: str, command_line: str) -> str:
    """The domain with the kernel that boots the guest, and a console that goes to a file. Pure."""
    root = ElementTree.fromstring(domain)
    system, devices = (root.find(name) for name in ("os", "devices"))
    if system is None or devices is None:
        raise LabError("a domain without <os> or <devices>")
    for name, text in (
        ("kernel", f"{_FOLDER}/vmlinux"),
        ("initrd", f"{_FOLDER}/initramfs"),
        ("cmdline", command_line),
    ):
        ElementTree.SubElement(system, name).text = text
    serial = ElementTree.SubElement(devices, "serial", type="file")
    ElementTree.SubElement(serial, "source", path=console)
    return ElementTree.tostring(root, encoding="unicode")


def sight(lines: Iterable[str]) -> Sight:
    """What a guest said on its console. Raises :class:`~devtools.hardware_lab.machine.LabError` where it didn't say all
    of it."""
    said = [line.rstrip() for line in lines]
    if _ALL_SAID not in said:
        raise LabError("\n".join(["the guest didn't say all:", *said[-_TAIL_LINES:]]))
    nodes, functions, controllers, interfaces = (
        [match for line in said if (match := pattern.fullmatch(line))] for pattern in (_NUMA, _PCI, _NVME, _NETWORK)
    )
    gone = {line.partition(" ")[2] for line in said if line.startswith(f"{_GONE} ")}
    paths = {path: line for line in functions if (path := PurePosixPath(line["path"])).name not in gone}
    return Sight(
        {int(line["node"]): line["cpus"] for line in nodes},
        {path.name: Function(path, line["id"], int(line["node"])) for path, line in paths.items()},
        {line["serial"]: line["address"] for line in controllers if line["address"] not in gone},
        {line["address"]: line["mac"] for line in interfaces},
    )


def write_initramfs(path: Path) -> None:
    """Writes the guest's only file system: the program, busybox and the lab's own modules. Needs cpio."""
    kernel = kernel_folder()
    (release,) = (folder.name for folder in (kernel / "lib" / "modules").iterdir())
    command = ["/usr/sbin/modprobe", "-d", str(kernel), "-S", release, "--all", "--show-depends", *_MODULES]
    needed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    modules = dict.fromkeys(Path(line.split()[1]) for line in needed.splitlines() if line.startswith("insmod "))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for empty in ("bin", "dev", "modules", "proc", "sys"):
            (folder / empty).mkdir()
        shutil.copy(shutil.which("busybox") or "busybox", folder / "bin" / "busybox")
        (folder / "bin" / "sh").symlink_to("busybox")
        shutil.copy(SOURCES / "linux-init", folder / "init")
        for module in modules:
            shutil.copy(module, folder / "modules")
        (folder / "modules" / "order").write_text("".join(f"{module.name}\n" for module in modules))
        files = "\n".join(str(file.relative_to(folder)) for file in sorted(folder.rglob("*")))
        with path.open("wb") as archive:
            subprocess.run(
                ["cpio", "--quiet", "-o", "-H", "newc"], cwd=folder, input=files.encode(), stdout=archive, check=True
            )
