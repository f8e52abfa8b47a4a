"""What is published beside the package: the packed chart, and kubectl's plugin with its manifest for krew."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from devtools.go_tools import go_tool
from devtools.publishing import Addresses, NotPublishable, chart_archive, plugin_archive, plugin_manifest

ROOT = Path(__file__).parents[2]
EPOCH = 1_700_000_000
WHEEL = ("virt_dra-0.2.0.dev0-py3-none-any.whl", b"wheel")
PUBLISHED = Addresses("registry.example.com/virt-dra", "https://example.com/releases/0.2.0/", "https://example.com")


def file(name: str) -> bytes:
    return (ROOT / name).read_bytes()


CHART_FILES = [str(path.relative_to(ROOT)) for path in (ROOT / "chart" / "virt-dra").rglob("*") if path.is_file()]


def chart(addresses: Addresses) -> tuple[str, bytes]:
    return chart_archive(file, CHART_FILES, "0.2.0.dev0", addresses, EPOCH)


def members(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return {
            member.name: extracted.read()
            for member in archive.getmembers()
            if (extracted := archive.extractfile(member)) is not None
        }


def test_the_packed_chart_has_the_charts_files_and_the_images_references() -> None:
    name, plain = chart(Addresses())
    _, published = chart(PUBLISHED)
    assert name == "virt-dra-0.2.0-dev.0.tgz"
    here = {f"virt-dra/{Path(path).relative_to('chart/virt-dra')}": file(path) for path in CHART_FILES}
    assert members(plain) == here
    values = yaml.safe_load(here["virt-dra/values.yaml"])
    filled = members(published)
    images = {
        "image": "registry.example.com/virt-dra/virt-dra:0.2.0.dev0",
        "launcherImage": "registry.example.com/virt-dra/virt-dra-launcher:0.2.0.dev0",
    }
    assert yaml.safe_load(filled.pop("virt-dra/values.yaml")) == values | images
    assert filled == {name: content for name, content in here.items() if name != "virt-dra/values.yaml"}


def test_archives_are_the_same_bytes_each_time_with_nobodys_name() -> None:
    assert chart(PUBLISHED) == chart(PUBLISHED)
    plugin = plugin_archive(file, WHEEL, "0.2.0.dev0", EPOCH)
    assert plugin == plugin_archive(file, WHEEL, "0.2.0.dev0", EPOCH)
    with tarfile.open(fileobj=io.BytesIO(plugin[1])) as archive:
        facts = {m.name: (m.mode, m.mtime, m.uid, m.uname) for m in archive.getmembers()}
    assert facts == {
        "kubectl-virt_dra": (0o755, EPOCH, 0, ""),
        **dict.fromkeys(("requirements.txt", "LICENSE", WHEEL[0]), (0o644, EPOCH, 0, "")),
    }


@pytest.mark.parametrize(
    "wrong", [("registry.example.com/", ""), ("a b", ""), ("$(x)", ""), ("", "http://example.com"), ("", 'https://a"b')]
)
def test_addresses_that_nobody_could_use_are_refused(wrong: tuple[str, str]) -> None:
    with pytest.raises(NotPublishable):
        Addresses(*wrong)


@pytest.mark.go
def test_helm_reads_the_packed_chart(tmp_path: Path) -> None:
    name, content = chart(PUBLISHED)
    (tmp_path / name).write_bytes(content)
    helm = go_tool("helm", "helm")
    values = subprocess.run(
        [helm, "show", "values", tmp_path / name], capture_output=True, text=True, check=True
    ).stdout
    assert yaml.safe_load(values)["image"] == "registry.example.com/virt-dra/virt-dra:0.2.0.dev0"


# --- kubectl's plugin -------------------------------------------------------------------------------------------------

PYTHON = """\
#!{python}
# Stands in for a Python that makes virtual environments: it notes what it is asked, and makes the programs of one.
import os, pathlib, shutil, sys
with open({log!r}, "a") as log:
    print(*(pathlib.PurePath(word).name for word in sys.argv[1:]), file=log)
