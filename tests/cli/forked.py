"""The command line in processes that are forked from one that has imported it: with files, a folder, an environment and
an exit code of their own, and without a second of imports each.

A caller sends the process that is forked its three standard files, its arguments, folder and environment.
"""

from __future__ import annotations

import gc
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from virt_dra.cli.main import SUBCOMMANDS, cli
from virt_dra.cli.start import main

ROOT = Path(__file__).parent.parent.parent

_CALLER = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as forked:
    forked.connect({place!r})
    request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(forked, [len(request).to_bytes(4, "big")], [0, 1, 2])
    forked.sendall(request)
    (code,) = forked.recv(1)  # fails where the process has ended without one
sys.exit(code)
"""


@contextmanager
def forked_program(folder: Path) -> Iterator[Path]:
    """An executable ``virt-dra`` below the folder that behaves as the installed one does."""
    place, caller, program = folder / "socket", folder / "caller.py", folder / "bin" / "virt-dra"
    caller.write_text(_CALLER.format(place=str(place)), encoding="utf-8")
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S {shlex.quote(str(caller))} "$0" "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    command = [sys.executable, "-c", "from tests.cli.forked import serve; serve()", str(place)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield program
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def serve() -> None:
    """The process that is forked: imports all commands, then runs the program in a fork for each caller."""
    for name in SUBCOMMANDS:
        cli.get_command(click.Context(cli), name)
    gc.collect()
    gc.freeze()  # a collection in a child would copy all of it
    _answer_callers(sys.argv[1])
    main()


def _answer_callers(place: str) -> None:
    """Forks a process for each caller, in which alone it returns."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen()
        print("ready", flush=True)  # noqa: T201 - to the process that started it
        while True:
            caller, _ = listening.accept()
            with caller, suppress(ChildProcessError):
                if os.fork() == 0 and _forked(caller):  # while it runs, the next caller is answered: they may be a pipe
                    return
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _forked(caller: socket.socket) -> bool:
    """True in the process that is the program; the one that waits for it, to send its exit code, ends here."""
    head, files, _, _ = socket.recv_fds(caller, 4, 3)
    request = b""
    while len(request) < int.from_bytes(head, "big"):
        request += caller.recv(1 << 16)
    program = os.fork()
    if program == 0:
        _take_place_of_caller(json.loads(request), files)
        return True
    for file in files:
        os.close(file)
    _, status = os.waitpid(program, 0)
    with suppress(BrokenPipeError):
        caller.sendall(bytes([os.waitstatus_to_exitcode(status) % 256]))
    os._exit(0)


def _take_place_of_caller(request: list[Any], files: list[int]) -> None:
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.argv, folder, environment = request
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
