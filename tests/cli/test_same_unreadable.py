"""An object of a file that doesn't have the shape of its kind is named by every command that reads it, and none ends as
if all were well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from tests.cli.test_same_refused import COMMANDS
from tests.cli.test_same_unknown import DEVICES, RUNNING, SIZED, VM
from virt_dra.cli.main import cli

Json = dict[str, Any]
UNREADABLE: Final[dict[str, tuple[Json, str]]] = {
    "a node whose resources are a list": (
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": [1]}},
        'Node "n1": status.allocatable: must be an object, not a list',
    ),
    "a pod whose containers are a text": (
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": "none"}},
        'Pod "p": spec.containers: must be a list, not a string',
    ),
    "a claim beside the one that is wanted": (
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": 3},
        'ResourceClaim "c": spec: must be an object, not an integer',
    ),
}
ASKED: Final = {
    **COMMANDS,
    "run quietly": ("run", "-q", "FILE"),
    "run, as JSON": ("run", "-o", "json", "FILE"),
    "get vms": ("get", "vms", "-f", "FILE"),
    "describe": ("describe", "vm", "vm", "-f", "FILE"),
    "allocate": ("allocate", "FILE"),
}


@pytest.mark.parametrize("case", UNREADABLE)
@pytest.mark.parametrize("command", ASKED)
def test_every_command_names_what_can_not_be_read_and_ends_with_2(command: str, case: str, tmp_path: Path) -> None:
    broken, said = UNREADABLE[case]
    sound = [obj for obj in (*DEVICES, SIZED, RUNNING, VM) if obj["kind"] != broken["kind"]]
    files = {"FILE": (*sound, broken), "BEFORE": (*DEVICES, SIZED, RUNNING, VM)}
    names = {"PAGE": str(tmp_path / "page.html")}
    for name, items in files.items():
        names[name] = str(tmp_path / f"{name.lower()}.json")
        Path(names[name]).write_text("\n".join(map(json.dumps, items)))
    result = CliRunner().invoke(cli, [names.get(word, word) for word in ASKED[command]])
    assert isinstance(result.exception, SystemExit), result.exception
    assert (result.exit_code, said in result.stderr) == (2, True)


def test_a_node_that_can_not_be_read_was_given(tmp_path: Path) -> None:
    """What isn't known is said in words that are true of it."""
    broken, _ = UNREADABLE["a node whose resources are a list"]
    path = tmp_path / "file.json"
    path.write_text("\n".join(map(json.dumps, (*DEVICES, RUNNING, VM, broken))))
    (unknown,) = json.loads(CliRunner().invoke(cli, ["run", str(path), "-o", "json"]).stdout)["unknown"]
    assert (unknown["code"], unknown["text"].partition(":")[0]) == (
        "NodesNotGiven",
        "Nodes aren't given or readable",
    )
