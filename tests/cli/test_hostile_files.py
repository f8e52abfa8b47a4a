"""Files that are broken on purpose: every command that reads objects says what is wrong, in a line, and ends with 2."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from virt_dra.cli.main import cli

VM: Final = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vm}\nspec: "
SOUND: Final = "{runStrategy: Always, template: {spec: {domain: {devices: {}}}}}\n"
DEPTH: Final = 100_000
BOMB: Final = "a0: &a0 [x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 13)
)
NUMBER: Final = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "generation": NUMBER}}'
TOO_DEEP: Final = "nested more than 200 levels deep; no Kubernetes object needs that"
TEXTS: Final[dict[str, tuple[str | bytes, str]]] = {
    "lists in lists": (f"{VM}{'[' * DEPTH}{']' * DEPTH}", TOO_DEEP),
    "maps in maps": (f"{VM}{'{a: ' * DEPTH}1{'}' * DEPTH}", TOO_DEEP),
    "aliases of aliases": (
        BOMB,
        "document contains excessive aliasing: written out, its aliases have more than 400000 nodes",
    ),
    "a text of 4 MB": (
        f"{VM}{{runStrategy: {'x' * 4_000_000}}}",
        "Request entity too large: limit is 3145728; the object has 4000106 bytes as JSON; "
        "split it (a ResourceSlice into several, other data into ConfigMaps)",
    ),
    "a control character": (
        f"{VM}{SOUND}".replace("vm", "v\0m"),
        "not YAML: control characters are not allowed (character U+0000); is this a text file?",
    ),
    "a byte that isn't UTF-8": (
        f"{VM}{SOUND}".encode().replace(b"vm", b"v\xffm"),
        "not UTF-8 text (byte 0xff); save it as UTF-8",
    ),
    "a key that is given twice": (
        f"{VM}{{runStrategy: Always, runStrategy: Halted}}",
        'key "runStrategy" is given twice in the same mapping; remove one of them',
    ),
    "a number that is none": (
        f"{VM}{{generation: .nan}}",
        ".nan is not a number that JSON can express; write a finite number, or quote it if a string is meant",
    ),
    "a number out of range": (
        NUMBER.replace("NUMBER", "1e400"),
        "the number 1e400 is out of range; write it as a string if a quantity is meant",
    ),
    "an integer of 10,000 digits": (NUMBER.replace("NUMBER", "9" * 10_000), "an integer has too many digits"),
}
"""What a file has, and what is said of it."""


def _pipe_in_folder(path: Path) -> Path:
    path.mkdir()
    os.mkfifo(path / "vm.yaml")
    return path


def _link(path: Path) -> Path:
    path.symlink_to(path.parent / "nowhere")
    return path


PLACES: Final[dict[str, tuple[Callable[[Path], Path], str]]] = {
    "a folder with a named pipe": (_pipe_in_folder, "not a regular file but a named pipe"),
    "a link that leads nowhere": (_link, "no such file or folder"),
    "a file that isn't there": (lambda path: path, "no such file or folder"),
}
"""What a path leads to, and what is said of it."""
COMMANDS: Final = {
    "run": ("run", "FILE"),
    "lint": ("lint", "-f", "FILE"),
    "explain": ("explain", "vm", "vm", "-f", "FILE"),
    "diff": ("diff", "FILE", "FILE"),
    "simulate": ("simulate", "FILE"),
    "what-if": ("simulate", "FILE", "--what-if", "cordon n"),
    "get": ("get", "vms", "-f", "FILE"),
    "describe": ("describe", "vm", "vm", "-f", "FILE"),
    "topology": ("topology", "-f", "FILE"),
    "report": ("report", "-f", "FILE", "-o", "page.html"),
    "allocate": ("allocate", "FILE"),
    "cel": ("cel", "true", "-f", "FILE"),
    "scenario": ("scenario", "FILE"),
}


def _ended(words: tuple[str, ...], path: Path | str) -> tuple[int, str, str]:
    """The exit code, the output, and what is said of the file, without the place in it."""
    ended = CliRunner().invoke(cli, [str(path) if word == "FILE" else word for word in words])
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    said = ended.stderr.removeprefix(f"error: {path}").removesuffix("\n")
    return ended.exit_code, ended.stdout, _PLACE.sub("", said)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


_PLACE: Final = re.compile(r"^(/vm\.yaml)?(:\d+: column \d+|: line \d+, column \d+, document \d+)?: ")


@pytest.mark.parametrize("case", TEXTS)
def test_a_file_that_can_not_be_read_ends_every_command(case: str, tmp_path: Path) -> None:
    content, said = TEXTS[case]
    path = tmp_path / "hostile.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    ends = {name: _ended(words, path) for name, words in COMMANDS.items()}
    assert ends == dict.fromkeys(COMMANDS, (2, "", said))


@pytest.mark.parametrize("case", PLACES)
def test_a_path_that_leads_to_no_file_ends_every_command(case: str, tmp_path: Path) -> None:
    """But ``scenario``, which reads no folders and has the system's words."""
    lay, said = PLACES[case]
    path = lay(tmp_path / "hostile")
    ends = {name: _ended(words, path) for name, words in COMMANDS.items() if name != "scenario"}
    assert ends == dict.fromkeys(ends, (2, "", said))


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


SPECIAL: Final[dict[str, tuple[Callable[[Path], object], str]]] = {
    "a named pipe": (os.mkfifo, "not a regular file but a named pipe"),
    "a link to a device": (lambda path: path.symlink_to("/dev/zero"), "not a regular file but a device"),
    "a socket": (_socket, "not a regular file but a socket"),
    "nothing": (lambda path: None, "no such file or folder"),
}


ONE_NODE: Final = "cluster: {nodes: [{name: node, cpu: 8, memory: 8Gi}]}"
FILES: Final = "cluster: {files: ['-']}"


@pytest.mark.parametrize("case", SPECIAL)
@pytest.mark.parametrize("member", [FILES, f"{ONE_NODE}\narrivals: '-'"])
def test_a_description_names_regular_files_only(member: str, case: str, tmp_path: Path) -> None:
    """Who runs a description chose that file, but not those that it names, and - is one of these."""
    lay, said = SPECIAL[case]
    lay(tmp_path / "-")
    description = tmp_path / "description.yaml"
    description.write_text(f"kind: Simulation\n{member}\nvms: [{{name: vm}}]\n")
    assert _ended(("simulate", "description.yaml"), "./-") == (2, "", said)
    assert _ended(("simulate", "FILE"), description)[2].endswith(f"-: {said}")
