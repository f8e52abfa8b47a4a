"""What a folder holds can't lead elsewhere: links, pipes, devices, sockets, and changes between looking and opening."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import ObjectMeta
from virt_dra.cluster.files import read_inputs, save_folder
from virt_dra.cluster.manifest_file import ChangedMeanwhile, ManifestFile

POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {}\n"
OUTSIDE = "a link to {}, which is outside of this folder. Name the file itself if it is meant"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a manifest, beside a secret that isn't in it."""
    (tmp_path / "secret.yaml").write_text(POD.format("secret"))
    (tmp_path / "folder" / "sub").mkdir(parents=True)
    (tmp_path / "folder" / "sub" / "good.yaml").write_text(POD.format("good"))
    return tmp_path / "folder"


def _read(path: Path) -> tuple[list[str], list[str]]:
    """Names of objects, and problems without the folders above."""
    loaded = read_inputs([path])
    return [sourced.object.name for sourced in loaded.objects], [str(problem) for problem in loaded.problems]


def test_links_that_leave_the_folder_are_refused_and_those_within_are_followed(folder: Path) -> None:
    (folder / "absolute.yaml").symlink_to(folder.parent / "secret.yaml")
    (folder / "sub" / "relative.json").symlink_to("../../secret.yaml")
    (folder / "sub" / "chain.yaml").symlink_to("../absolute.yaml")
    (folder / "gone.yaml").symlink_to("nowhere.yaml")
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "elsewhere").symlink_to(folder.parent)
    (folder / "through.yaml").symlink_to("elsewhere/secret.yaml")
    (folder / "within.yml").symlink_to("sub/good.yaml")
    secret = OUTSIDE.format(folder.parent / "secret.yaml")
    assert _read(folder) == (
        ["good"],
        [
            f"{folder}/absolute.yaml: {secret}",
            f"{folder}/gone.yaml: a link to nowhere.yaml, which does not exist",
            f"{folder}/loop.yaml: not a regular file but a link that leads nowhere",
            f"{folder}/sub/chain.yaml: {secret}",
            f"{folder}/sub/relative.json: {secret}",
            f"{folder}/through.yaml: {secret}",
        ],
    )


def test_a_mounted_configmap_is_read(tmp_path: Path) -> None:
    (tmp_path / "..2026_11_25").mkdir()
    (tmp_path / "..2026_11_25" / "pod.yaml").write_text(POD.format("mounted"))
    (tmp_path / "..data").symlink_to("..2026_11_25")
    (tmp_path / "pod.yaml").symlink_to("..data/pod.yaml")
    assert _read(tmp_path) == (["mounted"], [])


def test_only_regular_files_are_read(folder: Path) -> None:
    os.mkfifo(folder / "pipe.yaml")
    (folder / "linked-pipe.yaml").symlink_to("pipe.yaml")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket.json"))
        assert _read(folder) == (
            ["good"],
            [
                f"{folder}/linked-pipe.yaml: not a regular file but a named pipe",
                f"{folder}/socket.json: not a regular file but a socket",
            ],
        )


def test_a_device_is_neither_read_nor_opened(folder: Path) -> None:
    (folder / "endless.yaml").symlink_to("/dev/zero")
    assert _read(folder) == (["good"], [f"{folder}/endless.yaml: {OUTSIDE.format('/dev/zero')}"])
    assert _read(Path("/dev/fd")) == ([], ["/dev/fd: no manifests in this folder; they must end in .yaml, .yml, .json"])


def test_what_is_named_is_opened_as_it_is(folder: Path) -> None:
    (folder / "link.yaml").symlink_to(folder.parent / "secret.yaml")
    os.mkfifo(folder / "pipe")
    writer = threading.Thread(target=lambda: (folder / "pipe").write_text(POD.format("piped")))
    writer.start()
    loaded = read_inputs([folder / "link.yaml", folder / "pipe"])
    writer.join()
    assert ([sourced.object.name for sourced in loaded.objects], loaded.problems) == (["secret", "piped"], ())
    (folder.parent / "named").symlink_to(folder / "sub")
    assert _read(folder.parent / "named") == (["good"], [])


