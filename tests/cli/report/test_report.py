"""``virt-dra report``: what it says, as a document and as a page; hostile names; a browser; bad input."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.pages import allowing, refused_by_policy
from tests.json_schema import faults, schema_named
from tests.simulator.explaining.clusters import claim, classes, gpu, node, pod, user
from virt_dra.cli.main import cli

EXPLAIN = str(Path(__file__).parents[3] / "examples" / "explain")
KEEP = str(Path(__file__).parents[3] / "examples" / "keep")
INVENTORY = str(Path(__file__).parents[3] / "examples" / "inventory")
_VOID = {"meta", "input", "br"}
_OPTIONAL = {"p", "li", "td", "th"}


def _run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["report", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def _written(folder: Path, *arguments: str) -> str:
    out = folder / "report"
    result = _run("--out", str(out), *arguments)
    assert (result.exit_code, result.stdout) == (0, f"written to {out}\n"), result.output
    return out.read_text(encoding="utf-8")


def _tiles(page: str) -> dict[str, str]:
    """What a tile says, and its number."""
    return {said: number for number, said in re.findall(r'<a class="tile[^>]*><b>([^<]*)</b>([^<]*)', page)}


def test_devices_that_stopped_vms_keep_are_listed(tmp_path: Path) -> None:
    document = json.loads(_written(tmp_path, "-f", KEEP, "-o", "json"))
    assert faults(document, schema_named("report")) == []
    assert document["kept"] == [
        {
            "driver": "gpu.example.com",
            "pool": "node-1",
            "device": "gpu-0",
            "namespace": "team-a",
            "vm": "trainer",
            "claim": "trainer-gpu",
            "stoppedSince": "2026-11-20T08:00:00Z",
            "keptUntil": "2026-11-21T08:00:00Z",
            "keptUntilIs": "exact",
            "keepLimit": None,
        }
    ]
    page = _written(tmp_path, "-f", KEEP)
    assert '<span class="count" data-of="1 device, 1 namespace"' in page
    row = page.partition('<details class="part" id="kept"')[2].partition("</details>")[0]
    assert re.findall(r'<td data-label="([^"]+)">(?:<a [^>]*>)?([^<]*)', row) == [
        ("Device", "gpu.example.com/node-1/gpu-0"),
        ("VM", "team-a/trainer"),
        ("Claim", "trainer-gpu"),
        ("Stopped since", "2026-11-20T08:00:00Z"),
        ("Kept until", "2026-11-21T08:00:00Z"),
    ]
    assert 'id="kept"' not in _written(tmp_path, "-f", EXPLAIN)


def test_a_stopped_vm_doesnt_wait_and_a_device_counts_once_in_the_bar(tmp_path: Path) -> None:
    """Five of nine devices are held, one of them unhealthy, and one is free."""
    page = _written(tmp_path, "-f", INVENTORY)
    assert "<title>1 waiting, 5 of 9 devices in use</title>" in page
    assert 'id="waits/VM/team-b/archive"' not in page
    bars = re.findall(
        r'meter-held" width="([\d.]+)" height="10"/><rect class="meter-out" x="([\d.]+)" width="([\d.]+)"', page
    )
    said = re.findall(r"(\d+) of (\d+) in use, (\d+) free", page)
    assert bars[0] == ("55.6", "55.6", "33.3")
    assert len(bars) == 1 + len(said) == 6
    for (held, start, neither), numbers in zip(bars[1:], said, strict=True):
        used, everything, free = map(int, numbers)
        assert held == start == f"{100 * used / everything:.1f}"
        assert neither == f"{100 * (everything - used - free) / everything:.1f}"
    assert _tiles(page)["VMs running with all devices, 1 stopped"] == "1 of 4"


def test_a_vm_that_is_stopped_is_no_alarm(tmp_path: Path) -> None:
    """Nor is it ready; one that was never started isn't stopped."""
    cluster = tmp_path / "vms.yaml"
    for strategies, tile in (
        ({"at-rest": "Halted"}, (" fine", "0 of 0")),
        ({"at-rest": "Halted", "new": "Always"}, (" alarm", "0 of 1")),
    ):
        vms = [
            {
                "apiVersion": "kubevirt.io/v1",
                "kind": "VirtualMachine",
                "metadata": {"name": name},
                "spec": {"runStrategy": strategy, "template": {"spec": {"domain": {"devices": {}}}}},
            }
            for name, strategy in strategies.items()
        ]
        cluster.write_text("\n---\n".join(map(json.dumps, vms)))
        page = _written(tmp_path, "-f", str(cluster))
        assert re.findall(
            r'class="tile( alarm| fine|)" href="#vms"><b>([^<]*)</b>VMs running with all devices, 1 stopped<', page
        ) == [tile]


