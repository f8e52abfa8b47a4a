"""Pages as their readers have them, in Chromium: what lights up, fragments, search, tables, keyboard, widths, paper and
WCAG."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from devtools.axe import axe_script
from tests.browser import Tab, chromium
from tests.simulator.explaining.clusters import classes, gpu, node, user
from virt_dra.cli.main import cli

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPLAIN, FLEET = str(EXAMPLES / "explain"), str(EXAMPLES / "simulation" / "fleet.yaml")
LIT = """[...document.querySelectorAll("#map .node.lit")].map(node => [
  node.querySelector("h3").textContent, node.querySelector(".why").textContent,
  [...node.querySelectorAll(".device")].map(
    device => ["way", "takes", "frees"].find(mark => device.classList.contains(mark)) || "")])"""
"""The nodes that are lit, why, and what is said of each of their devices."""
_AXE = "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})"


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    async with chromium(tmp_path / "profile") as opened:
        yield opened


def _written(folder: Path, *arguments: str) -> Path:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    path = folder / "page.html"
    if "--out" not in arguments:
        path.write_text(result.stdout, encoding="utf-8")
    return path


def _report(folder: Path, *files: str) -> Path:
    return _written(
        folder, "report", *(word for file in files for word in ("-f", file)), "--out", str(folder / "page.html")
    )


def _fleet(folder: Path, nodes: int, name: str = "node") -> str:
    """Like nodes, of which one has a device in use."""
    parts = [
        node(f"{name}-{n}", [gpu(f"gpu-{g}", root=f"pci0000:{16 * (9 + g):02x}") for g in range(2)])
        for n in range(nodes)
    ]
    objects = [*classes(), *(obj for part in parts for obj in part), *user("busy", f"{name}-3", "gpu-1")]
    path = folder / "dump.json"
    path.write_text("\n".join(json.dumps(obj) for obj in objects))
    return str(path)


async def _open(tab: Tab, page: Path, fragment: str = "") -> None:
    await tab.call("Page.navigate", url="about:blank")
    await tab.call("Page.navigate", url=f"{page.as_uri()}{fragment}")
    await tab.until("document.readyState === 'complete' && location.protocol === 'file:'")


async def test_a_waiting_vm_lights_up_what_is_in_its_way_and_a_way_out_what_it_changes(
    tab: Tab, tmp_path: Path
) -> None:
    await _open(tab, _report(tmp_path, EXPLAIN))
    assert await tab.value(LIT) == []
    await tab.value("document.querySelector('details.wait summary').click()")
    assert await tab.value("decodeURIComponent(location.hash)") == "#waits/VMI/team-a/vm-late"
    assert await tab.value(LIT) == [
        ["node-1", "in use", ["way", "way"]],
        ["node-2", "taint example.com/maintenance:NoSchedule isn't tolerated", ["way"]],
        ["node-3", "cordoned (unschedulable)", [""]],
        ["node-4", 'model is "L40S"', ["way"]],
    ]
    await tab.value("document.querySelectorAll('[data-way]')[0].click()")
    assert await tab.value(LIT) == [["node-1", "it would start here", ["", "takes"]]]
    assert await tab.value("document.querySelector('#map .message').textContent") == (
        "with gpu-1 of VM team-a/vm-b freed it would start on node-1. It would get gpu-1. "
        "VM team-a/vm-b would lose gpu-1."
    )
    assert await tab.value("document.querySelectorAll('[data-way]')[0].ariaPressed") == "true"
    assert tab.errors == []


async def test_each_object_has_a_fragment(tab: Tab, tmp_path: Path) -> None:
    page = _report(tmp_path, EXPLAIN)
    expected: dict[str, list[Any]] = {
        "#vm/team-a/vm-a": [["vms"], ["vm/team-a/vm-a"], ["node-1"], 1],
        "#node/node-3": [[], [], ["node-3"], 0],
        "#device/gpu.example.com/node-2/gpu-0": [[], [], ["node-2"], 1],
        "#reason/DeviceInUse": [["reasons"], ["reason/DeviceInUse"], [], 0],
    }
    shown = {}
    for fragment in expected:
        await _open(tab, page, fragment)
        shown[fragment] = await tab.value("""[
          [...document.querySelectorAll("details.part[open]")].map(part => part.id),
          [...document.querySelectorAll(":target")].map(target => target.id).filter(id => !id.startsWith("node/")),
          [...document.querySelectorAll("#map .node.asked h3")].map(title => title.textContent),
          document.querySelectorAll("#map .device.asked").length]""")
    assert shown == expected


async def test_many_nodes_are_a_heat_map_and_search_finds_what_is_folded(tab: Tab, tmp_path: Path) -> None:
    await _open(tab, _report(tmp_path, _fleet(tmp_path, 200)))
    titles = "[...document.querySelectorAll('#map .node h3')].map(title => title.textContent)"
    assert await tab.value(titles) == ["199 nodes like node-0", "node-3"]
    assert await tab.value("document.querySelectorAll('#map .heat:not(.scale) rect:not(.at)').length") == 200
    assert await tab.value(
        "[...document.querySelectorAll('#map .root span')].slice(0, 2).map(place => place.textContent)"
    ) == [
        "pci0000:90",
        "pci0000:a0",
    ]
    await tab.value("search.value = 'node-123'; search.dispatchEvent(new Event('input'))")
    assert await tab.value(titles) == ["node-123"]
    await tab.value(
        "search.value = ''; search.dispatchEvent(new Event('input')); document.querySelector('#map .heat').focus()"
    )
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        for kind in ("keyDown", "keyUp"):
            await tab.call("Input.dispatchKeyEvent", type=kind, key=key)
    await tab.until("location.hash === '#node/node-2' && document.querySelector('#map .node.asked') !== null")
    assert await tab.value("document.querySelector('#map .node.asked h3').textContent") == "node-2"
    assert tab.errors == []


async def test_tables_sort_filter_and_are_copied_without_formulas(tab: Tab, tmp_path: Path) -> None:
    await _open(tab, _report(tmp_path, EXPLAIN), "#vms")
    names = "[...document.querySelectorAll('#vms tbody tr:not([hidden])')].map(row => row.cells[0].textContent)"
    await tab.value(
        "document.querySelector('#vms th button').click(); document.querySelector('#vms th button').click()"
    )
    assert await tab.value(names) == ["team-a/vm-late", "team-a/vm-b", "team-a/vm-a"]
    assert await tab.value("document.querySelector('#vms th').ariaSort") == "descending"
    await tab.value(
        "const field = document.querySelector('#vms input'); field.value = 'node-1'; "
        "field.dispatchEvent(new Event('input'))"
    )
    assert await tab.value(names) == ["team-a/vm-b", "team-a/vm-a"]
    await tab.value("document.querySelector('#vms tbody tr:not([hidden]) td').textContent = '=1+\"2\"'")
    assert await tab.value("csv(document.querySelector('#vms table'))") == (
        '"VM","Phase","Node","Devices","Missing"\r\n'
        '"\'=1+""2""","Running","node-1","gpu=0000:c1:00.0",""\r\n'
        '"team-a/vm-a","Running","node-1","gpu=0000:41:00.0",""\r\n'
    )


