"""Files and folders: what is read, what is a problem, and what a saved cluster looks like."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.meta import ObjectMeta, TypedObject
from virt_dra.api.reading.documents import Loaded
from virt_dra.api.reading.scheme import read_object
from virt_dra.cluster import files
from virt_dra.cluster.files import read_inputs, save_folder

POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {}\n"


def pod(name: str, namespace: str = "") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace) if namespace else ObjectMeta(name=name))


def outcome(loaded: Loaded, root: Path) -> tuple[list[str], list[str]]:
    objects = [f"{s.object.key} {s.source}" for s in loaded.objects]
    return [o.replace(f"{root}/", "") for o in objects], [
        str(p).replace(f"{root}/", "").replace(str(root), ".") for p in loaded.problems
    ]


def test_reads_files_folders_and_standard_input_in_order(tmp_path: Path) -> None:
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "b.yaml").write_text(POD.format("b1") + "---\n" + POD.format("b2"))
    (tmp_path / "a.yml").write_text(POD.format("a"))
    (tmp_path / "sub" / "c.json").write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}}')
    (tmp_path / "sub" / "deep" / "d.yaml").write_text(POD.format("d"))
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    for ignored in (".hidden.yaml", "notes.txt", ".git/x.yaml", "d.yaml.orig"):
        (tmp_path / ignored).write_text("not: [yaml")
    named = tmp_path / "any.manifest"
    named.write_text(POD.format("named"))
    loaded = read_inputs(
        [named, "-", tmp_path, str(tmp_path / "b.yaml"), "-"], io.BytesIO(POD.format("stdin").encode())
    )
    assert outcome(loaded, tmp_path) == (
        [
            "named any.manifest:1",
            "stdin standard input:1",
            "a a.yml:1",
            "b1 b.yaml:1",
            "b2 b.yaml:6 (document 2)",
            "c sub/c.json:1",
            "d sub/deep/d.yaml:1",
        ],
        [],
    )


def test_what_can_not_be_read_is_a_problem_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "1-bytes.yaml").write_bytes(b"a: \xff\xff")
    (tmp_path / "2-broken.yaml").write_text(POD.format("lost") + "---\na: [b\n")
    (tmp_path / "3-shape.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: 5\n---\n" + POD.format("good"))
    (tmp_path / "4-gone.yaml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "none").mkdir()
    (tmp_path / "blank").write_text("\n")
    paths: list[str | Path] = [
        tmp_path,
        tmp_path / "none",
        tmp_path / "missing.yaml",
        tmp_path / "blank",
        "bad\0name",
        "-",
    ]
    assert outcome(read_inputs(paths, io.BytesIO(b"")), tmp_path) == (
        ["good 3-shape.yaml:5 (document 2)"],
        [
            "1-bytes.yaml:1: column 4: not UTF-8 text (byte 0xff); save it as UTF-8",
            "2-broken.yaml:7 (document 2): column 1: not YAML: did not find expected "
            "',' or ']' (while parsing a flow sequence); "
            "check brackets, quotes and indentation here and above",
            "3-shape.yaml:1: Pod: metadata: must be an object, not an integer",
            "4-gone.yaml: a link to nowhere, which does not exist",
            "none: no manifests in this folder; they must end in .yaml, .yml, .json",
            "missing.yaml: no such file or folder",
            "blank: contains no objects",
            "bad\0name: a file name can't contain a NUL character",
            "standard input: contains no objects",
        ],
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), "permission denied; it must be readable for this user"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
    ],
)
def test_system_errors_are_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, message: str
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(POD.format("a"))

    def refuse(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(Path, "open", refuse)
    assert outcome(read_inputs([path]), tmp_path) == ([], [f"a.yaml: {message}"])


def test_a_folder_that_can_not_be_listed_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", folder)

    monkeypatch.setattr(os, "scandir", refuse)
    assert outcome(read_inputs([tmp_path]), tmp_path) == (
        [],
        [".: permission denied; it must be readable for this user"],
    )


def test_endless_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 2 * 2**20)
    assert [str(problem) for problem in read_inputs(["/dev/zero"]).problems] == [
        "/dev/zero: larger than 2 MiB; split it"
    ]


def test_saves_a_file_per_object_and_loads_them_again(tmp_path: Path) -> None:
    raw = {
        "apiVersion": "g.io/v1",
        "kind": "Thing",
        "metadata": {"name": "t"},
        "spec": {"a": "0000:01:00.0", "b": ["yes", 1, None]},
    }
    objects: list[TypedObject] = [
        pod("b", "ns"),
        pod("a", "ns"),
        Node(metadata=ObjectMeta(name="n1")),
        read_object(raw),
    ]
    folder = tmp_path / "new" / "cluster"
    written = save_folder(objects, folder)
    assert [str(path.relative_to(folder)) for path in written] == [
        "pods/ns_b.yaml",
        "pods/ns_a.yaml",
        "nodes/n1.yaml",
        "thing.g.io/t.yaml",
    ]
    assert written[3].read_text() == (
        "# Saved by virt-dra.\napiVersion: g.io/v1\nkind: Thing\nmetadata:\n  name: t\nspec:\n"
        "  a: '0000:01:00.0'\n  b:\n  - 'yes'\n  - 1\n  - null\n"
    )
    loaded = read_inputs([folder])
    assert loaded.problems == ()
    assert [s.object.to_wire() for s in loaded.objects] == [objects[i].to_wire() for i in (2, 1, 0, 3)]
    assert not [path for path in folder.rglob("*") if path.name.startswith(".")]


def test_saving_again_replaces_and_removes_only_its_own_files(tmp_path: Path) -> None:
    save_folder([pod("a"), pod("b"), Namespace(metadata=ObjectMeta(name="n"))], tmp_path)
    (tmp_path / "pods" / "mine.yaml").write_text(POD.format("mine"))
    (tmp_path / "pods" / "c.yaml").write_text("# the user's\n" + POD.format("c"))
    save_folder([pod("b"), pod("c")], tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        "pods",
        "pods/b.yaml",
        "pods/c.yaml",
        "pods/c~2.yaml",
        "pods/mine.yaml",
    ]
    assert (tmp_path / "pods" / "c.yaml").read_text().startswith("# the user's\n")


NAMES = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    ["..", "../../etc/passwd", "/abs", ".hidden", "a_b", "A", "a", "a\0b", "x" * 400, "%2F", "~2", "con", "ns/name"]
)


@given(st.lists(st.tuples(NAMES, NAMES), max_size=5))
def test_no_name_leaves_the_folder_or_hits_another_object(
    tmp_path_factory: pytest.TempPathFactory, names: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("saved")
    objects = [pod(name, namespace) for namespace, name in names]
    written = save_folder(objects, folder)
    assert len(set(written)) == len(objects)
    for path, obj in zip(written, objects, strict=True):
        assert path.resolve().is_relative_to(folder.resolve())
        assert path.parent == folder / "pods"
        assert path.name == path.name.encode("ascii").decode()
        assert len(path.name) < 255
        assert yaml.safe_load(path.read_text(encoding="utf-8")) == obj.to_wire()


def test_hostile_names_become_harmless_files(tmp_path: Path) -> None:
    names = ["../../etc/passwd", "..", "A", "a", "a_b", "a", ""]
    written = save_folder([pod(name) for name in names], tmp_path)
    assert [path.name for path in written] == [
        "%2E.%2F..%2Fetc%2Fpasswd.yaml",
        "%2E..yaml",
        "%41.yaml",
        "a.yaml",
        "a%5Fb.yaml",
        "a~2.yaml",
        "unnamed.yaml",
    ]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_folder([pod("a")], tmp_path)

    def fail(self: Path, target: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left on device"):
        save_folder([pod("a", "").with_(metadata=ObjectMeta(name="a", labels={"x": "y"}))], tmp_path)
    assert [path.name for path in (tmp_path / "pods").iterdir()] == ["a.yaml"]
    assert (
        tmp_path / "pods" / "a.yaml"
    ).read_text() == "# Saved by virt-dra.\napiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n"