def test_the_document_has_numbers_vms_explanations_and_how_free_devices_lie(tmp_path: Path) -> None:
    document = json.loads(_written(tmp_path, "-f", EXPLAIN, "-o", "json"))
    assert faults(document, schema_named("report")) == []
    printed = CliRunner().invoke(cli, ["report", "-f", EXPLAIN, "-f", INVENTORY, "-o", "json"])
    assert printed.exit_code == 0
    assert faults(json.loads(printed.stdout), schema_named("report")) == []
    nothing = CliRunner().invoke(cli, ["report", "-f", "nothing.yaml", "-o", "json"])
    assert (nothing.exit_code, json.loads(nothing.stdout)["kind"]) == (2, "Error")
    assert {name: document[name] for name in ("kind", "nodes", "devices", "findings", "takenByDay", "notes")} == {
        "kind": "Report",
        "nodes": 4,
        "devices": {"allocated": 2, "free": 2, "tainted": 1},
        "findings": [],
        "takenByDay": {"2026-11-20": 1, "2026-11-21": 1},
        "notes": [],
    }
    assert [(row["name"], row["phase"]) for row in document["vms"]] == [
        ("vm-a", "Running"),
        ("vm-b", "Running"),
        ("vm-late", "Pending"),
    ]
    assert [row["subject"] for row in document["waiting"]] == ["VMI team-a/vm-late"]
    assert document["waiting"][0]["waysOut"][0]["text"] == "with gpu-1 of VM team-a/vm-b freed it would start on node-1"
    assert document["free"] == [
        {"model": "H100", "free": 1, "total": 4, "largestOnANode": 1, "nodesFor": {"1": 1, "2": 0, "4": 0, "8": 0}},
        {"model": "L40S", "free": 1, "total": 1, "largestOnANode": 1, "nodesFor": {"1": 1, "2": 0, "4": 0, "8": 0}},
    ]


class _Balanced(HTMLParser):
    """Fails for an end tag that nothing begins."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID | _OPTIONAL:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _OPTIONAL:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Nothing is opened."""


def test_the_page_is_whole_and_loads_nothing(tmp_path: Path) -> None:
    page = _written(tmp_path, "-f", EXPLAIN)
    parser = _Balanced()
    parser.feed(page)
    assert parser.open == []
    assert refused_by_policy(page) == []
    assert not re.search(r"\ssrc=|href=\"(?!#)", page)
    assert "with gpu-1 of VM team-a/vm-b freed it would start on node-1" in page


