"""The emulated machine from outside: what it is made of, booting it, running commands in it, cutting its power."""

from __future__ import annotations

import compileall
import contextlib
import itertools
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import pytest

from devtools import needs
from devtools.cluster.supervisor import Supervisor
from devtools.hardware_lab.panics import MachinePanicked, panic

ROOT: Final = Path(__file__).parents[2]
SCRIPTS: Final = ROOT / "tools" / "hardware-lab"
ADVICE: Final = "no hardware lab: run tools/hardware-lab.sh as root on Debian, or make hardware"
HOST_FROM_INSIDE: Final = "10.0.2.2"
"""Where servers on this machine's loopback are reached from inside."""

_BOOT_SECONDS: Final = 300.0
_LOOK_SECONDS: Final = 0.5
"""How often its console is read while it is waited for."""
_TAIL_LINES: Final = 30
_PACKAGES: Final = ("devtools", "launcher", "node_driver", "virt_dra")
"""Of which programs run inside."""
_PROGRAMS: Final = ("qemu-system-x86_64", "mkfs.ext4")
_numbers = itertools.count(1)
_Said = TypeVar("_Said")


class LabError(Exception):
    """Why the machine can't do what it was asked for; the text ends with what its console said."""


@dataclass(frozen=True)
class Finished:
    """A command that ran inside. ``status``: None if it was ended by the time limit."""

    status: int | None
    out: str
    err: str


@dataclass(frozen=True)
class NumaNode:
    """One processor and this much memory."""

    memory_mib: int


@dataclass(frozen=True)
class HostBridge:
    """A further PCI root, at a NUMA node; ``bus`` is its first bus number, so the root is ``pci0000:<bus>``."""

    name: str
    bus: int
    numa_node: int


@dataclass(frozen=True)
class Card:
    """A device, as QEMU's ``-device`` takes it. ``under``: the PCI root that it has a root port of its own at, which it
    can be unplugged from; "" puts it onto the first root itself, as conventional PCI devices want. ``behind``: the name
    of the conventional bridge that it is behind, an earlier card. ``drive_mib``: size of its disk.
    ``virtual_functions``: how many an NVMe controller can have. ``wire``: a network card's, what is sent on it goes to
    the file ``<wire>.pcap`` of the machine's folder."""

    model: str
    under: str = ""
    behind: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    drive_mib: int = 0
    virtual_functions: int = 0
    wire: str = ""
    name: str = ""


@dataclass(frozen=True)
class Board:
    """All hardware. The first disk (``vda``) is there for what must outlast a reboot: ext4, at ``/var/lib/lab``."""

    nodes: tuple[NumaNode, ...] = (NumaNode(1024), NumaNode(512))
    bridges: tuple[HostBridge, ...] = ()
    cards: tuple[Card, ...] = ()
    iommu: bool = True
    further: tuple[str, ...] = ()
    """Arguments of QEMU as they are."""


def kernel_folder() -> Path:
    return _cache() / "kernel"


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "virt-dra" / "hardware-lab"


def qemu() -> list[str]:
    """The beginning of the command line of a QEMU that has igb. Its modules and firmware are named, since it would load
    those of the installed QEMU."""
    root = _cache() / "qemu" / "usr"
    if not root.exists():
        return ["qemu-system-x86_64"]
    modules = root / "lib" / "x86_64-linux-gnu" / "qemu"
    data = (str(root / "share" / name) for name in ("qemu", "seabios"))
    program = str(root / "bin" / "qemu-system-x86_64")
    return ["env", f"QEMU_MODULE_DIR={modules}", program, *(word for folder in data for word in ("-L", folder))]


def require() -> None:
    """Skip the test, with one line of advice, where the lab's ingredients are missing; with CI=true fail it."""
    needs.use("hardware")
    present = all(map(shutil.which, _PROGRAMS)) and (kernel_folder() / "complete").exists() and not os.geteuid()
    if not present:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(ADVICE)


