"""A program: ``python -m devtools.hardware_lab.plugging DOMAIN attach ALIAS ADDRESS`` attaches a PCI function to a
running domain of libvirt's daemon, as our launcher does; ``DOMAIN detach ALIAS`` detaches it."""

from __future__ import annotations

import sys

from launcher.elements.hostdev import ALIAS_PREFIX, pci
from launcher.host_addresses.pci import PciAddress
from launcher.operations import attach, detach
from launcher.operations.hotplug import Patience
from launcher.process.libvirt_conn import running

_PATIENCE = Patience(seconds=240.0)


def main(domain: str, operation: str, alias: str, address: str = "") -> None:
    with running(domain) as guest:
        if operation == "attach":
            attach(guest, [pci(PciAddress.parse(address), alias)], _PATIENCE)
        else:
            detach(guest, [ALIAS_PREFIX + alias], _PATIENCE)


if __name__ == "__main__":
    main(*sys.argv[1:])
