"""How long selectors take to compile and to evaluate, against the same rule written in Python, and against cel-cpp and
the reference's cel-go where they are installed. The reference is called as the allocator calls it, which makes it
convert the device each time; ours converts a device once, so what that takes is a row of its own.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.reference import NotAvailable, built
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import Device
from virt_dra.api.semver import SemVer
from virt_dra.cel import CompileError, DeviceInput, EvaluationError, compile_selector, device_input
from virt_dra.cel.expression import whole
from virt_dra.cel.selector import CompiledSelector, selector_in_pieces

COMPILE_GOAL_US = 500
ROUNDS = 5
DRIVER = "gpu.example.com"
DEVICE = {
    "name": "gpu-0",
    "attributes": {
        "model": {"string": "A100-SXM4-40GB"},
        "numa": {"int": 1},
        "version": {"version": "12.4.0"},
        "tags": {"strings": ["train", "infer"]},
    },
    "capacity": {"memory": {"value": "40Gi"}},
}
_LEAST, _OLDEST, _PATTERN = Quantity("16Gi"), SemVer.parse("12.0.0"), re.compile("^A[0-9]+")

SELECTORS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "driver": (f'device.driver == "{DRIVER}"', lambda device: device["driver"] == DRIVER),
    "driver and attribute": (
        f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].numa == 1',
        lambda device: device["driver"] == DRIVER and device["attributes"][DRIVER]["numa"] == 1,
    ),
    "attribute in a list": (
        f'device.attributes["{DRIVER}"].model in ["A100-SXM4-40GB", "H100"]',
        lambda device: device["attributes"][DRIVER]["model"] in ("A100-SXM4-40GB", "H100"),
    ),
    "optional attribute": (
        f'device.attributes["{DRIVER}"].?pool.orValue("a") == "a"',
        lambda device: device["attributes"][DRIVER].get("pool", "a") == "a",
    ),
    "regular expression": (
        f'device.attributes["{DRIVER}"].model.matches("^A[0-9]+")',
        lambda device: _PATTERN.search(device["attributes"][DRIVER]["model"]) is not None,
    ),
    "quantity": (
        f'device.capacity["{DRIVER}"].memory.compareTo(quantity("16Gi")) >= 0',
        lambda device: device["capacity"][DRIVER]["memory"] >= _LEAST,
    ),
    "semantic version": (
        f'device.attributes["{DRIVER}"].version.isGreaterThan(semver("12.0.0"))',
        lambda device: device["attributes"][DRIVER]["version"] > _OLDEST,
    ),
    "list attribute": (
        f'device.attributes["{DRIVER}"].tags.exists(t, t == "infer")',
        lambda device: any(tag == "infer" for tag in device["attributes"][DRIVER]["tags"]),
    ),
}


def _compiled(expression: str) -> CompiledSelector:
    return whole(selector_in_pieces(expression))


def _microseconds(work: Callable[[], object], times: int) -> float:
    return min(timeit.repeat(work, number=times, repeat=ROUNDS)) / times * 1e6


def _peer() -> Callable[[str], Callable[[DeviceInput], object]] | None:
    """cel-cpp behind Python, which knows the language but not Kubernetes' types."""
    try:
        from cel_expr_python import cel
    except ImportError:
        return None
    environment = cel.NewEnv(variables={"device": cel.Type.DYN})

    def compiled(expression: str) -> Callable[[DeviceInput], object]:
        program = environment.compile(expression)
        return lambda device: program.eval(data={"device": device}).value()

    return compiled


def _reference() -> list[dict[str, float]]:
    """Per selector ``compile_us`` and ``evaluate_us`` of the reference. Raises :class:`NotAvailable`."""
    asked = [
        {"expression": expression, "driver": DRIVER, "device": DEVICE, "compile": 50, "evaluate": 5_000}
        for expression, _ in SELECTORS.values()
    ]
    with built("workload") as binary, tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(asked, file)
        file.flush()
        ran = subprocess.run([binary, "--selectors", file.name], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"the reference failed: {ran.stderr.strip()}")
    times: list[dict[str, float]] = json.loads(ran.stdout)
    return times


COLUMNS = (
    "selector",
    "compile µs",
    "goal",
    "cel-go",
    "evaluate µs",
    "Python",
    "× Python",
    "cel-cpp",
    "× cel-cpp",
    "cel-go",
    "× cel-go",
)


