"""``run --out`` on a disk that fills up at each of its writes: what is there is whole, the message says which file, and
what to do."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.full_disk import on_a_disk

pytestmark = pytest.mark.root

ROOT = Path(__file__).parent.parent.parent
PROGRAM = Path(sys.executable).with_name("virt-dra")
EXAMPLE = "examples/gpu-pci"
ERROR = re.compile(
    r"error: cannot write below (?P<out>\S+): (?P<file>\S+): No space left on "
    r"device; name another folder with --out, or free some space: "
    r"the result is incomplete\n"
)
BEFORE = "<domain>of an earlier run</domain>"


def files_of(folder: Path) -> dict[str, object]:
    """What files say, by name, but for what is another in each run; raises for half a file of YAML."""
    return {shape(str(path.relative_to(folder))): told(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def told(path: Path) -> object:
    text = shape(path.read_text())
    return text if path.suffix == ".xml" else yaml.safe_load(text)


def shape(text: str) -> str:
    return re.sub(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z|-[a-z0-9]{5}\b", "X", text)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What a run writes where there is room."""
    out = tmp_path_factory.mktemp("whole") / "out"
    subprocess.run([PROGRAM, "run", EXAMPLE, "--out", out], cwd=ROOT, check=True, capture_output=True)
    return files_of(out)


def test_no_file_is_left_half_written(tmp_path: Path, whole: dict[str, object]) -> None:
    """On disks that are full from the beginning, with the last file, or not at all. Each has a domain of an earlier
    run."""
    failed: set[str] = set()
    domain = next(name for name in whole if name.endswith(".xml"))
    files = len(whole)  # of a page each; the earlier run's domain takes another
    for size in (
        "nr_inodes=8",
        *(f"size={pages * 4}k" for pages in (2, files // 2, files - 1, files, files + 1, files + 9)),
    ):
        kept = tmp_path / size
        (kept / "out/domains").mkdir(parents=True)
        (kept / "out" / domain).write_text(BEFORE)
        ran = on_a_disk(tmp_path / "disk", kept, size, (PROGRAM, "run", ROOT / EXAMPLE, "--out", tmp_path / "disk/out"))
        left = files_of(kept / "out")
        assert not list(kept.rglob("*.tmp"))
        if ran.returncode == 0:
            assert left == whole
            continue
        match = ERROR.fullmatch(ran.stderr)
        assert (ran.returncode, bool(match)) == (2, True), ran.stderr
        assert match is not None
        assert (match["out"], match["file"].startswith(match["out"])) == (str(tmp_path / "disk/out"), True)
        failed.add(Path(match["file"]).suffix)
        assert left.pop(domain) in (BEFORE, whole[domain])
        assert {name: said for name, said in left.items() if whole.get(name) != said} == {}
    assert {".yaml", ".xml"} <= failed


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_who_asked_for_a_document_gets_one(tmp_path: Path, output: str) -> None:
    ran = on_a_disk(
        tmp_path / "disk",
        tmp_path / "kept",
        "size=8k",
        (PROGRAM, "run", ROOT / EXAMPLE, "--out", tmp_path / "disk/out", "-o", output),
    )
    document = yaml.safe_load(ran.stdout)
    assert (ran.returncode, list(document)) == (2, ["apiVersion", "kind", "error", "problems"])
    assert "No space left on device" in document["error"]
