"""``virt-dra get``: VMs, devices, claims, pools and drivers, of files or of a live cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import or_

import click

from virt_dra.api.go_text import quoted
from virt_dra.api.nearest import did_you_mean
from virt_dra.api.reading.collector import collector_paused
from virt_dra.cli.get.arguments import KIND_METAVAR, asked_kinds
from virt_dra.cli.get.formats import RowFormat, row_format_option
from virt_dra.cli.get.ordering import Ordering, ordering
from virt_dra.cli.get.printing import ChangePrinter, print_rows
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.inventory_input import InventoryInput, inventory_options
from virt_dra.cli.shared.option_table import RepeatableOption
from virt_dra.cli.shared.output import refusing
from virt_dra.cli.shared.suggestions import suggesting
from virt_dra.cli.templates.applying import NotApplicable
from virt_dra.cluster.memory.selectors import parse_labels
from virt_dra.cluster.port import BadRequest
from virt_dra.inventory.fields import BadFilter, FieldCondition, InventoryRow, RowFilter, read_conditions
from virt_dra.inventory.kinds import FIELDS, ROW_KINDS, RowKind, RowOptions, rows_of
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.kinds import READ

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

NAMEs are names, or names with what they are in: NAMESPACE/NAME, POOL/DEVICE, DRIVER/POOL/DEVICE, DRIVER/POOL. Several
kinds have commas between (vms,devices); KIND/NAME names the kind of each (vm/a device/node-1/gpu-0).

-o json and yaml are a list (items), of which members that a row doesn't have are left out; where one NAME is asked for
that one row has, they are that row. -o jsonpath=..., jsonpath-as-json=... and custom-columns=... are applied to them as
kubectl does. -o csv has times as timestamps, and an apostrophe before cells that a spreadsheet would calculate. """

EPILOG = (
    """\b
Examples:
  virt-dra get vms -f examples/inventory
  virt-dra get devices -f examples/inventory --field-selector state=free -o wide
  virt-dra get pools -f examples/inventory --sort-by -free
  virt-dra get claims -f examples/inventory -o yaml
  virt-dra get vm/desktop -f examples/inventory -o jsonpath='{.devices[*].address}'
  virt-dra get vms,claims -f examples/inventory -o custom-columns=NAME:.metadata.name,NODE:.node
  virt-dra get vms --live -A                                   every VM of the cluster and where its devices are
  virt-dra get devices --live --field-selector node=node-1,state!=free  who holds what there
  virt-dra get vms --live -n team-a -l app=render -w           as they change

\b
Exit codes: 0 shown, 1 a NAME isn't there or nothing may be read, 2 bad usage or unreadable input, 130 interrupted (-w).
"""
    + "\n\b\nFields:\n"
    + "".join(f"  {kind:<8} {', '.join(fields)}\n" for kind, fields in FIELDS.items())
)


@dataclass(frozen=True)
class GetRequest:
    """What is asked for of a kind."""

    kind: RowKind
    wanted: RowFilter
    order: Ordering
    options: Callable[[], RowOptions]

    def rows(self, model: ClusterModel) -> tuple[list[InventoryRow], list[str]]:
        """The rows that are wanted, in their order; and the names that no row has. Raises BadFilter for a path to sort
        by that none of them has."""
        rows = rows_of(self.kind, model, self.options())
        wanted = [row for row in rows if self.wanted.wants(row)]
        missing = self.wanted.missing(wanted)
        return self.order(wanted), [_not_found(self.kind, name, rows) for name in missing]


def _not_found(kind: RowKind, name: str, rows: Sequence[InventoryRow]) -> str:
    hint = did_you_mean(name, (candidate for row in rows for candidate in row.names))
    return f"{kind.removesuffix('s')} {quoted(name)} isn't there{hint}"


@click.command(name="get", help=HELP, epilog=EPILOG)
@click.argument("kind", metavar=KIND_METAVAR, shell_complete=suggesting(ROW_KINDS))
@click.argument("names", metavar="[NAME]...", nargs=-1)
@inventory_options(arguments=False)
@click.option("-l", "--selector", metavar="SELECTOR",
              help="Label selector, as kubectl's; of devices and pools their ResourceSlices' labels.")  # fmt: skip
@click.option(
    "--field-selector", "fields", metavar="FIELD=VALUE,...", cls=RepeatableOption,
    help="Only rows with these fields; != for without.",
)  # fmt: skip
@click.option("--sort-by", metavar="FIELD|PATH",
              help="Sort by a field, or a path like .metadata.name; -FIELD the other way round.")  # fmt: skip
@click.option("--no-headers", is_flag=True, help="Without the line of titles.")
@row_format_option
@click.option("-w", "--watch", is_flag=True,
              help="With --live: go on, and show rows as they change. JSON is one object a line then.")  # fmt: skip
def command(
    kind: str, names: tuple[str, ...], source: InventoryInput, selector: str | None, fields: tuple[str, ...],
    sort_by: str | None, no_headers: bool, output: RowFormat, watch: bool,
) -> None:  # fmt: skip
    said = output if isinstance(output, str) else "text"  # the format of errors
    if watch and not source.live:
        raise click.UsageError("--watch goes with --live: files don't change")
    with refusing(said, BadFilter):
        requests = [
            GetRequest(
                chosen,
                RowFilter(asked, source.scope, _conditions(fields, chosen), _labels(selector)),
                ordering(sort_by, chosen),
                lambda: RowOptions(datetime.now(UTC), source.address_keys),
            )
            for chosen, asked in asked_kinds(kind, names).items()
        ]
    if len(requests) > 1 and (watch or output == "csv"):
        raise click.UsageError("--watch and -o csv show one kind")
    if watch:
        from virt_dra.cli.get.watch import watch_rows

        watch_rows(requests[0], source, ChangePrinter(requests[0].kind, output, headers=not no_headers))
        return
    with collector_paused():  # all objects are used until the end
        kinds = [READ[f"get {request.kind}"] for request in requests]
        model, scope = source.read(reduce(or_, kinds), said)
        with refusing(said, BadFilter, NotApplicable):
            answers = [(request.kind, *request.rows(model)) for request in requests]
            alone = sum(len(request.wanted.names) for request in requests) == 1
            print_rows([(kind, rows) for kind, rows, _ in answers], output, alone=alone, headers=not no_headers)
    missing = [name for _, _, names_missing in answers for name in names_missing]
    for name in missing:
        say(f"error: {name}", err=True)
    sys.exit(1 if missing or not all(map(scope.serves, kinds)) else 0)


def _conditions(fields: Sequence[str], kind: RowKind) -> tuple[FieldCondition, ...]:
    return tuple(condition for text in fields for condition in read_conditions(text, FIELDS[kind]))


def _labels(selector: str | None) -> Callable[[Mapping[str, str]], bool] | None:
    """Raises BadFilter."""
    if not selector:
        return None
    try:
        requirements = parse_labels(selector)
    except BadRequest as error:
        raise BadFilter(f"--selector: {error}") from None
    return lambda labels: all(requirement.matches(labels) for requirement in requirements)
