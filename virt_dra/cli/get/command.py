"""``virt-dra get``: VMs, devices, claims, pools and drivers, of files or of a live cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import click

from virt_dra.api.go_text import quoted
from virt_dra.api.nearest import did_you_mean
from virt_dra.api.reading.collector import collector_paused
from virt_dra.cli.get.columns import columns_of
from virt_dra.cli.get.tables import RowTable, csv_lines
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.inventory_input import InventoryInput, inventory_options
from virt_dra.cli.shared.options import output_option
from virt_dra.cli.shared.output import print_document, refuse
from virt_dra.cli.shared.suggestions import suggesting
from virt_dra.cluster.memory.selectors import parse_labels
from virt_dra.cluster.port import BadRequest
from virt_dra.inventory.fields import (
    BadFilter,
    FieldCondition,
    InventoryRow,
    RowFilter,
    checked,
    in_order,
    read_conditions,
)
from virt_dra.inventory.kinds import FIELDS, ROW_KINDS, RowKind, RowOptions, row_kind, rows_of
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.kinds import READ

FORMATS: Final = ("text", "wide", "name", "json", "yaml", "csv")

HELP = """Show what there is and who has it: vms, devices, claims, pools or drivers.

Read from files (-f: manifests, folders, or a dump of a cluster) or from a cluster (--live). Of a cluster only what you
may read yourself is read; kinds that you may not read, or that it doesn't serve, are named on standard error and left
out. Without KubeVirt, or without the right to read its objects, VMs are shown by their launcher pods and claims.

\b
  vms      devices with their addresses, how many are there (READY), and the reason if something is missing or wrong
  devices  those of the newest generation of each pool: model, address, state, who holds them since when
  claims   pending, allocated, reserved or deleting; the devices, and for whom they are
  pools    the newest generation: slices there/announced, devices, free ones; stale slices are of older generations
  drivers  totals, and the DeviceClasses that select any of their devices

\b
A device's state is free, or one or more of:
  allocated, shared   a claim has it, or a share of it      unhealthy     its driver says so
  tainted             NoSchedule or NoExecute               unavailable   its pool is incomplete or invalid
  blocked             partitions that are held leave too little of a counter
  unpublished         it is allocated, and its driver doesn't publish it any more
  unknown             in place of free: you may not read all claims

NAMEs are names, or names with what they are in: NAMESPACE/NAME, POOL/DEVICE, DRIVER/POOL/DEVICE, DRIVER/POOL.

-o json and yaml are a list with the same members for every row. -o csv has times as timestamps, and an apostrophe
before cells that a spreadsheet would calculate. """

EPILOG = (
    """\b
Examples:
  virt-dra get vms -f examples/inventory
  virt-dra get devices -f examples/inventory --field state=free -o wide
  virt-dra get pools -f examples/inventory --sort-by -free
  virt-dra get claims -f examples/inventory -o yaml
  virt-dra get vms --live -A                                   every VM of the cluster and where its devices are
  virt-dra get devices --live --field node=node-1,state!=free  who holds what on a node
  virt-dra get vms --live -n team-a -l app=render -w           as they change