@pytest.mark.parametrize("swapped", ["sub", "sub/good.yaml"])
def test_a_link_that_appears_after_looking_is_not_followed(
    folder: Path, swapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moment between resolving a path and opening it, at each step of the path."""
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "good.yaml").write_text(POD.format("secret"))
    file = ManifestFile(str(folder / "sub" / "good.yaml"), str(folder))
    resolve = os.path.realpath

    def swap(path: str) -> str:
        resolved = resolve(path)
        if path == file.path:
            (folder / swapped).rename(folder.parent / "moved")
            (folder / swapped).symlink_to(elsewhere if swapped == "sub" else elsewhere / "good.yaml")
        return resolved

    monkeypatch.setattr(os.path, "realpath", swap)
    with pytest.raises(OSError, match=r"Not a directory|not a regular file"):
        file.read(1000)


def test_folders_deeper_than_recursion_are_read(tmp_path: Path) -> None:
    top = os.open(tmp_path, os.O_RDONLY)
    inner = top
    for _ in range(1500):
        os.mkdir("d", dir_fd=inner)
        deeper = os.open("d", os.O_RDONLY, dir_fd=inner)
        if inner != top:
            os.close(inner)
        inner = deeper
    with os.fdopen(os.open("deep.yaml", os.O_CREAT | os.O_WRONLY, dir_fd=inner), "w") as file:
        file.write(POD.format("deep"))
    os.close(inner)
    os.close(top)
    try:
        assert _read(tmp_path) == (["deep"], [])
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)  # Python's rmtree would recurse


def test_replacing_keeps_links_and_modes_and_writes_what_was_read(folder: Path) -> None:
    target = folder / "sub" / "good.yaml"
    target.chmod(0o640)
    (folder / "link.yaml").symlink_to("sub/good.yaml")
    file = ManifestFile(str(folder / "link.yaml"), str(folder))
    file.replace(file.read(-1), b"new")
    assert (target.read_bytes(), stat.S_IMODE(target.stat().st_mode)) == (b"new", 0o640)
    assert (folder / "link.yaml").readlink() == Path("sub/good.yaml")
    assert file.target == str(target)
    with pytest.raises(ChangedMeanwhile):
        file.replace(b"what was there before", b"newer")
    assert sorted(path.name for path in target.parent.iterdir()) == ["good.yaml"]
    assert target.read_bytes() == b"new"


def test_replacing_does_not_leave_the_folder(folder: Path) -> None:
    secret = folder.parent / "secret.yaml"
    (folder / "link.yaml").symlink_to(secret)
    with pytest.raises(OSError, match="outside of this folder"):
        ManifestFile(str(folder / "link.yaml"), str(folder)).replace(secret.read_bytes(), b"new")
    assert secret.read_text() == POD.format("secret")
    named = ManifestFile(str(folder / "link.yaml"))
    named.replace(secret.read_bytes(), b"new")
    assert (secret.read_bytes(), named.target) == (b"new", str(secret))


def test_saving_neither_waits_for_a_pipe_nor_writes_through_a_link(tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    (out / "nodes").mkdir(parents=True)
    os.mkfifo(out / "nodes" / "pipe.yaml")
    elsewhere.mkdir()
    pods = [Pod(metadata=ObjectMeta(name="a"))]
    assert save_folder(pods, out) == (out / "pods" / "a.yaml",)
    (out / "pods" / "a.yaml").unlink()
    (out / "pods").rmdir()
    (out / "pods").symlink_to(elsewhere)
    with pytest.raises(OSError, match="a link, so nothing is saved through it"):
        save_folder(pods, out)
    assert list(elsewhere.iterdir()) == []
