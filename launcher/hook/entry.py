"""``virt-dra-hook``: the process of the hook sidecar."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Final

import click

from launcher.addresses.metadata_files import read_folder
from launcher.conversion import AddressSources
from launcher.hook.domain_hook import hooked_domain
from launcher.hook.server import HookServer
from launcher.placement.sysfs import read_host
from virt_dra.api.go_text import visible
from virt_dra.api.integration.pci_placement import PCI_PLACEMENT_CHOICES

SOCKET: Final = "/var/run/kubevirt-hooks/virt-dra.sock"
_logger = logging.getLogger(__name__)


@click.command(
    "virt-dra-hook",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Exit codes: 0 the VM or the container ended, 1 the socket can't be bound.

\b
Example, of a VMI whose PCI devices are placed by PCIe root (KubeVirt needs the feature gate Sidecar):
  metadata:
    annotations:
      virt-dra.io/pci-placement: pcie-root
      hooks.kubevirt.io/hookSidecars: '[{"image": "registry.example.com/virt-dra:0.1.0", "command": ["virt-dra-hook"]}]'
""",
)
@click.option(
    "--socket",
    type=click.Path(path_type=Path, dir_okay=False),
    default=SOCKET,
    show_default=True,
    help="Where the services are. As a plugin of KubeVirt: below /var/run/kubevirt-plugin/<plugin>/.",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    default="/",
    show_default=True,
    help="Folder below which the drivers' metadata files are, and sysfs in sys.",
)
@click.option(
    "--pci-placement",
    type=click.Choice(list(PCI_PLACEMENT_CHOICES)),
    help="For VMIs without the annotation virt-dra.io/pci-placement.  [default: their domains stay as they are]",
)
def main(socket: Path, root: Path, pci_placement: str | None) -> None:
    """Serve KubeVirt's hooks: complete the domains of VMs that ask for it, before libvirt gets them."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        asyncio.run(_serve(socket, root, pci_placement))
    except OSError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


async def _serve(socket: Path, root: Path, default_placement: str | None) -> None:
    """Serves until the VM ends, or the container is stopped. Raises :class:`OSError`."""

    def mutation(domain: bytes, vmi: bytes) -> bytes:
        sources, host = AddressSources(os.environ, read_folder(root)), read_host(root / "sys")
        hooked = hooked_domain(domain, vmi, sources, host, default_placement)
        for sentence in (*hooked.changes, *(f"warning: {warning}" for warning in hooked.warnings)):
            _logger.info("%s", visible(sentence))
        return hooked.text

    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with HookServer(str(socket), mutation) as server:
        _logger.info("serving %s", socket)
        ends = [asyncio.create_task(server.ended()), asyncio.create_task(stopped.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()


if __name__ == "__main__":
    main()
