"""Domains with eight devices that are placed on NUMA nodes, against writing the same XML with lxml alone; and the
import of ``launcher``, against that of the two libraries that it is made of."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from lxml import etree
from rich.console import Console
from rich.table import Table

from launcher import AddressSources, HostTopology, convert
from launcher.placement.host import PciLocation

DOMAINS = 1000
GOAL_SECONDS, GOAL_IMPORT = 1.0, 0.15
ROUNDS = 5
_DEVICES = 8
HOST = HostTopology(
    nodes={0: tuple(range(16)), 1: tuple(range(16, 32))},
    functions={
        f"0000:{0x40 + number:02x}:00.0": PciLocation(number % 2, f"pci0000:{0x40 + number:02x}")
        for number in range(_DEVICES)
    },
)
SOURCES = AddressSources({f"PCI_RESOURCE_V_COM_GPU{number}": f"0000:{0x40 + number:02x}:00.0" for number in range(8)})


def vmi(number: int) -> dict[str, Any]:
    """A VMI that mirrors the host's nodes, as a dict, which is read each time."""
    gpus = [{"name": f"gpu{device}", "deviceName": f"v.com/gpu{device}"} for device in range(_DEVICES)]
    cpu = {"cores": 32, "dedicatedCpuPlacement": True, "numa": {"guestMappingPassthrough": {}}}
    memory = {"guest": "4Gi", "hugepages": {"pageSize": "2Mi"}}
    domain = {"cpu": cpu, "memory": memory, "devices": {"gpus": gpus}}
    return {"metadata": {"namespace": "bench", "name": f"vm-{number}"}, "spec": {"domain": domain}}


def main(*, quick: bool = False) -> None:
    count = DOMAINS // 10 if quick else DOMAINS
    sample = etree.fromstring(convert(vmi(0), SOURCES, topology=HOST).domain_xml)

    def domains() -> None:
        for number in range(count):
            assert convert(vmi(number), SOURCES, topology=HOST).domain_xml

    def lxml_alone() -> None:
        for _ in range(count):
            etree.tostring(_copied(sample), pretty_print=True)

    table = Table("what", "median s", "goal s", title=f"{count} domains with {_DEVICES} devices, {ROUNDS} rounds")
    table.add_row("lxml alone writes them (peer)", f"{_median(lxml_alone):.3f}", "")
    table.add_row("convert, with placement", f"{_median(domains):.3f}", f"{GOAL_SECONDS * count / DOMAINS:g}")
    table.add_row("import lxml.etree, pydantic.main (peer)", f"{_imported('lxml.etree, pydantic.main'):.3f}", "")
    table.add_row("import launcher", f"{_imported('launcher'):.3f}", f"{GOAL_IMPORT:g}")
    Console().print(table)


def _copied(element: etree._Element) -> etree._Element:
    """The element, built anew."""
    copy = etree.Element(element.tag, {str(name): str(value) for name, value in element.items()})
    copy.text = element.text
    copy.extend([_copied(child) for child in element])
    return copy


def _median(run: Callable[[], None]) -> float:
    """Processor seconds: a machine that does something else doesn't count."""
    seconds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        run()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds)


def _imported(modules: str) -> float:
    """Of modules that are compiled, as an installation's are: a first import sees to that, whatever the environment
    says."""
    compiling = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    program = f"import time; began = time.process_time(); import {modules}; print(time.process_time() - began)"
    runs = [
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, env=compiling)
        for _ in range(1 + ROUNDS)
    ]
    return statistics.median(float(run.stdout) for run in runs[1:])