if sys.argv[1] == "-c":
    sys.exit(0)
if sys.argv[1:3] == ["-m", "venv"]:
    programs = pathlib.Path(sys.argv[3]) / "bin"
    programs.mkdir()
    shutil.copy(__file__, programs / "python")
    (programs / "kubectl-virt_dra").write_text("#!/bin/sh\\necho called with \\"$@\\"\\n")
    (programs / "kubectl-virt_dra").chmod(0o755)
elif "--require-hashes" in sys.argv and os.environ.get("NO_INDEX"):
    sys.exit("no index")
"""


def krew(*arguments: str | Path, root: Path, **environment: str) -> str:
    answer = subprocess.run(
        [go_tool("krew", "krew"), *arguments],
        env={"PATH": os.environ["PATH"], "HOME": str(root), "KREW_ROOT": str(root), "KREW_NO_UPGRADE_CHECK": "1"}
        | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.fixture
def published(tmp_path: Path) -> tuple[Path, Path]:
    """The plugin's manifest and archive."""
    name, content = plugin_archive(file, WHEEL, "0.2.0.dev0", EPOCH)
    manifest = plugin_manifest(file, name, hashlib.sha256(content).hexdigest(), "0.2.0.dev0", PUBLISHED)
    (tmp_path / name).write_bytes(content)
    (tmp_path / "virt-dra.yaml").write_bytes(manifest)
    return tmp_path / "virt-dra.yaml", tmp_path / name


@pytest.mark.go
def test_krews_validator_accepts_the_manifest(published: tuple[Path, Path]) -> None:
    manifest, archive = published
    subprocess.run(
        [go_tool("krew", "validate-krew-manifest"), "-manifest", manifest, "-skip-install"],
        check=True,
        capture_output=True,
    )
    (platform,) = yaml.safe_load(manifest.read_text())["spec"]["platforms"]
    assert platform["uri"] == f"https://example.com/releases/0.2.0/{archive.name}"
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()


@pytest.mark.go
def test_krew_installs_it_and_the_first_call_makes_its_environment(
    published: tuple[Path, Path], tmp_path: Path
) -> None:
    root, programs, log = tmp_path / "krew", tmp_path / "programs", tmp_path / "log"
    programs.mkdir()
    for name in ("python3", *(f"python3.{minor}" for minor in range(11, 15))):
        (programs / name).write_text(PYTHON.format(python=sys.executable, log=str(log)))
        (programs / name).chmod(0o755)
    manifest, archive = published
    krew("install", "--manifest", manifest, "--archive", archive, root=root)

    def call(**environment: str) -> tuple[int, str]:
        answer = subprocess.run(
            [root / "bin" / "kubectl-virt_dra", "get", "a b"],
            env={"PATH": f"{programs}:{os.environ['PATH']}", **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return answer.returncode, answer.stdout

    assert call(NO_INDEX="1") == (1, "")  # and leaves nothing behind that the next call would take for complete
    log.unlink()
    assert call() == (0, "called with get a b\n")
    steps = [line.split()[:3] for line in log.read_text().splitlines()]
    assert steps[0][0] == "-c"
    assert [step[1] for step in steps[1:]] == ["venv", "pip", "pip"]
    log.unlink()
    assert call() == (0, "called with get a b\n")
    assert not log.exists()


def test_a_machine_without_a_python_that_is_new_enough_is_told_so(tmp_path: Path) -> None:
    for name in ("python3", *(f"python3.{minor}" for minor in range(11, 15))):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "kubectl-virt_dra").write_bytes(file("krew/kubectl-virt_dra"))
    answer = subprocess.run(
        ["sh", tmp_path / "kubectl-virt_dra"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (1, "virt-dra: Python 3.11 or newer isn't installed\n")
    assert not list(tmp_path.glob("environment*"))
