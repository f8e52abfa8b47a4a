"""``virt-dra top``: what it shows of a cluster, its keys, and its limits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from textual.widgets import DataTable, Static

from virt_dra.cli.main import cli
from virt_dra.cli.top.app import TopApp
from virt_dra.cli.top.contents import TopContents, TopRow
from virt_dra.cli.top.making import TopRender, made_contents
from virt_dra.cluster.files import read_inputs
from virt_dra.model.feeds.files import model_of_files

CLUSTER = str(Path(__file__).parents[3] / "examples/explain/cluster.yaml")
NOW = datetime(2026, 11, 22, tzinfo=UTC)
SIZES = [(80, 24), (200, 50)]


def contents(namespace: str = "") -> TopContents:
    model = model_of_files([sourced.object for sourced in read_inputs([CLUSTER]).objects])
    return made_contents(model, NOW, namespace)[0]


def app_of(shown: TopContents) -> TopApp:
    @asynccontextmanager
    async def feed(app: TopApp) -> AsyncIterator[None]:
        app.show(shown)
        yield

    return TopApp(feed)


def rows(app: TopApp) -> list[str]:
    """The rows that are shown, as words."""
    table = app.query_one(DataTable)
    return [" ".join(str(cell) for cell in table.get_row_at(number) if str(cell)) for number in range(table.row_count)]


def text(app: TopApp, name: str) -> str:
    return str(app.query_one(f"#{name}", Static).content)


def test_once_prints_every_table() -> None:
    made = CliRunner().invoke(cli, ["top", "-f", CLUSTER, "--once"])
    assert (made.exit_code, made.stdout) == (
        0,
        """\
2 of 3 VMs running with all devices   5 devices, 40% in use   1 waiting

   NAMESPACE  NAME     PHASE    NODE    READY  DEVICES           REASON      AGE
   team-a     vm-a     Running  node-1  1/1    gpu=0000:41:00.0
   team-a     vm-b     Running  node-1  1/1    gpu=0000:c1:00.0
!  team-a     vm-late  Pending          0/1    gpu=-             PodMissing

   NODE    DEVICES  FREE  USED             TAINTED  MODELS
   node-1  2        0     ########## 100%           2 H100
!  node-2  1        0     ----------   0%  1        1 H100
   node-3  1        1     ----------   0%           1 H100
   node-4  1        1     ----------   0%           1 L40S

   SUBJECT             WHY
!  VMI team-a/vm-late  would wait: none of 4 nodes can take it. Nearest: node-1, request gpu: 2 devices: in use
""",
    )


def test_a_namespace_leaves_the_devices_of_all_nodes() -> None:
    shown = contents("other")
    assert [len(of) for of in shown.tables.values()] == [0, 4, 0]


def test_addresses_are_those_of_the_keys_that_are_given(tmp_path: Path) -> None:
    text = Path(CLUSTER).read_text().replace("resource.kubernetes.io/pciBusID", "where")
    (tmp_path / "cluster.yaml").write_text(text)
    keys = tmp_path / "keys.yaml"
    keys.write_text("- {driver: gpu.example.com, pci: [where]}\n")
    asked = ["top", "-f", str(tmp_path / "cluster.yaml"), "--once"]
    assert "gpu=0000:41:00.0" not in CliRunner().invoke(cli, asked).stdout
    assert "gpu=0000:41:00.0" in CliRunner().invoke(cli, [*asked, "--address-keys", str(keys)]).stdout


def test_the_process_that_follows_sends_what_is_shown() -> None:
    objects = [sourced.object for sourced in read_inputs([CLUSTER]).objects]
    render = TopRender("")
    first = render(objects, NOW, explain=False)
    explained = render(objects, NOW, explain=True)
    assert TopContents.from_text(explained.document.decode()) == contents()
    assert TopContents.from_text(first.document.decode()).tables["waiting"] == ()
    assert render(objects, NOW, explain=False).version == explained.version  # what was explained is remembered


@pytest.mark.parametrize("size", SIZES)
async def test_each_table_has_a_key_and_each_row_its_details(size: tuple[int, int]) -> None:
    app = app_of(contents())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert text(app, "title") == "2 of 3 VMs running with all devices   5 devices, 40% in use   1 waiting"
        assert rows(app)[2] == "! team-a vm-late Pending 0/1 gpu=- PodMissing"
        await pilot.press("2")
        assert text(app, "tabs") == "1 VMs   [2 Devices by node]   3 Waiting"
        await pilot.press("enter")
        assert app.query_one("#details").has_class("open")
        assert text(app, "text").splitlines()[0].startswith("gpu-0 of gpu.example.com  H100  0000:41:00.0")
        await pilot.press("down")
        assert "taints example.com/maintenance:NoSchedule" in text(app, "text")
        await pilot.press("escape", "3")
        assert not app.query_one("#details").has_class("open")
        assert rows(app)[0].startswith("! VMI team-a/vm-late would wait: none of 4 nodes can take it.")
        await pilot.press("q")
    assert app.return_code == 0


async def test_a_filter_keeps_rows_with_all_words_until_it_is_closed() -> None:
    app = app_of(contents())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2", "slash", *"h100 node-3", "enter")
        assert rows(app) == ["node-3 1 1 ----------   0% 1 H100"]
        await pilot.press("escape")
        assert len(rows(app)) == 4


async def test_rows_are_sorted_by_the_next_column_and_reversed() -> None:
    app = app_of(contents())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2", "s", "s", "r")
        assert text(app, "tabs").endswith("sorted by NODE, reversed")
        assert [row.removeprefix("! ")[:6] for row in rows(app)] == ["node-4", "node-3", "node-2", "node-1"]
        await pilot.press(*"sssss", "s")
        assert "sorted" not in text(app, "tabs")


async def test_the_row_under_the_cursor_stays_there_when_others_come() -> None:
    shown = contents()
    app = app_of(shown)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("down", "down")
        new = replace(
            shown.tables["vms"][0], key="new", cells=("", "team-a", "a-new", *shown.tables["vms"][0].cells[3:])
        )
        app.show(replace(shown, tables={**shown.tables, "vms": (new, *shown.tables["vms"])}))
        await pilot.pause()
        assert len(rows(app)) == 4
        assert app.query_one(DataTable).cursor_row == 3
        app.say("not up to date since 12:00:00 UTC: the cluster's API server doesn't answer")
        assert text(app, "state").startswith("not up to date")


async def test_hostile_names_are_text_and_many_rows_are_cut() -> None:
    hostile = "[bold red]x[/] [@click=app.quit]q[/]"
    many = tuple(TopRow(f"{n}", ("", hostile, f"vm-{n}", "", "", "", "", "", ""), (hostile,)) for n in range(5000))
    app = app_of(replace(contents(), tables={**contents().tables, "vms": many}))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert len(rows(app)) == 500
        assert "4,500 more rows: filter with /" in text(app, "title")
        assert rows(app)[7] == f"{hostile} vm-7"
        await pilot.press("slash", *"vm-4999", "enter")
        assert rows(app) == [f"{hostile} vm-4999"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-f", CLUSTER), "this is no terminal; --once prints the same as text"),
        (("--once",), "say what to read: files with -f, or a cluster with --live"),
        (("-f", "nowhere.yaml", "--once"), "nowhere.yaml"),
    ],
)
def test_bad_usage_ends_with_2(arguments: tuple[str, ...], message: str) -> None:
    made = CliRunner().invoke(cli, ["top", *arguments])
    assert (made.exit_code, message in made.stderr) == (2, True)
