"""``virt-dra topology``: the tree, folding, the overlay, pictures and the page, bad input, hostile names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from tests.cli.pages import page_data, refused_by_policy
from tests.simulator.explaining.clusters import classes, gpu, node, user
from virt_dra.cli.main import cli
from virt_dra.inventory.topology import SHARED_PLACE, UNPUBLISHED_PLACE

EXAMPLES = Path(__file__).parents[3] / "examples"
EXPLAIN, INVENTORY = str(EXAMPLES / "explain"), str(EXAMPLES / "inventory")


def _run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["topology", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def _dump(folder: Path, *parts: object) -> str:
    objects = [obj for part in (classes(), *parts) for obj in (part if isinstance(part, list) else [part])]
    path = folder / "dump.json"
    path.write_text("\n".join(json.dumps(obj) for obj in objects))
    return str(path)


def _fleet(folder: Path, nodes: int) -> str:
    """Nodes of two kinds; of each kind one has a device in use."""
    parts = [
        node(f"node-{n}", [gpu(f"gpu-{g}", "H100" if n % 2 else "L40S", root=f"r{g // 4}-{n}") for g in range(8)])
        for n in range(nodes)
    ]
    return _dump(folder, *parts, user("a", "node-0", "gpu-3"), user("b", "node-1", "gpu-6"))


def test_devices_stand_below_their_node_with_state_and_holder() -> None:
    result = _run("-f", EXPLAIN)
    assert result.exit_code == 0
    assert result.stdout == (
        "node-1: 2 × H100, 0 free\n"
        "├── ● gpu-0  H100  0000:41:00.0  allocated: VM team-a/vm-a\n"
        "└── ● gpu-1  H100  0000:c1:00.0  allocated: VM team-a/vm-b\n"
        "node-2: 1 × H100, 0 free\n"
        "└── ▲ gpu-0  H100  0000:41:00.0  tainted\n"
        "node-3: 1 × H100, 1 free\n"
        "└── ○ gpu-0  H100  0000:41:00.0  free\n"
        "node-4: 1 × L40S, 1 free\n"
        "└── ○ gpu-0  L40S  0000:41:00.0  free\n"
    )


def test_the_answer_for_a_vm_is_laid_over_it() -> None:
    assert _run("-f", EXPLAIN, "--vmi", "team-a/vm-late").stdout == (
        "node-1: 2 × H100, 0 free\n"
        "├── ✘ gpu-0  H100  0000:41:00.0  allocated: VM team-a/vm-a; refused: in use\n"
        "└── ✘ gpu-1  H100  0000:c1:00.0  allocated: VM team-a/vm-b; refused: in use\n"
        "node-2: 1 × H100, 0 free\n"
        "└── ✘ gpu-0  H100  0000:41:00.0  tainted; refused: taint example.com/maintenance:NoSchedule isn't tolerated\n"
        "node-3: 1 × H100, 1 free\n"
        "└── ✘ gpu-0  H100  0000:41:00.0  free; refused: cordoned (unschedulable)\n"
        "node-4: 1 × L40S, 1 free\n"
        '└── ✘ gpu-0  L40S  0000:41:00.0  free; refused: model is "L40S"\n'
    )
    held = _run("-f", EXPLAIN, "--vmi", "team-a/vm-a").stdout
    assert "✔ gpu-0  H100  0000:41:00.0  allocated: VM team-a/vm-a; chosen\n" in held


def test_nodes_that_are_alike_are_one(tmp_path: Path) -> None:
    titles = [
        line for line in _run("-f", _fleet(tmp_path, 500)).stdout.splitlines() if line.startswith(("node", "249"))
    ]
    assert titles == [
        "node-0: 8 × L40S, 7 free",
        "node-1: 8 × H100, 7 free",
        "249 nodes like node-2: 8 × L40S, 8 free",
        "249 nodes like node-3: 8 × H100, 8 free",
    ]


def test_nodes_by_themselves(tmp_path: Path) -> None:
    dump = _fleet(tmp_path, 12)
    document = json.loads(_run("-f", dump, "--no-fold", "-o", "json").stdout)
    assert [fold["nodes"] for fold in document["folds"]] == [[f"node-{number}"] for number in range(12)]
    folds = json.loads(_run("-f", dump, "--node", "node-1", "-o", "json").stdout)["folds"]
    assert [(fold["nodes"], fold["free"], [group["pcieRoot"] for group in fold["groups"]]) for fold in folds] == [
        (["node-1"], 7, ["r0-1", "r1-1"])
    ]
    missing = _run("-f", dump, "--node", "nod-1")
    assert (missing.exit_code, missing.stderr) == (2, "error: there is no node nod-1; did you mean node-1?\n")


def test_devices_that_no_single_node_has_come_last() -> None:
    folds = json.loads(_run("-f", INVENTORY, "-o", "json").stdout)["folds"]
    assert [fold["nodes"] for fold in folds] == [["node-1"], ["node-2"], [SHARED_PLACE], [UNPUBLISHED_PLACE]]


@pytest.mark.parametrize("nodes", [8, 500])
def test_the_picture_is_an_svg_whose_boxes_do_not_overlap(tmp_path: Path, nodes: int) -> None:
    svg = ElementTree.fromstring(_run("-f", _fleet(tmp_path, nodes), "-o", "svg").stdout)
    name = "{http://www.w3.org/2000/svg}"
    cards = [element for element in svg.findall(f"{name}g") if element.find(f"{name}rect[@rx='8']") is not None]
    places = []
    for card in cards:
        x, y = map(int, re.findall(r"\d+", card.attrib["transform"]))
        frame = card.find(f"{name}rect[@rx='8']")
        assert frame is not None
        places.append((x, y, x + int(frame.attrib["width"]), y + int(frame.attrib["height"])))
    assert len(places) == 4
    for number, (left, top, right, bottom) in enumerate(places):
        for other in places[number + 1 :]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_a_png_where_its_libraries_are(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py", reason="make test installs it on Linux")
    result = _run("-f", EXPLAIN, "-o", "png", "--out", str(tmp_path / "topology.png"))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "topology.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_page_loads_nothing_and_has_a_card_per_group(tmp_path: Path) -> None:
    page = _run("-f", _fleet(tmp_path, 500), "-o", "html").stdout
    assert refused_by_policy(page) == []
    data = page_data(page)
    assert [len(nodes) for nodes in data["folds"]] == [1, 1, 249, 249]
    assert [node["name"] for node in data["nodes"]] == [f"node-{number}" for number in range(500)]
    assert not re.search(r"(src|href)=", page)


def test_what_drivers_and_tenants_wrote_stays_text(tmp_path: Path) -> None:
    hostile = '<script>alert(1)</script>"\x1b[31m' + "x" * 10_000
    dump = _dump(tmp_path, node("n1", [gpu("g0", hostile)]))
    text = _run("-f", dump).stdout
    assert all(line.isprintable() for line in text.splitlines())
    for output in ("svg", "html"):
        drawn = _run("-f", dump, "-o", output).stdout
        assert "<script>alert" not in drawn
        assert "\x1b" not in drawn
    ElementTree.fromstring(_run("-f", dump, "-o", "svg").stdout)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-f", EXPLAIN, "--claim", "a/b", "--vmi", "a/b"), "give one of --claim and --vmi"),
        (("-f", EXPLAIN, "-o", "png"), "-o png needs --out FILE"),
        (
            ("-f", EXPLAIN, "--vmi", "team-a/vm-lat"),
            "there is no VMI vm-lat in namespace team-a; did you mean vm-late?",
        ),
        ((), "say what to read: files with -f, or a cluster with --live"),
        (("-f", EXPLAIN, "-o", "svg", "--out", "/nowhere/x.svg"), "/nowhere/x.svg: No such file or directory"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...], said: str) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
