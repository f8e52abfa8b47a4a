"""Instancetypes and preferences: cases as data (cases/instancetypes.yaml)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sampling import sample
from virt_dra.api.instancetypes.expansion import Instancetypes, expand
from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.reading.scheme import read_object

CASES = yaml.load(
    (Path(__file__).parent / "cases" / "instancetypes.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)


def _at(wire: Any, path: str) -> Any:
    for key in path.split("."):
        wire = wire.get(key) if isinstance(wire, dict) else None
    return wire


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_expansion(case: dict[str, Any]) -> None:
    vm = VirtualMachine.from_wire(
        {"metadata": {"name": "vm", "namespace": "team"}, "spec": case["spec"], "status": case.get("status", {})}
    )
    before = vm.to_wire()
    expansion = expand(
        vm, Instancetypes.from_objects([read_object(obj) for obj in case.get("have", ())], "team"), "default"
    )
    want = dict(case["want"])
    assert [[refusal.type, refusal.field, refusal.message] for refusal in expansion.refusals] == want.pop("refused", [])
    assert [str(missing_name) for missing_name in expansion.missing] == want.pop("missing", [])
    spec = expansion.vm.spec.template.spec.to_wire()
    assert {path: _at(spec, path) for path in want} == want
    assert vm.to_wire() == before


_text = st.text(max_size=3)
_anything: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**30), 10**30),
        _text,
        st.sampled_from(["m", "8Gi", "spread", "CoresThreads"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(_text, inner, max_size=2)),
    max_leaves=5,
)
_members = (
    "cpu",
    "memory",
    "gpus",
    "hostDevices",
    "nodeSelector",
    "annotations",
    "machine",
    "devices",
    "requirements",
    "guest",
    "ratio",
)
_spec = st.dictionaries(
    st.sampled_from(_members), st.one_of(_anything, st.dictionaries(st.sampled_from(_members), _anything)), max_size=4
)


@pytest.mark.slow
@given(
    _spec,
    _spec,
    st.dictionaries(st.sampled_from(["name", "kind", "revisionName", "inferFromVolume"]), _anything),
    _spec,
)
@settings(max_examples=sample(200), deadline=None)
def test_nothing_that_anybody_writes_raises(sizes: Any, preferences: Any, matcher: Any, domain: Any) -> None:
    group = "instancetype.kubevirt.io/v1beta1"
    have = [
        {"apiVersion": group, "kind": "VirtualMachineClusterInstancetype", "metadata": {"name": "m"}, "spec": sizes},
        {
            "apiVersion": group,
            "kind": "VirtualMachineClusterPreference",
            "metadata": {"name": "m"},
            "spec": preferences,
        },
    ]
    instancetypes = Instancetypes.from_objects([read_object(obj) for obj in have], "default")
    for spec in ({"instancetype": matcher}, {"instancetype": {"name": "m"}, "preference": {"name": "m"}}):
        vm = VirtualMachine.from_wire(
            {"metadata": {"name": "vm"}, "spec": {**spec, "template": {"spec": {"domain": {}}}}}
        )
        expand(vm, instancetypes, "default")
