"""Inside the emulated machine: process 1, and its child, which runs commands that come over a virtio port.

A line of JSON in, a line of JSON out, each with the ``id`` of its command: ``{"run": argv, "stdin": text, "timeout":
s}`` -> ``{"status": n, "out": text, "err": text}`` (status None after the timeout); ``{"start": argv, "log": path}`` ->
``{"pid": n}``; ``{"signal": n, "pid": n}`` -> ``{"status": n | None}``; ``{"wait": path, "text": text, "timeout": s}``
-> ``{"came": bool}``, once the file is there with the text in it; ``{"power": "reboot" | "off"}``. Commands run side by
side. ``environment`` adds variables. The first line out is ``{"boot": boot id}``.

It imports the standard library only: it is started with the interpreter alone.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

_PORTS = "vport*p1"
"""In ``/dev``: the virtio port that commands come from; it appears a moment after the driver."""
_LOOK_SECONDS = 0.2
_REBOOT = {"reboot": 0x01234567, "off": 0x4321FEDC}
"""As ``reboot(2)`` has them."""

_children: dict[int, subprocess.Popen[bytes]] = {}


def _run(command: dict[str, Any]) -> dict[str, Any]:
    """Output goes to files, since a daemon that the program leaves behind would keep a pipe open."""
    environment = {**os.environ, **command.get("environment", {})}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(command.get("stdin", "").encode())
        given.seek(0)
        process = subprocess.Popen(
            command["run"], stdin=given, stdout=out, stderr=err, env=environment, start_new_session=True
        )
        try:
            status: int | None = process.wait(command.get("timeout", 60.0))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
    return {"status": status, "out": texts[0], "err": texts[1]}


def _start(command: dict[str, Any]) -> dict[str, Any]:
    environment = {**os.environ, **command.get("environment", {})}
    with Path(command["log"]).open("ab") as log:
        process = subprocess.Popen(
            command["start"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
        )
    _children[process.pid] = process
    return {"pid": process.pid}


def _signal(command: dict[str, Any]) -> dict[str, Any]:
    process = _children[command["pid"]]
    if command["signal"] and process.poll() is None:
        process.send_signal(command["signal"])
        if command["signal"] == signal.SIGKILL:
            process.wait()
    return {"status": process.poll()}


def _wait(command: dict[str, Any]) -> dict[str, Any]:
    """Here, since programs that look again and again take a fifth of a processor inside."""
    path, text = Path(command["wait"]), command["text"].encode()
    deadline = time.monotonic() + command["timeout"]
    while not (path.exists() and (not text or text in path.read_bytes())):
        if time.monotonic() > deadline:
            return {"came": False}
        time.sleep(_LOOK_SECONDS)
    return {"came": True}


def _power(command: dict[str, Any]) -> dict[str, Any]:
    os.sync()
    ctypes.CDLL(None).reboot(_REBOOT[command["power"]])
    return {}


_WORK = {"run": _run, "start": _start, "signal": _signal, "wait": _wait, "power": _power}


def _answer(command: dict[str, Any]) -> dict[str, Any]:
    for name, work in _WORK.items():
        if name in command:
            try:
                return work(command)
            except (OSError, KeyError) as error:
                return {"error": f"{type(error).__name__}: {error}"}
    return {"error": f"no such command: {sorted(command)}"}


def main() -> None:
    while not (ports := list(Path("/dev").glob(_PORTS))):
        time.sleep(0.05)
    port = os.open(ports[0], os.O_RDWR)
    writing = threading.Lock()

    def send(message: dict[str, Any]) -> None:
        line = json.dumps(message).encode() + b"\n"
        with writing:
            while line:
                line = line[os.write(port, line) :]

    def work(command: dict[str, Any]) -> None:
        send({"id": command["id"], **_answer(command)})

    send({"boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip()})
    with os.fdopen(port, "rb", closefd=False) as lines:
        for line in lines:
            threading.Thread(target=work, args=(json.loads(line),), daemon=True).start()
    sys.exit("the port is closed")


def reap() -> None:
    """Process 1: frees processes whose parents are gone (libvirt waits until a QEMU that it killed is), and turns the
    machine off when the child ends."""
    child = os.fork()
    if not child:
        main()
    while os.wait()[0] != child:
        pass
    _power({"power": "off"})


if __name__ == "__main__":
    reap()
