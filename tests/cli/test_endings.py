"""How every command ends where it can't come to its own end: interrupted, its reader gone, an output that takes no
more."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
PROGRAM = str(Path(sys.executable).with_name("virt-dra"))
GPU = "examples/gpu-pci"
EXPLAIN = "examples/explain"
SCENARIO = "examples/requests/scenario.yaml"
FULL = Path("/dev/full")
LINES = ("admit", "allocate", "cel", "device-status", "domain-xml", "render")
"""Commands that answer JSON lines."""
PRINTING = [
    *(("--help",), ("--version",), ("webhook", "--help")),
    *(("run", GPU), ("run", GPU, "-o", "json"), ("run", GPU, "-o", "yaml")),
    *(("lint", "-f", GPU), ("lint", "-f", GPU, "-o", "json"), ("lint", "-f", GPU, "-o", "sarif"), ("lint", "--list")),
    *(("cel", "true"), ("cel", "true", "-f", GPU), ("cel", "true", "-f", GPU, "-o", "json")),
    *(("allocate", "-f", GPU), ("allocate", "-f", GPU, "-o", "json"), ("allocate", "-f", GPU, "-v")),
    *(
        ("install", "--dry-run", "--image", "virt-dra:0"),
        ("doctor", "--kubeconfig", "none", "-o", "json"),
        ("doctor", "--kubeconfig", "none", "-o", "yaml"),
    ),
    *((name, "--jsonl") for name in LINES),
    *(("scenario", SCENARIO), ("scenario", SCENARIO, "-o", "json")),
    *(
        ("run", GPU, "-o", "wide"),
        ("run", GPU, "-o", "name"),
        ("run", GPU, "-v"),
        ("cel", "true", "-f", GPU, "-o", "name"),
    ),
    *(("lint", "-f", GPU, "-o", "github"), ("lint", "-f", GPU, "-o", "junit")),
    *(
        ("explain", "vmi", "team-a/vm-late", "-f", EXPLAIN),
        ("explain", "vmi", "team-a/vm-late", "-f", EXPLAIN, "-o", "json"),
    ),
    *(("explain", "DeviceInUse"), ("diff", f"{EXPLAIN}/cluster.yaml", "examples/diff/after.yaml")),
    *(("topology", "-f", EXPLAIN), ("topology", "-f", EXPLAIN, "-o", "svg"), ("topology", "-f", EXPLAIN, "-o", "json")),
    *(
        ("get", "devices", "-f", EXPLAIN),
        ("get", "vms", "-f", EXPLAIN, "-o", "csv"),
        ("get", "claims", "-f", EXPLAIN, "-o", "yaml"),
    ),
    *(("describe", "vm", "vm-a", "-n", "team-a", "-f", EXPLAIN), ("completion", "bash")),
]


def _run(program: Path, *arguments: str, **given: Any) -> subprocess.CompletedProcess[bytes]:
    given = {"input": b'{"id": 1}\n', "stderr": subprocess.PIPE, "timeout": 60, **given}
    return subprocess.run([program, *arguments], cwd=ROOT, check=False, **given)


@pytest.mark.slow(seconds=0.5)
@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_an_output_that_takes_no_more_is_one_line_and_no_verdict(arguments: tuple[str, ...], program: Path) -> None:
    with FULL.open("wb") as full:
        ran = _run(program, *arguments, stdout=full)
    assert (ran.returncode, ran.stderr.decode()) == (2, "error: cannot write the output: No space left on device\n")


@pytest.mark.slow(seconds=0.5)
@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "arguments", [("nonsense",), ("lint",), ("run", "none.yaml"), ("lint", "-f", "none.yaml")], ids=" ".join
)
def test_errors_that_can_not_be_written_keep_their_exit_code(arguments: tuple[str, ...], program: Path) -> None:
    with FULL.open("wb") as full:
        assert _run(program, *arguments, stdout=subprocess.DEVNULL, stderr=full).returncode == 2


@pytest.mark.slow(seconds=0.5)
@pytest.mark.skipif(
    not Path("/proc/self/mem").exists(), reason="needs /proc/self/mem, which can't be read from its beginning"
)
@pytest.mark.parametrize("name", LINES)
def test_requests_that_can_not_be_read_are_one_line(name: str, program: Path) -> None:
    ran = _run(program, name, "--jsonl", "/proc/self/mem")
    assert (ran.returncode, ran.stdout or b"", ran.stderr.decode()) == (
        2,
        b"",
        "error: cannot read the requests: Input/output error\n",
    )


@pytest.mark.slow(seconds=0.5)
@pytest.mark.parametrize("arguments", PRINTING[::2], ids=" ".join)
def test_a_reader_that_went_away_is_no_error(arguments: tuple[str, ...], program: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = _run(program, *arguments, stdout=writing)
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (141, b"")


@pytest.mark.slow(seconds=0.5)
@pytest.mark.parametrize("closed", [0, 1, 2])
@pytest.mark.parametrize(
    "arguments", [("lint", "-f", "-"), ("admit", "--jsonl"), ("run", GPU), ("nonsense",)], ids=" ".join
)
def test_a_standard_file_that_is_closed_gives_no_traceback(arguments: tuple[str, ...], closed: int) -> None:
    shell = f'exec "$0" "$@" {closed}{"<" if closed == 0 else ">"}&-'
    ran = subprocess.run(
        ["sh", "-c", shell, PROGRAM, *arguments], cwd=ROOT, input=b"", capture_output=True, check=False, timeout=60
    )
    assert b"Traceback" not in ran.stderr
    assert ran.returncode in (0, 2)


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1"])
def test_a_locale_without_unicode_gets_what_every_other_gets(encoding: str) -> None:
    arguments = [PROGRAM, "topology", "-f", "examples/inventory"]
    runs = [
        subprocess.run(
            arguments, cwd=ROOT, env={**os.environ, "PYTHONIOENCODING": name}, capture_output=True, check=True
        )
        for name in (encoding, "utf-8")
    ]
    assert "○".encode() in runs[0].stdout
    assert runs[0].stdout == runs[1].stdout


def test_a_terminal_without_unicode_shows_question_marks() -> None:
    master, terminal = os.openpty()
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "TERM": "dumb", "COLUMNS": "120"}
    arguments = [PROGRAM, "topology", "-f", "examples/diff"]
    with os.fdopen(master, "rb", buffering=0) as shown:
        ran = subprocess.run(arguments, cwd=ROOT, env=environment, stdout=terminal, stderr=subprocess.PIPE, check=True)
        os.close(terminal)
        text = shown.read(65536)
    assert b"Traceback" not in ran.stderr
    assert text.isascii()
    assert b"? gpu-0" in text


@contextmanager
def _silent_server() -> Iterator[int]:
    """The port of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    """Of a cluster that takes connections and never answers."""
    with _silent_server() as port:
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        content = {
            "clusters": [cluster],
            "contexts": [context],
            "current-context": "c",
            "users": [{"name": "u", "user": {}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **content}), encoding="utf-8")
        yield str(path)


