"""A release is the same for everybody who makes it of the same commit, and says what it consists of."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from devtools import locks
from devtools.release import BILLS, ReleaseError, bill, built, main, materials, release, same_sdist, statement
from virt_dra.cli.main import SUBCOMMANDS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CYCLONEDX = ROOT / ".tools" / "bin" / "cyclonedx-py"


def _clone(to: Path, umask: int, mtime: int) -> Path:
    """A clean clone, made as somebody else would at another time."""
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, to], check=True, umask=umask)
    for path in to.rglob("*"):
        if ".git" not in path.parts and not path.is_symlink():
            os.utime(path, (mtime, mtime))
    return to


def test_two_builds_of_a_commit_are_the_same_bytes_whoever_makes_them(tmp_path: Path) -> None:
    building = []
    for name, umask, mtime, zone in (
        ("one", 0o077, 1_000_000_000, "Asia/Tokyo"),
        ("two", 0o002, 1_700_000_000, "America/Lima"),
    ):
        source = _clone(tmp_path / name, umask, mtime)
        environment = {
            **os.environ,
            "TZ": zone,
            "PYTHONHASHSEED": str(umask),
            "SOURCE_DATE_EPOCH": str(mtime),
            "HOME": str(tmp_path),
        }
        words: list[str | Path] = [
            sys.executable,
            "-m",
            "devtools.release",
            "wheel",
            "--source",
            source,
            "--out",
            tmp_path / f"{name}-out",
        ]
        building.append(subprocess.Popen(words, cwd=ROOT, env=environment, umask=umask, stdout=subprocess.DEVNULL))
    assert [process.wait(120) for process in building] == [0, 0]
    first, two = (
        {path.name: path.read_bytes() for path in (tmp_path / f"{name}-out").iterdir()} for name in ("one", "two")
    )
    assert first.keys() == two.keys()
    assert {Path(name).suffix for name in first} == {".whl", ".gz"}
    for name in first:
        assert hashlib.sha256(first[name]).digest() == hashlib.sha256(two[name]).digest(), name
    wheel = zipfile.ZipFile(io.BytesIO(next(content for name, content in first.items() if name.endswith(".whl"))))
    names = wheel.namelist()
    assert "virt_dra/manifests/rbac/kustomization.yaml" in names or any(
        name.startswith("virt_dra/manifests/") for name in names
    )
    pages = {Path(name).name for name in names if "/data/share/man/man1/" in name}
    assert pages == {
        "virt-dra.1",
        "virt-dra-launcher.1",
        "virt-dra-hook.1",
        *(f"virt-dra-{name}.1" for name in SUBCOMMANDS),
    }
    assert not [name for name in names if name.startswith(("tests/", "devtools/", "bench/"))]
    assert {entry.external_attr >> 16 & 0o777 for entry in wheel.infolist()} <= {0o644, 0o664, 0o755}


def test_an_sdist_keeps_its_files_and_loses_who_and_when() -> None:
    packed = []
    for order, uid, mode in (("ab", 0, 0o600), ("ba", 1000, 0o664)):
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w:gz") as files:
            for name in order:
                member = tarfile.TarInfo(name)
                member.uid, member.uname, member.mode, member.size, member.mtime = uid, f"user-{uid}", mode, 1, uid
                files.addfile(member, io.BytesIO(name.encode()))
        packed.append(same_sdist(raw.getvalue(), 1_700_000_000))
    assert packed[0] == packed[1]
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed[0]))) as files:
        archived = {file.name: (file.mode, file.uid, file.uname, file.mtime, files.extractfile(file)) for file in files}
    assert {name: (*facts[:4],) for name, facts in archived.items()} == dict.fromkeys(
        "ab", (0o644, 0, "", 1_700_000_000)
    )


def test_the_statement_names_what_was_made_of_what() -> None:
    made = statement(
        {"b": "2" * 64, "a": "1" * 64},
        [{"uri": "git+x", "digest": {"gitCommit": "c" * 40}}],
        "urn:me",
        {"commit": "c" * 40},
    )
    assert made["_type"] == "https://in-toto.io/Statement/v1"
    assert made["predicateType"] == "https://slsa.dev/provenance/v1"
    assert [(artifact["name"], artifact["digest"]["sha256"][0]) for artifact in made["subject"]] == [
        ("a", "1"),
        ("b", "2"),
    ]
    definition = made["predicate"]["buildDefinition"]
    assert definition["resolvedDependencies"] == [{"uri": "git+x", "digest": {"gitCommit": "c" * 40}}]
    assert definition["externalParameters"] == {"commit": "c" * 40}
    assert made["predicate"]["runDetails"] == {"builder": {"id": "urn:me"}}


def test_materials_are_the_commit_every_lock_file_and_the_base_image() -> None:
    inputs = materials(ROOT, "HEAD", "git+x")
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert inputs[0] == {"uri": "git+x", "digest": {"gitCommit": head}}
    assert {input_["name"] for input_ in inputs[1:-1]} >= {
        f"requirements/{name}.txt" for name in (*locks.EXTRAS_OF, "setup", "tools")
    }
    assert {input_["name"] for input_ in inputs[1:-1]} >= {"tools/control-plane/kubernetes/go.sum"}
    assert inputs[-1]["uri"].startswith("oci://docker.io/library/debian:")
    assert len(inputs[-1]["digest"]["sha256"]) == 64


def _repository(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, content in {"file": "x", **files}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def test_there_is_no_release_of_files_that_nobody_else_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = _repository(tmp_path / "source")
    (source / "file").write_text("y", encoding="utf-8")
    assert main(["all", "--source", str(source), "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == "release: files differ from the commit, so nobody could build the same: M file\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("lock", "said"),
    [
        (
            f"setuptools==1.2.3 --hash=sha256:{'0' * 64}\n",
            "setuptools is .*, HEAD locks 1.2.3: check it out and run tools/venv.sh dev",
        ),
        ("", "requirements/setup.txt of HEAD locks no setuptools"),
        (None, "has no requirements/setup.txt in HEAD"),
    ],
)
def test_setuptools_is_the_one_that_the_built_commit_locks(lock: str | None, said: str, tmp_path: Path) -> None:
    files = {"pyproject.toml": "", **({} if lock is None else {"requirements/setup.txt": lock})}
    source = _repository(tmp_path / "source", **files)
    with pytest.raises(ReleaseError, match=said):
        built(source, tmp_path / "out")


def test_a_release_is_not_mixed_with_another(tmp_path: Path) -> None:
    source = _repository(tmp_path / "source")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.whl").touch()
    with pytest.raises(ReleaseError, match="is not empty"):
        release(source, tmp_path / "out", CYCLONEDX, uri="git+x", builder="urn:me")
    assert (
        main(["wheel", "--source", str(source), "--out", str(tmp_path / "wheel")]) == 1
    )  # no project: one line and no traceback


@pytest.mark.parametrize("image", BILLS)
def test_a_bill_of_materials_lists_what_the_image_has_with_its_hashes(image: str) -> None:
    if not CYCLONEDX.exists():
        message = "no cyclonedx-py: tools/venv.sh tools (make audit does it)"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    document: dict[str, Any] = json.loads(bill(ROOT, "HEAD", image, CYCLONEDX))
    text = subprocess.run(
        ["git", "show", f"HEAD:requirements/{BILLS[image]}.txt"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    entries, _ = locks.read(text)
    assert (document["bomFormat"], document["specVersion"], document["metadata"]["component"]["name"]) == (
        "CycloneDX",
        "1.6",
        image,
    )
    assert {(component["name"], component["version"]) for component in document["components"]} == {
        (entry.requirement.name, entry.version) for entry in entries
    }
    listed = json.dumps(document)
    assert all(value.removeprefix("sha256:") in listed for entry in entries for value in entry.hashes)