def test_what_users_wrote_stays_text(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>\x1b[31m"
    late = [claim("late-gpu", selectors=["false"]), pod("late", ["late-gpu"])]
    objects = [*classes(), *node("n1", [gpu("g0", hostile)]), *late, *user("u", "n1", "g0")]
    (tmp_path / "dump.json").write_text("\n".join(json.dumps(obj) for obj in objects))
    page = _written(tmp_path, "-f", str(tmp_path / "dump.json"))
    assert "<script>alert" not in page
    assert "\x1b" not in page


def test_as_many_are_explained_as_asked_for(tmp_path: Path) -> None:
    late = [part for number in range(3) for part in (claim(f"c{number}"), pod(f"p{number}", [f"c{number}"]))]
    objects = [*classes(), *node("n1", []), *late]
    (tmp_path / "dump.json").write_text("\n".join(json.dumps(obj) for obj in objects))
    page = _written(tmp_path, "-f", str(tmp_path / "dump.json"), "--most", "2")
    assert page.count('<details class="wait') == 2
    assert "and 1 more, not explained" in page


@pytest.mark.slow
def test_a_browser_shows_it_without_an_error(tmp_path: Path) -> None:
    page = _written(tmp_path, "-f", EXPLAIN)
    # The filter is used as a reader would, once the page is there.
    probe = """
addEventListener("load", () => {
  search.value = "vm-late"; search.dispatchEvent(new Event("input"));
  document.title = found.textContent;
});
addEventListener("error", event => { document.title = "error: " + event.message; });
"""
    (tmp_path / "probed.html").write_text(allowing(page, probe), encoding="utf-8")
    assert _title(tmp_path / "probed.html") == "2 of 12 match, 0 nodes"


@pytest.mark.parametrize("name", ["page.html", "page.json", "a.b.html"])
def test_a_name_of_a_file_says_the_format(tmp_path: Path, name: str) -> None:
    result = CliRunner().invoke(cli, ["report", "-f", EXPLAIN, "-o", str(tmp_path / name)])
    assert (result.exit_code, result.output) == (0, f"written to {tmp_path / name}\n")
    assert (tmp_path / name).read_text(encoding="utf-8").startswith("<!doctype html>" if name.endswith("html") else "{")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "scheme"), [(0, "dark"), (1, "light")])
@pytest.mark.parametrize(("command", "texts"), [("report", "many"), ("topology", "many")])
def test_all_text_has_the_contrast_that_wcag_asks_for(
    tmp_path: Path, command: str, texts: str, number: int, scheme: str
) -> None:
    topology = ["topology", "-f", EXPLAIN, "-o", "html"]
    page = _written(tmp_path, "-f", EXPLAIN) if command == "report" else CliRunner().invoke(cli, topology).stdout
    probe = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
    (tmp_path / "probed.html").write_text(allowing(page, probe), encoding="utf-8")
    title = _title(tmp_path / "probed.html", f"--blink-settings=preferredColorScheme={number}")
    assert title == f"{scheme}, {texts} texts, too low: "


def _title(page: Path, *options: str) -> str:
    """The title that a page's script has given it in headless Chromium."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("needs Chromium: apt install chromium")
    profile = f"--user-data-dir={page.parent / 'profile'}"
    given = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=2000",
        profile,
        *options,
        "--dump-dom",
        f"file://{page}",
    )
    ran = subprocess.run([browser, *given], capture_output=True, text=True, check=True, timeout=120)
    match = re.search(r"<title>(.*?)</title>", ran.stdout)
    assert match is not None
    return match[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-f", EXPLAIN), "name the file to write: -o report.html, or --out FILE"),
        (("-f", EXPLAIN, "-o", "yaml"), "'yaml' is neither html, json, nor the name of a file: FILE.html or FILE.json"),
        (
            ("-f", EXPLAIN, "-o", "x.yaml"),
            "'x.yaml' is neither html, json, nor the name of a file: ",
        ),
        (("-f", EXPLAIN, "-o", "x.html", "--out", "y.html"), "--out y.html and -o x.html both name a file"),
        (("-f", "/nowhere.yaml", "--out", "x.html"), "/nowhere.yaml: no such file or folder"),
        (("-f", EXPLAIN, "--out", "/nowhere/x.html"), "/nowhere/x.html: No such file or directory"),
        (("--out", "x.html"), "say what to read: files with -f, or a cluster with --live"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...], said: str) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert said in result.output