\b
Exit codes: 0 shown, 1 a NAME isn't there or nothing may be read, 2 bad usage or unreadable input, 130 interrupted (-w).
"""
    + "\n\b\nFields:\n"
    + "".join(f"  {kind:<8} {', '.join(fields)}\n" for kind, fields in FIELDS.items())
)


@dataclass(frozen=True)
class GetRequest:
    """What is asked for."""

    kind: RowKind
    wanted: RowFilter
    sort_by: str | None
    options: Callable[[], RowOptions]

    def rows(self, model: ClusterModel) -> tuple[list[InventoryRow], list[str]]:
        """The rows that are wanted, in their order; and the names that no row has."""
        rows = rows_of(self.kind, model, self.options())
        wanted = [row for row in rows if self.wanted.wants(row)]
        missing = self.wanted.missing(wanted)
        ordered = in_order(wanted, self.sort_by, FIELDS[self.kind]) if self.sort_by else wanted
        return ordered, [_not_found(self.kind, name, rows) for name in missing]


def _not_found(kind: RowKind, name: str, rows: Sequence[InventoryRow]) -> str:
    hint = did_you_mean(name, (candidate for row in rows for candidate in row.names))
    return f"{kind.removesuffix('s')} {quoted(name)} isn't there{hint}"


@click.command(name="get", help=HELP, epilog=EPILOG)
@click.argument("kind", metavar="KIND", shell_complete=suggesting(ROW_KINDS))
@click.argument("names", metavar="[NAME]...", nargs=-1)
@inventory_options
@click.option(
    "-l",
    "--selector",
    metavar="SELECTOR",
    help="Label selector, as kubectl's; of devices and pools their ResourceSlices' labels.",
)
@click.option(
    "--field", "fields", metavar="FIELD=VALUE,...", multiple=True, help="Only rows with these fields; != for without."
)
@click.option("--sort-by", metavar="FIELD", help="Sort by a field; -FIELD the other way round.")
@output_option(*FORMATS)
@click.option(
    "-w",
    "--watch",
    is_flag=True,
    help="With --live: go on, and show rows as they change. JSON is one object a line then.",
)
def command(
    kind: str, names: tuple[str, ...], source: InventoryInput, selector: str | None, fields: tuple[str, ...],
    sort_by: str | None, output: str, watch: bool,
) -> None:  # fmt: skip
    if watch and not source.live:
        raise click.UsageError("--watch goes with --live: files don't change")
    chosen, conditions = _chosen(kind, fields, sort_by, output)
    wanted = RowFilter(names, source.scope, conditions, _labels(chosen, selector, output))
    request = GetRequest(chosen, wanted, sort_by, lambda: RowOptions(datetime.now(UTC), source.address_keys))
    if watch:
        from virt_dra.cli.get.watch import watch_rows

        watch_rows(request, source, output)
        return
    with collector_paused():  # all objects are used until the end
        kinds = READ[f"get {chosen}"]
        model, scope = source.read(kinds, output)
        rows, missing = request.rows(model)
        _print(chosen, rows, output)
    for name in missing:
        say(f"error: {name}", err=True)
    sys.exit(1 if missing or not scope.serves(kinds) else 0)


def _chosen(
    kind: str, fields: Sequence[str], sort_by: str | None, output: str
) -> tuple[RowKind, tuple[FieldCondition, ...]]:
    """Ends the command for what doesn't exist."""
    try:
        chosen = row_kind(kind)
        row_fields = FIELDS[chosen]
        if sort_by is not None:
            checked(sort_by.removeprefix("-"), row_fields)
        return chosen, tuple(condition for text in fields for condition in read_conditions(text, row_fields))
    except BadFilter as error:
        refuse([str(error)], output)


def _labels(kind: RowKind, selector: str | None, output: str) -> Callable[[Mapping[str, str]], bool] | None:
    if not selector:
        return None
    try:
        requirements = parse_labels(selector)
    except BadRequest as error:
        refuse([f"--selector: {error}"], output)
    return lambda labels: all(requirement.matches(labels) for requirement in requirements)


def _print(kind: RowKind, rows: Sequence[InventoryRow], output: str) -> None:
    if output in ("json", "yaml"):
        print_document([row.to_json() for row in rows], output)
    elif output == "csv":
        click.echo(csv_lines(columns_of(kind, wide=True), rows), nl=False)
    elif output == "name":
        for row in rows:
            say(row.identity)
    elif rows:
        table = RowTable(columns_of(kind, wide=output == "wide"))
        click.echo("\n".join(table.lines(rows, datetime.now(UTC))))
    else:
        say(f"no {kind} found", err=True)