WAITING = [
    *(("run", "-"), ("lint", "-f", "-"), ("cel", "true", "-f", "-"), ("allocate", "-f", "-")),
    *((name, "--jsonl") for name in (*LINES, "scenario")),
    ("scenario", "-"),
    *(
        ("doctor",),
        ("doctor", "-o", "json"),
        ("lint", "--live"),
        ("install", "--image", "virt-dra:0"),
        ("uninstall", "--yes"),
    ),
]


def _started(command: list[str], *, stdin: int | None = None, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(command, cwd=ROOT, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True)


def _interrupted(arguments: tuple[str, ...]) -> tuple[int, str]:
    """Exit code and standard error of a command that gets SIGINT while it waits for input or a cluster."""
    process = _started([PROGRAM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        _wait_until_idle(process.pid)
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=30)[1]
    finally:
        process.kill()
    return process.returncode, told


def _wait_until_idle(pid: int) -> None:
    """Until the process has worked, and no longer does."""
    end, used, still = time.monotonic() + 30, -1.0, 0
    while still < 4:
        assert time.monotonic() < end
        time.sleep(0.1)
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        now = float(fields[11]) + float(fields[12])
        still, used = (still + 1 if now == used and now > 10 else 0), now


@pytest.mark.slow(seconds=0.5)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("arguments", WAITING, ids=" ".join)
def test_an_interrupt_is_one_line_and_130(arguments: tuple[str, ...], kubeconfig: str) -> None:
    asks = arguments[0] in ("doctor", "install", "uninstall") or "--live" in arguments
    assert _interrupted((*arguments, *(("--kubeconfig", kubeconfig) if asks else ()))) == (130, "error: interrupted\n")


@pytest.mark.parametrize(
    "module",
    [
        "click",
        "virt_dra.cli.main",
        "virt_dra.cli.shared.endings",
        "yaml",
        "virt_dra.cli.shared.console",
        "virt_dra.cli.lint.command",
        "pydantic",
    ],
)
def test_an_interrupt_while_the_program_loads_is_one_line_and_130(module: str) -> None:
    """Interrupted when a module begins to load: as good as at any moment of the first seconds, but always the same
    one."""
    program = f"""
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = ["lint", "-f", {GPU!r}]
from virt_dra.cli.start import main
main()
"""
    process = _started([sys.executable, "-c", program])
    out, told = process.communicate(timeout=60)
    assert (process.returncode, out, told) == (130, "", "error: interrupted\n")


def test_the_programs_start_where_interrupts_are_handled_first() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert scripts["virt-dra"] == scripts["kubectl-virt_dra"] == "virt_dra.cli.start:main"


def test_the_plugin_of_kubectl_calls_itself_so() -> None:
    plugin = Path(sys.executable).with_name("kubectl-virt_dra")
    assert subprocess.run([plugin, "--help"], capture_output=True, text=True, check=True).stdout.startswith(
        "Usage: kubectl virt-dra "
    )


_BUSY = """
import asyncio, time
from virt_dra.cli.shared.endings import interruptible, orderly

async def compute() -> None:
    print("computing", flush=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pass

with orderly(), interruptible():
    asyncio.run(compute())
"""


def test_an_interrupt_ends_what_computes_below_an_event_loop() -> None:
    process = _started([sys.executable, "-c", _BUSY])
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "computing\n"
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=20)[1]
    finally:
        process.kill()
    assert (process.returncode, told) == (130, "error: interrupted\n")
