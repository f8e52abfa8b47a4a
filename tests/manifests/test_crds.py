"""The CRDs in the manifests are made of the types: neither can have what the other lacks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from devtools.crds.custom_resources import (
    BESIDE_KUBEVIRT,
    DEVICE_PROFILES,
    DEVICES,
    KEEP_POLICIES,
    KEEPER,
    NODE_DRIVER,
    NODE_POLICIES,
    PROFILES,
    STANDALONE,
    Definition,
)
from tests.manifests.described import undescribed
from virt_dra.api.reading.yaml_writing import write_yaml

CRDS = Path(__file__).parents[2] / "manifests" / "crds"
FILES = {
    f"{overlay}/{definition.kind.PLURAL}.yaml": definition
    for overlay, definitions in (
        ("beside-kubevirt", BESIDE_KUBEVIRT),
        ("standalone", STANDALONE),
        ("node-driver", NODE_DRIVER),
        ("profiles", PROFILES),
        ("keeper", KEEPER),
    )
    for definition in definitions
}


@pytest.mark.parametrize("name", FILES)
def test_the_file_is_what_the_types_say(name: str, request: pytest.FixtureRequest) -> None:
    path, definition = CRDS / name, FILES[name]
    if request.config.getoption("--update-golden"):
        path.write_text(_text(definition), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == _text(definition), (
        f"{name} isn't what the types say: pytest tests/manifests --update-golden"
    )


def _text(definition: Definition) -> str:
    return "# Made of virt_dra/api by: pytest tests/manifests/test_crds.py --update-golden\n" + write_yaml(
        definition.to_wire()
    )


def test_every_file_belongs_to_a_kind() -> None:
    there = {str(path.relative_to(CRDS)) for path in CRDS.rglob("*.yaml") if path.name != "kustomization.yaml"}
    assert there == set(FILES)
    listed = {
        str((path.parent / name).relative_to(CRDS))
        for path in CRDS.rglob("kustomization.yaml")
        for name in yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)["resources"]
    }
    assert listed == set(FILES)


@pytest.mark.parametrize(
    "definition", [DEVICES, NODE_POLICIES, DEVICE_PROFILES, KEEP_POLICIES], ids=lambda definition: definition.kind.KIND
)
def test_kubectl_explain_says_something_of_every_field_of_ours(definition: Definition) -> None:
    (version,) = definition.to_wire()["spec"]["versions"]
    assert undescribed(version["schema"]["openAPIV3Schema"]) == ["metadata"], "the API server describes that itself"


def test_a_field_without_a_description_is_found() -> None:
    schema = {
        "description": "d",
        "properties": {"a": {"description": "d", "items": {"properties": {"b": {}}}}, "c": {"description": ""}},
    }
    assert undescribed(schema) == ["a[].b", "c"]


def test_what_we_tell_users_to_type_exists_in_either_mode() -> None:
    """``vmid`` is served beside KubeVirt only; messages, help and the README are for both. ``virt-dra get vms --live``
    works everywhere."""
    root = Path(__file__).parents[2]
    texts = [
        root / "README.md",
        *(path for room in ("virt_dra", "webhooks", "launcher") for path in (root / room).rglob("*.py")),
    ]
    words = re.compile(r"kubectl \w+ (?:-\S+ )*vmid")
    of_that_mode = ("virt_dra/api/schemas", "virt_dra/controllers/beside_kubevirt")
    assert [
        str(path.relative_to(root))
        for path in texts
        if words.search(path.read_text(encoding="utf-8")) and not str(path.relative_to(root)).startswith(of_that_mode)
    ] == []