def main() -> None:
    device = device_input(DRIVER, Device.from_wire(DEVICE))
    published = Device.from_wire(DEVICE)
    peer = _peer()
    try:
        reference = dict(zip(SELECTORS, _reference(), strict=True))
    except NotAvailable as why:
        sys.stdout.write(f"CEL without cel-go: {why}\n")
        reference = {}
    table = Table(*COLUMNS, title=f"CEL, µs, best of {ROUNDS} (× below 1: ours is faster)")
    for name, (expression, plain) in SELECTORS.items():
        compiling = _microseconds(partial(_compiled, expression), 200)
        selector = compile_selector(expression)
        if not selector.matches(device) or not plain(device):
            raise RuntimeError(f"{name}: the selector and its peer must both select the device")
        ours = _microseconds(partial(selector.matches, device), 20_000)
        python = _microseconds(partial(plain, device), 20_000)
        theirs = _peer_time(peer, expression, device)
        go = reference.get(name)
        table.add_row(
            name,
            f"{compiling:.0f}",
            str(COMPILE_GOAL_US),
            "-" if go is None else f"{go['compile_us']:.0f}",
            f"{ours:.2f}",
            f"{python:.2f}",
            f"{ours / python:.1f}",
            "-" if theirs is None else f"{theirs:.2f}",
            "-" if theirs is None else f"{ours / theirs:.2f}",
            "-" if go is None else f"{go['evaluate_us']:.2f}",
            "-" if go is None else f"{ours / go['evaluate_us']:.2f}",
        )
    converting = _microseconds(lambda: device_input(DRIVER, published), 5_000)
    table.add_row("converting a device, once", "-", "-", "-", f"{converting:.2f}", *["-"] * 6)
    Console(width=150).print(table)
    hostile()


HOSTILE: dict[str, str] = {
    "sums of a hundred ones": "&&".join(["+".join(["1"] * 100) + ">0"] * 50),
    "||": "||".join(["true"] * 1700),
    "comparisons": "&&".join(["1==1"] * 1700),
    "selections from unknown values": "||".join(["dyn(device)" + ".a" * 240 + "==1"] * 20),
    "macros one after the other": "&&".join(["[1].map(x,x)==[1]"] * 530),
    "macros in macros": "".join(f"[1].all(a{i}," for i in range(249)) + "true" + ")" * 249,
    "empty lists": "[" + ",".join(["[]"] * 3400) + "]==[]",
    "parentheses, refused": "(" * 10_000,
    "what costs too much": "lists.range(1000).all(x,lists.range(10000).all(y,y>=0))",
    "a pattern of many groups": f"device.driver.matches('{'(' * 999}x*{')*' * 999}y')",
}
"""As much as fits into 10 KiB."""


def hostile() -> None:
    """Processor time of compiling expressions made to hurt, and of their first evaluation."""
    device = device_input(DRIVER, Device.from_wire(DEVICE))
    table = Table(
        "expression", "characters", "compile ms", "first evaluation ms", "outcome", title="Hostile expressions"
    )
    for name, expression in HOSTILE.items():
        begin = time.process_time()
        try:
            selector = _compiled(expression)
        except CompileError as error:
            table.add_row(
                name,
                str(len(expression)),
                f"{(time.process_time() - begin) * 1e3:.0f}",
                "-",
                error.message.splitlines()[0],
            )
            continue
        compiled = time.process_time()
        try:
            outcome = str(selector.matches(device))
        except EvaluationError as error:
            outcome = error.message
        ran = time.process_time()
        table.add_row(
            name, str(len(expression)), f"{(compiled - begin) * 1e3:.0f}", f"{(ran - compiled) * 1e3:.0f}", outcome
        )
    Console(width=150, emoji=False).print(table)


def _peer_time(
    peer: Callable[[str], Callable[[DeviceInput], object]] | None, expression: str, device: DeviceInput
) -> float | None:
    """None where the peer is absent or does not know what the expression uses."""
    if peer is None:
        return None
    try:
        evaluate = peer(expression)
        evaluate(device)
    except Exception:  # noqa: BLE001  # whatever the peer raises for what it does not know
        return None
    return _microseconds(partial(evaluate, device), 5_000)


if __name__ == "__main__":
    main()
