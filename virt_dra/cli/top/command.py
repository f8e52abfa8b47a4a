"""``virt-dra top``: a terminal view of VMs, devices by node, and what waits and why."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from virt_dra.cli.shared.console import say, status
from virt_dra.cli.shared.extras import required
from virt_dra.cli.shared.inventory_input import InventoryInput, inventory_options
from virt_dra.cli.shared.option_table import shared
from virt_dra.model.kinds import READ

if TYPE_CHECKING:
    from virt_dra.cli.top.app import TopApp
    from virt_dra.cli.top.contents import TopContents

_NEEDS = "the terminal needs the textual package"

HELP = """Watch a cluster in the terminal: its VMs, its devices by node, and what waits and why.

With --live the cluster is followed: what changes is shown some seconds later. It needs the right to list and watch what
the report shows, in all namespaces. Of files (a dump) the state is shown as it is.

\b
Keys:
  1 2 3      VMs, devices by node, what waits; ! marks what needs attention
  up, down, page up, page down, home, end   the rows
  Enter      the details of the row: devices and holders, or what is in the way and the ways out
  /          only rows that have these words; Esc: all rows again
  s, r       sort by the next column; reverse
  q          quit

It needs no mouse and no colour (NO_COLOR is respected). """

EPILOG = """\b
Examples:
  virt-dra top --live
  virt-dra top -f dump.yaml -n team-a
  virt-dra top -f examples/explain/cluster.yaml --once                  the same as text, for a pipe

\b
Exit codes: 0 quit, 2 bad usage, unreadable input, no terminal or no cluster.
"""


@click.command(name="top", help=HELP, epilog=EPILOG)
@inventory_options(arguments=True)
@shared("--once", detail="Prints everything as text.")
def command(source: InventoryInput, once: bool) -> None:
    if not once and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("this is no terminal; --once prints the same as text")
    if once:
        from virt_dra.cli.top.contents import text_lines

        for line in text_lines(_read(source)):
            say(line)
        return
    with required(_NEEDS, "top", "textual"):
        from virt_dra.cli.top.app import TopApp
    if not source.live:
        contents = _read(source)

        @asynccontextmanager
        async def shown(app: TopApp) -> AsyncIterator[None]:
            app.show(contents)
            yield

        TopApp(shown).run()
        return
    TopApp(lambda app: _following(source, app)).run()


def _read(source: InventoryInput) -> TopContents:
    with status("reading"):
        from virt_dra.cli.top.making import made_contents

        model, _ = source.read(READ["report"], "text")
        return made_contents(model, datetime.now(UTC), source.scope, source.address_keys)[0]


@asynccontextmanager
async def _following(source: InventoryInput, app: TopApp) -> AsyncIterator[None]:
    """Shows what the following process makes, while the body runs."""
    from virt_dra.cli.top.contents import TopContents
    from virt_dra.cli.top.making import TopRender
    from virt_dra.report_server.following import FollowSettings
    from virt_dra.report_server.pace import Pace
    from virt_dra.report_server.rendering import RenderingProcess

    render, cluster, pace = TopRender(source.scope, source.address_keys), source.cluster, Pace(least=1.0, refresh=30.0)
    settings = FollowSettings(render, cluster.kubeconfig, cluster.context, pace=pace)
    process = RenderingProcess(settings)

    def changed() -> None:
        if process.content is not None:
            app.show(TopContents.from_text(process.content.document.decode()))
        stale = process.stale
        app.say("" if stale is None else f"not up to date since {stale.since:%H:%M:%S} UTC: {stale.why}")

    process.on_change = changed
    async with process.running():
        yield
