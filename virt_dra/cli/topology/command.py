"""``virt-dra topology``: where a cluster's devices are, and who has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click

from virt_dra.api.core_v1 import Node
from virt_dra.api.counting import counted
from virt_dra.api.nearest import did_you_mean
from virt_dra.cli.documents.heads import output_document
from virt_dra.cli.shared.console import output_console, say, say_unknown
from virt_dra.cli.shared.extras import required
from virt_dra.cli.shared.inventory_input import InventoryInput, inventory_options
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import output_option
from virt_dra.cli.shared.output import document_text, refuse, refusing, write_output
from virt_dra.inventory.device_rows import device_rows
from virt_dra.inventory.topology import (
    NO_OVERLAY,
    NodeFold,
    TopologyNode,
    TopologyOverlay,
    folded,
    to_json,
    topology,
    unfolded,
)
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.kinds import READ
from virt_dra.model.unknown import UnknownFact
from virt_dra.simulator.collector import frozen_heap

HELP = """Show where a cluster's devices are: node, NUMA node, PCIe root, device, each with its state and who holds it.

Nodes that are alike (as many devices of the same models in the same states, arranged alike) are one: "480 nodes like
node-7". Devices that several nodes reach have a place of their own.

With --claim or --vmi the answer of the allocator is laid over it: which devices it would choose on the first node that
fits, and on other nodes which ones are nearest and why they are refused. Every state has a sign besides its colour. """

EPILOG = """\b
Examples:
  virt-dra topology -f examples/inventory
  virt-dra topology -f examples/explain --vmi team-a/vm-late
  virt-dra topology -f examples/inventory -o svg --out /tmp/out/topology.svg
  virt-dra topology -f examples/inventory -o html --out /tmp/out/topology.html     to filter in a browser
  virt-dra topology -f examples/inventory --node node-1 -o json
  virt-dra topology --live

\b
Exit codes: 0 shown, 2 bad usage or unreadable input.
"""

_FORMATS: Final = ("text", "json", "yaml", "svg", "png", "html")
PNG_NEEDS: Final = "-o png needs resvg_py, and a font of matplotlib (-o svg needs nothing)"


@click.command(name="topology", help=HELP, epilog=EPILOG)
@inventory_options(arguments=True)
@shared("--node", "only", "Only it is shown.")
@click.option("--no-fold", is_flag=True, help="Every node by itself.")
@shared("--claim", detail="Its answer is laid over the map.", metavar="NAMESPACE/NAME")
@shared("--vmi", detail="Its answer is laid over the map.", metavar="NAMESPACE/NAME")
@output_option(*_FORMATS)
@shared("--out", detail="[default: standard output]")
def command(
    source: InventoryInput, only: str | None, no_fold: bool, claim: str | None, vmi: str | None, output: str,
    out: Path | None
) -> None:  # fmt: skip
    if claim is not None and vmi is not None:
        raise click.UsageError("give one of --claim and --vmi")
    if output == "png" and out is None:
        raise click.UsageError("-o png needs --out FILE")
    with frozen_heap():
        model, _ = source.read(READ["topology"], output, judged=True)
        word, name = ("claim", claim) if claim is not None else ("vmi", vmi)
        overlay = _overlay(model, word, name, output) if name is not None else NO_OVERLAY
        rows = device_rows(model, source.address_keys)
        nodes = topology(rows, model.of(Node), overlay.verdicts)
        if only is not None:
            chosen = [node for node in nodes if node.name == only]
            if not chosen:
                refuse([f"there is no node {only}{did_you_mean(only, (node.name for node in nodes))}"], output)
            nodes = chosen
        fold = not no_fold and only is None
        folds = folded(nodes) if fold else unfolded(nodes)
        page = partial(_page, nodes, source.title, "" if name is None else f"{word} {name}", fold=fold)
        _write(folds, overlay.unknown, output, out, page)
        if output not in ("json", "yaml"):
            say_unknown(overlay.unknown)


def _write(
    folds: Sequence[NodeFold], unknown: Sequence[UnknownFact], output: str, out: Path | None, page: Callable[[], str]
) -> None:
    if out is not None:
        made = _png(folds) if output == "png" else _document(folds, unknown, output, page).encode()
        write_output(out, made, output)
        say(f"written to {out}")
    elif output == "text":
        _print(folds)
    else:
        click.echo(_document(folds, unknown, output, page), nl=output in ("svg", "html"))


def _document(folds: Sequence[NodeFold], unknown: Sequence[UnknownFact], output: str, page: Callable[[], str]) -> str:
    from virt_dra.cli.topology.drawing import topology_svg

    match output:
        case "svg":
            return topology_svg(folds)
        case "html":
            return page()
        case "json" | "yaml":
            return document_text(output_document("Topology", to_json(folds, unknown)), output)
    from rich.console import Console

    from virt_dra.cli.topology.text import fold_trees

    console = Console(width=200, highlight=False, markup=False, emoji=False, no_color=True, record=True, quiet=True)
    for tree in fold_trees(folds):
        console.print(tree)
    return console.export_text()


def _page(nodes: Sequence[TopologyNode], source: str, asked: str, *, fold: bool) -> str:
    from virt_dra.cli.topology.map_html import topology_page

    return topology_page(nodes, source, asked, fold=fold)


def _print(folds: Sequence[NodeFold]) -> None:
    from virt_dra.cli.topology.text import SHOWN, fold_trees

    console = output_console()
    for tree in fold_trees(folds):
        console.print(tree)
    if len(folds) > SHOWN:
        say(f"and {counted(len(folds) - SHOWN, 'more group')} of nodes; --node NAME shows one, -o json all")
    if not folds:
        say("there are no nodes and no devices")


def _png(folds: Sequence[NodeFold]) -> bytes:
    from virt_dra.cli.topology.drawing import topology_svg

    with required(PNG_NEEDS, "plots", "resvg_py", "matplotlib"):
        import resvg_py
        from matplotlib import get_data_path
    fonts = Path(get_data_path()) / "fonts" / "ttf"
    font = [str(fonts / name) for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")]
    drawn = resvg_py.svg_to_bytes(
        svg_string=topology_svg(folds), font_files=font, sans_serif_family="DejaVu Sans", zoom=2
    )
    return bytes(drawn)


def _overlay(model: ClusterModel, word: str, name: str, output: str) -> TopologyOverlay:
    """Ends the command for what isn't there."""
    from virt_dra.allocator import FatalError
    from virt_dra.simulator.explaining.overlay import overlay_of
    from virt_dra.simulator.explaining.subject import NoSubject

    with refusing(output, NoSubject, FatalError):
        return overlay_of(word, name, model)