def arguments(board: Board, folder: Path) -> list[str]:
    """QEMU's command line; sockets and disks are files of ``folder``."""
    kernel = kernel_folder()
    append = (
        # Without the timer check, which panics on a busy machine: its interrupts come too late. A kernel that failed
        # panics at once, and stays so, for its console to be read.
        "console=ttyS0 quiet oops=panic panic=0 no_timer_check mitigations=off"
        f" iommu=pt intel_iommu={'on' if board.iommu else 'off'}"
        f" lab.init={SCRIPTS}/second-init lab.python={sys.executable} lab.modules={kernel}/lib/modules"
    )
    line = [
        # With a smaller buffer it throws all translations away several times while a node runs.
        *qemu(), "-accel", "tcg,thread=multi,tb-size=1024", "-machine", "q35,kernel-irqchip=split",
        # Emulated byte by byte, "rep movsb" costs a fifth of all time where Linux takes it for fast.
        "-cpu", "max,erms=off,fsrm=off", "-nographic", "-nodefaults", "-serial", f"file:{folder}/console",
        "-smp", str(len(board.nodes)), "-m", str(sum(node.memory_mib for node in board.nodes)),
        "-kernel", str(kernel / "vmlinux"), "-initrd", str(kernel / "initramfs"), "-append", append,
        "-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
        "-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
        "-chardev", f"socket,id=port,path={folder}/port,server=on,wait=off",
        "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=port,nr=1",
        "-qmp", f"unix:{folder}/qmp,server=on,wait=off",
        "-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile=",
        "-drive", f"file={folder}/vda,if=none,id=vda,format=raw,cache=writeback", "-device", "virtio-blk-pci,drive=vda",
    ]  # fmt: skip
    if board.iommu:
        line += ["-device", "intel-iommu,intremap=on,caching-mode=on"]
    for number, node in enumerate(board.nodes):
        line += ["-object", f"memory-backend-ram,id=mem{number},size={node.memory_mib}M"]
        line += ["-numa", f"node,nodeid={number},memdev=mem{number},cpus={number}"]
    for bridge in board.bridges:
        line += ["-device", f"pxb-pcie,id={bridge.name},bus_nr={bridge.bus},numa_node={bridge.numa_node},bus=pcie.0"]
    for number, card in enumerate(board.cards, start=1):
        bus = card.behind or "pcie.0"
        if card.under:
            bus = f"port{number}"
            line += ["-device", f"pcie-root-port,id={bus},bus={card.under},chassis={number}"]
        properties = dict(card.properties)
        if card.drive_mib:
            line += ["-drive", f"file={folder}/disk{number},if=none,id=disk{number},format=raw,cache=writeback"]
            properties["drive"] = f"disk{number}"
        if card.wire:
            capture = f"filter-dump,id={card.wire}-dump,netdev={card.wire},file={folder}/{card.wire}.pcap"
            line += ["-netdev", f"hubport,id={card.wire},hubid={number}", "-object", capture]
            properties["netdev"] = card.wire
        if card.virtual_functions:
            line += ["-device", f"nvme-subsys,id=subsystem{number}"]
            count = card.virtual_functions  # each needs two queues, since it has to have one beside the admin queue
            properties |= {"subsys": f"subsystem{number}", "sriov_max_vfs": str(count)}
            properties |= {"sriov_vq_flexible": str(2 * count), "sriov_vi_flexible": str(count)}
        settings = "".join(f",{key}={value}" for key, value in properties.items())
        line += ["-device", f"{card.model},id={card.name or f'card{number}'},bus={bus}{settings}"]
    return [*line, *board.further]


