"""``virt-dra report``: a cluster's devices, VMs, what waits and why, findings, on one page."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from virt_dra.cli.report.contents import contents_json
from virt_dra.cli.report.page import report_page
from virt_dra.cli.report.settings import MOST_EXPLAINED, ReportSettings
from virt_dra.cli.shared.console import progress, say, status
from virt_dra.cli.shared.inventory_input import InventoryInput, inventory_options
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.output import json_text, write_output
from virt_dra.simulator.collector import frozen_heap

HELP = """Write one page about a cluster: what waits and what would help, VMs, devices by node, how the free ones lie,
findings.

The page is one HTML file that loads nothing: it can be mailed, and opened without a network. It has a filter (/),
follows light and dark, and prints. The objects are read as by virt-dra get: from files or, with --live, from a cluster
by your own rights.

At most 50 waiting VMs are explained (--most changes that), each within a second.
"""

EPILOG = """\b
Examples:
  virt-dra report -f examples/inventory --out /tmp/out/report.html
  virt-dra report -f examples/explain -o json --out /tmp/out/report.json
  virt-dra report --live -o report.html                             a file's name says the format, too

\b
Exit codes: 0 written, 2 bad usage or unreadable input, or the file can't be written.
"""


class _FormatOrFile(click.Choice[str]):
    """One of the formats, or the name of a file that ends with one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name, dot, ending = str(value).rpartition(".")
        if value not in self.choices and not (name and dot and ending in self.choices):
            self.fail(f"{value!r} is neither html, json, nor the name of a file: FILE.html or FILE.json", param, ctx)
        return str(value)


_FORMATS: Final = ("html", "json")


@click.command(name="report", help=HELP, epilog=EPILOG)
@inventory_options(arguments=True)
@shared("--out")
@shared("--output", detail="Or FILE.html or FILE.json; json is printed where no file is named.",
        type=_FormatOrFile(_FORMATS), default="html")  # fmt: skip
@shared("--most", default=MOST_EXPLAINED)
def command(source: InventoryInput, out: Path | None, output: str, most: int) -> None:
    now = datetime.now(UTC)
    if output not in _FORMATS:
        if out is not None:
            raise click.UsageError(f"--out {out} and -o {output} both name a file")
        out, output = Path(output), output.rpartition(".")[2]
    if out is None and output == "html":
        raise click.UsageError("name the file to write: -o report.html, or --out FILE")
    with frozen_heap():
        from virt_dra.cli.report.making import contents_of
        from virt_dra.model.kinds import READ

        with status("reading"):
            model, _ = source.read(READ["report"], output if out is None else "text", judged=True)
        contents = contents_of(model, ReportSettings(source.address_keys, most), now, progress)
        read = f"{source.title}, {now:%Y-%m-%d %H:%M} UTC"
        text = report_page(contents, read) if output == "html" else json_text(contents_json(contents), indent=2) + "\n"
    if out is None:
        click.echo(text, nl=False)
        return
    write_output(out, text.encode(), "text")
    say(f"written to {out}")