async def test_nothing_is_cut_whatever_the_width_and_the_names(tab: Tab, tmp_path: Path) -> None:
    page = _report(tmp_path, EXPLAIN, _fleet(tmp_path, 9, "n" * 60 + ".example.com"))
    cut = {}  # but for names that are shortened and have a title
    for width in (400, 800, 1280):
        await tab.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        await _open(tab, page, "#waits/VMI/team-a/vm-late")
        await tab.value("document.querySelectorAll('details.part').forEach(part => { part.open = true; })")
        cut[width] = await tab.value("""[...document.querySelectorAll("main *")]
          .filter(element => !element.closest("svg, [title]") && element.getBoundingClientRect().right > innerWidth)
          .map(element => element.outerHTML.slice(0, 80))""")
        assert await tab.value("document.documentElement.scrollWidth <= innerWidth")
    assert cut == {400: [], 800: [], 1280: []}


async def test_paper_has_what_is_collapsed(tab: Tab, tmp_path: Path) -> None:
    await _open(tab, _report(tmp_path, EXPLAIN))
    shown = """[...document.querySelectorAll("#vms td, .wait li")].map(element =>
      element.checkVisibility({contentVisibilityAuto: true}) && element.getBoundingClientRect().height > 0)"""
    assert not any(await tab.value(shown))
    await tab.call("Emulation.setEmulatedMedia", media="print")
    await tab.until(f"({shown}).every(Boolean)")


async def test_pages_are_as_wcag_asks_in_light_and_dark(tab: Tab, tmp_path: Path) -> None:
    axe = axe_script()
    if axe is None:
        pytest.skip("needs axe-core: python -m devtools.axe")
    await tab.call("Page.setBypassCSP", enabled=True)
    pages = {
        "report": (),
        "topology": ("topology", "-f", EXPLAIN, "--vmi", "team-a/vm-late", "-o", "html"),
        "simulation": ("simulate", FLEET, "--policy", "pack,spread", "--until", "1h", "-o", "html"),
    }
    violations = {}
    for name, arguments in pages.items():
        page = _written(tmp_path, *arguments) if arguments else _report(tmp_path, EXPLAIN)
        for scheme in ("light", "dark"):
            await tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            await _open(tab, page)
            await tab.value("document.querySelectorAll('details.part').forEach(part => { part.open = true; })")
            await tab.value("document.querySelector('details.wait:not([open]) summary')?.click()")
            await tab.value(axe)
            ran = await tab.call("Runtime.evaluate", expression=_AXE, awaitPromise=True, returnByValue=True)
            result = ran["result"]["value"]
            assert len(result["passes"]) >= 10
            violations[name, scheme] = [
                (rule["id"], [at["html"] for at in rule["nodes"]]) for rule in result["violations"]
            ]
    assert violations == {(name, scheme): [] for name in pages for scheme in ("light", "dark")}