class LabMachine:
    """Use as a context manager. Methods block, and raise :class:`~devtools.hardware_lab.panics.MachinePanicked` within
    a second of a panic; :meth:`run` may be called from several threads."""

    def __init__(self, board: Board, *, state_mib: int = 256) -> None:
        self.board = board
        self.folder = Path(tempfile.mkdtemp(prefix="vdl-"))
        self.boot_id = ""
        self._state_mib = state_mib
        self._supervisor = Supervisor(self.folder)
        self._pid = 0
        self._port: socket.socket | None = None
        self._reader: threading.Thread | None = None
        self._writing = threading.Lock()
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._boots: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> Self:
        for package in _PACKAGES:  # inside it takes 20 times as long
            compileall.compile_dir(ROOT / package, quiet=1)
        try:
            self._make_disk(self.folder / "vda", self._state_mib, filesystem=True)
            for number, card in enumerate(self.board.cards, start=1):
                if card.drive_mib:
                    self._make_disk(self.folder / f"disk{number}", card.drive_mib, filesystem=False)
            self.power_on()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._port is not None:
            self._port.close()
        self._supervisor.close()

    # --- power ------------------------------------------------------------------------------------------------------

    def power_on(self) -> None:
        """Starts it and waits until commands can be run. Raises :class:`LabError`."""
        for name in ("port", "qmp"):
            (self.folder / name).unlink(missing_ok=True)
        self._pid = self._supervisor.start(arguments(self.board, self.folder), self.folder / "qemu.log")
        self._port = self._connected("port")
        self._boots = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(self._port, self._boots), daemon=True)
        self._reader.start()
        self._await_boot()

    def cut_power(self) -> None:
        """Kills QEMU: what the machine hasn't written to its disks is lost."""
        self._supervisor.end(self._pid)
        if self._port is not None:
            self._port.close()

    def reboot(self) -> None:
        """Restarts it in order, and waits until commands can be run again."""
        self._send({"id": next(_numbers), "power": "reboot"})
        self._await_boot()

    def monitor(self, command: str, **values: object) -> Any:
        """A command of QEMU's machine protocol, as ``monitor("device_del", id="card1")``. Raises :class:`LabError`."""
        with contextlib.closing(self._connected("qmp")) as connection, connection.makefile("rwb") as lines:
            lines.readline()
            for message in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": values}):
                lines.write(json.dumps(message).encode() + b"\n")
                lines.flush()
                answer = json.loads(lines.readline())
                while "event" in answer:
                    answer = json.loads(lines.readline())
                if "error" in answer:
                    raise LabError(f"{command}: {answer['error']['desc']}")
        return answer["return"]

    def addresses(self) -> dict[str, str]:
        """Name of each card that is plugged in -> its PCI address inside."""
        addresses: dict[str, str] = {}
        pending = [device for bus in self.monitor("query-pci") for device in bus["devices"]]
        while pending:
            device = pending.pop()
            pending += device.get("pci_bridge", {}).get("devices", ())
            address = f"0000:{device['bus']:02x}:{device['slot']:02x}.{device['function']:x}"
            addresses[device["qdev_id"]] = address
        return addresses

    # --- commands ---------------------------------------------------------------------------------------------------

    def run(
        self, *argv: str, stdin: str = "", timeout: float = 60.0, environment: Mapping[str, str] | None = None
    ) -> Finished:
        """Runs a program inside to its end, whatever its status."""
        command = {"run": argv, "stdin": stdin, "timeout": timeout, "environment": environment or {}}
        answer = self._ask(command, timeout + 30)
        return Finished(answer["status"], answer["out"], answer["err"])

    def check(self, *argv: str, stdin: str = "", timeout: float = 60.0) -> str:
        """What a program inside printed. Raises :class:`LabError` unless it ended with 0."""
        finished = self.run(*argv, stdin=stdin, timeout=timeout)
        if finished.status:
            raise LabError(f"{' '.join(argv)} ended with {finished.status}: {finished.err or finished.out}")
        if finished.status is None:
            raise LabError(f"{' '.join(argv)} took more than {timeout} s: {finished.err or finished.out}")
        return finished.out

    def start(self, *argv: str, log: str, environment: Mapping[str, str] | None = None) -> int:
        """Starts a program inside that goes on; the process id there. ``log``: a path there."""
        answer = self._ask({"start": argv, "log": log, "environment": environment or {}}, 30.0)
        return int(answer["pid"])

    def signal(self, pid: int, number: int = signal.SIGTERM) -> int | None:
        """Signals a program that :meth:`start` started; its status if it has ended."""
        status = self._ask({"signal": number, "pid": pid}, 30.0)["status"]
        return None if status is None else int(status)

    def wait_for(self, path: str, text: str = "", *, timeout: float) -> None:
        """Waits for a file inside, which is there with the text in it. Raises :class:`LabError`."""
        if not self._ask({"wait": path, "text": text, "timeout": timeout}, timeout + 30)["came"]:
            missing = f"{path} hasn't said {text!r}" if text else f"{path} isn't there"
            raise LabError(f"{missing} after {timeout:.0f} s")

    # --- inside -----------------------------------------------------------------------------------------------------

    def _ask(self, command: Mapping[str, object], seconds: float) -> dict[str, Any]:
        number = next(_numbers)
        answers = self._answers[number] = queue.Queue()
        try:
            self._send({"id": number, **command})
            answer = self._awaited(answers, seconds, f"no answer within {seconds:.0f} s to {command}")
        finally:
            del self._answers[number]
        if "error" in answer:
            raise LabError(answer["error"])
        return answer

    def _send(self, message: Mapping[str, object]) -> None:
        if self._port is None:
            raise LabError("the machine is off")
        with self._writing:
            self._port.sendall(json.dumps(message).encode() + b"\n")

    def _read(self, port: socket.socket, boots: queue.Queue[str]) -> None:
        with contextlib.suppress(OSError), port.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                if "boot" in message:
                    boots.put(message["boot"])
                elif (answers := self._answers.get(message["id"])) is not None:
                    answers.put(message)

    def _await_boot(self) -> None:
        self.boot_id = self._awaited(self._boots, _BOOT_SECONDS, f"not up within {_BOOT_SECONDS:.0f} s")

    def _awaited(self, queued: queue.Queue[_Said], seconds: float, overdue: str) -> _Said:
        """What the machine says next there. Raises :class:`LabError` where it is overdue, or can't come any more."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                return queued.get(timeout=_LOOK_SECONDS)
            self.check_running()
        raise self._failed(overdue)

    def check_running(self) -> None:
        """For loops that wait for what the machine does. Raises :class:`LabError` if QEMU has ended,
        :class:`~devtools.hardware_lab.panics.MachinePanicked` if its kernel is at an end."""
        if said := panic((self.folder / "console").read_text(encoding="utf-8", errors="replace")):
            raise MachinePanicked(said)
        if self._reader is None or not self._reader.is_alive():
            raise self._failed("QEMU has ended")

    def _connected(self, name: str) -> socket.socket:
        deadline = time.monotonic() + 30.0
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(str(self.folder / name))
            except OSError:
                connection.close()
                if time.monotonic() > deadline or self._supervisor.status(self._pid) is not None:
                    raise self._failed(f"no socket {name}") from None
                time.sleep(0.05)
            else:
                return connection

    def _failed(self, text: str) -> LabError:
        said = [text]
        for name in ("qemu.log", "console"):
            with contextlib.suppress(OSError):
                lines = (self.folder / name).read_text(encoding="utf-8", errors="replace").splitlines()
                said += [f"{name}: {line}" for line in lines[-_TAIL_LINES:]]
        return LabError("\n".join(said))

    @staticmethod
    def _make_disk(path: Path, mib: int, *, filesystem: bool) -> None:
        with path.open("wb") as disk:
            disk.truncate(mib << 20)
        if filesystem:
            subprocess.run(["mkfs.ext4", "-q", "-F", str(path)], check=True, capture_output=True)
