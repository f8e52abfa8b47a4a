"""Assertions about host devices: what holds, and the whole message where something doesn't."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from virt_dra.pytest_plugin import UnusableInput
from virt_dra.pytest_plugin.domain_assertions import DomainAssertions

UUID: Final = "8a05ad83-3472-497d-8631-8142f31460e8"
XML: Final = f"""
<domain>
  <cpu><numa><cell id="0" cpus="0-1"/><cell id="1" cpus="2,3"/></numa></cpu>
  <numatune><memnode cellid="1" mode="strict" nodeset="0,1"/></numatune>
  <devices>
    <controller type="pci" index="0" model="pcie-root"/>
    <controller type="pci" index="1" model="pcie-expander-bus">
      <target busNr="253"><node>1</node></target></controller>
    <controller type="pci" index="2" model="pcie-root-port"><address type="pci" bus="1" slot="0x00"/></controller>
    <controller type="pci" index="3" model="pcie-root-port"><address type="pci" bus="1" slot="0x01"/></controller>
    <hostdev type="pci" managed="no"><source><address domain="0x0000" bus="0x3B" slot="0x00" function="0x0"/></source>
      <address type="pci" domain="0x0000" bus="0x02" slot="0x00" function="0x0"/><rom bar="off"/>
      <alias name="ua-gpu-a"/></hostdev>
    <hostdev type="pci"><source><address domain="0" bus="0x3b" slot="2" function="1"/></source>
      <address type="pci" bus="0x03"/><alias name="ua-sriov-net"/></hostdev>
    <hostdev type="mdev" model="vfio-pci" display="on"><source><address uuid="{UUID.upper()}"/></source>
      <alias name="ua-gpu-v"/></hostdev>
    <hostdev type="usb"><source><address bus="1" device="3"/></source></hostdev>
  </devices>
</domain>
"""
ALL: Final = f"""\
all hostdevs:
  pci 0000:3b:00.0, ua-gpu-a, 0000:02:00.0 on pcie-root-port of pcie-expander-bus of NUMA cell 1
  pci 0000:3b:02.1, ua-sriov-net, 0000:03:00.0 on pcie-root-port of pcie-expander-bus of NUMA cell 1
  mdev {UUID}, ua-gpu-v
  usb 1:3"""


def test_what_a_domain_has_holds() -> None:
    domain = DomainAssertions.from_xml(XML)
    assert (
        domain.has_hostdev(pci="0000:3B:00.0", alias="ua-gpu-a", numa_cell=1, pcie_root=1, display=False, driver="vfio")
        .has_hostdev(alias="gpu-a", properties={"rom/@bar": "off", "rom/@file": None})
        .has_hostdev(mdev=UUID, display=True, numa_cell=None, pcie_root=None)
        .has_hostdev(usb="01:003")
        .has_hostdev()
        .has_no_hostdev(pci="0000:3b:00.1")
        .has_no_hostdev(alias="gpu-a", numa_cell=0)
        .has_one_pcie_root("gpu-a", "sriov-net")
        .has_numa_cell(0, cpus="0,1")
        .has_numa_cell(1, cpus="2-3", nodes="0-1")
        is domain
    )
    DomainAssertions.from_xml("<domain/>").has_no_hostdev()


FAILURES: Final[dict[str, tuple[Callable[[DomainAssertions], object], str]]] = {
    "another address under the alias": (
        lambda domain: domain.has_hostdev(pci="0000:3b:00.1", alias="gpu-a", display=True),
        f"""\
no hostdev has pci 0000:3b:00.1, alias ua-gpu-a, display True
the nearest one is ua-gpu-a:
  pci: wanted 0000:3b:00.1, is 0000:3b:00.0
  display: wanted True, is False
{ALL}""",
    ),
    "the right device, elsewhere": (
        lambda domain: domain.has_hostdev(mdev=UUID, numa_cell=1, properties={"@ramfb": "on"}),
        f"""\
no hostdev has mdev {UUID}, numa_cell 1, @ramfb on
the nearest one is ua-gpu-v:
  numa_cell: wanted 1, is None
  @ramfb: wanted on, is None
{ALL}""",
    ),
    "a device that there should not be": (
        lambda domain: domain.has_no_hostdev(usb="1:3"),
        "a hostdev has usb 1:3:\n  usb 1:3",
    ),
    "devices on several roots": (
        lambda domain: domain.has_one_pcie_root("gpu-a", "gpu-v"),
        f"""\
the devices aren't on one PCIe root of their own:
  pci 0000:3b:00.0, ua-gpu-a, 0000:02:00.0 on pcie-root-port of pcie-expander-bus of NUMA cell 1
  mdev {UUID}, ua-gpu-v""",
    ),
    "devices on none": (
        lambda domain: domain.has_one_pcie_root("gpu-v"),
        f"the devices aren't on one PCIe root of their own:\n  mdev {UUID}, ua-gpu-v",
    ),
    "no such cell": (
        lambda domain: domain.has_numa_cell(2),
        "the guest has no NUMA cell 2; it has: cpu/numa/cell[0]/@cpus, cpu/numa/cell[1]/@cpus",
    ),
    "other vCPUs and nodes": (
        lambda domain: domain.has_numa_cell(0, cpus="0-3", nodes="0"),
        "cpu/numa/cell[0]/@cpus: wanted 0-3, is 0-1\nnumatune/memnode[0]/@nodeset: wanted 0, is None",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_shows_the_nearest_device(case: str) -> None:
    asserted, said = FAILURES[case]
    with pytest.raises(AssertionError) as failure:
        asserted(DomainAssertions.from_xml(XML))
    assert str(failure.value) == said


def test_a_domain_without_devices_has_no_nearest_one() -> None:
    with pytest.raises(AssertionError, match=r"^no hostdev has alias ua-g: the domain has none$"):
        DomainAssertions.from_xml("<domain/>").has_hostdev(alias="g")


def test_an_address_that_is_none_is_no_failure_of_the_assertion() -> None:
    with pytest.raises(UnusableInput, match=r"^pci: failed to parse pci address 3b:0$"):
        DomainAssertions.from_xml(XML).has_hostdev(pci="3b:0")
    with pytest.raises(UnusableInput, match=r"^the domain: line 1, column 1: no well-formed XML: "):
        DomainAssertions.from_xml("no XML")
