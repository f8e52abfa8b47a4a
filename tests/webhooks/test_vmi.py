"""Admission of VMIs and VMs: cases as data, and what holds for every input."""

from __future__ import annotations

import doctest
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import webhooks.vmi
from tests.sampling import sample
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import KNOWN_GATES, NEWEST, Gates, KubeVirtVersion
from webhooks.stored import as_validated
from webhooks.verdict import AdmissionCause, Verdict
from webhooks.vmi import RULE_SETS, review, rules_for

CASES = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted((Path(__file__).parent / "cases").glob("*.yaml"))
    for case in yaml.load(path.read_text(), yaml.CSafeLoader)
]
KNOWN_KEYS = {"name", "spec", "vm", "object", "old", "old_vm", "annotations", "gates", "kubevirt", "causes", "warnings"}

Reviewed = VirtualMachineInstance | VirtualMachine


def _vmi(spec: dict[str, Any], annotations: dict[str, str] | None = None) -> VirtualMachineInstance:
    return VirtualMachineInstance.from_wire({"metadata": {"name": "v", "annotations": annotations or {}}, "spec": spec})


def _vm(spec: dict[str, Any], annotations: dict[str, str] | None = None) -> VirtualMachine:
    template = {"metadata": {"annotations": annotations or {}}, "spec": spec}
    return VirtualMachine.from_wire({"metadata": {"name": "v"}, "spec": {"template": template}})


def _subject(case: dict[str, Any]) -> Reviewed:
    if "object" in case:
        return VirtualMachine.from_wire(case["object"])
    annotations = case.get("annotations")
    return _vm(case["vm"], annotations) if "vm" in case else _vmi(case["spec"], annotations)


def _old(case: dict[str, Any]) -> Reviewed | None:
    if "old_vm" in case:
        return _vm(case["old_vm"])
    return _vmi(case["old"]) if "old" in case else None


@pytest.mark.parametrize("case", CASES)
def test_verdict(case: dict[str, Any]) -> None:
    assert case.keys() <= KNOWN_KEYS
    version = KubeVirtVersion.parse(str(case["kubevirt"])) if "kubevirt" in case else NEWEST
    verdict = review(_subject(case), Gates.for_version(version, case.get("gates")), _old(case))
    causes = tuple(AdmissionCause(kind, message, field) for kind, message, field in case.get("causes", []))
    assert verdict == Verdict(allowed=not causes, causes=causes, warnings=tuple(case.get("warnings", [])))


def test_the_message_of_a_verdict_joins_its_causes() -> None:
    spec = {"domain": {"devices": {"gpus": [{"name": "a", "claimName": "c"}, {"name": "b", "requestName": "r"}]}}}
    verdict = review(_vmi(spec), Gates.for_version(NEWEST))
    assert verdict.message == "requestName is required for DRA GPU, claimName is required for DRA GPU"


@pytest.mark.parametrize("version", ["1.5", "1.7", "1.8", "1.9", "main"])
def test_only_kubevirt_may_set_its_labels(version: str) -> None:
    gates = Gates.for_version(KubeVirtVersion.parse(version))
    labels = {"metadata": {"labels": {"kubevirt.io/created-by": "x", "app": "y"}}}
    vmi = VirtualMachineInstance.from_wire({**labels, "spec": {}})
    vm = VirtualMachine.from_wire({**labels, "spec": {"template": {**labels, "spec": {}}}})
    text = "creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited"
    assert review(vmi, gates) == review(vm, gates) == Verdict(allowed=True)
    assert review(vmi, gates, outsider=True).causes == (
        AdmissionCause("FieldValueNotSupported", text, "metadata.labels"),
    )
    assert review(vm, gates, outsider=True).causes == (
        AdmissionCause("FieldValueNotSupported", text, "spec.template.metadata.labels"),
    )
    assert review(
        VirtualMachine.from_wire({**labels, "spec": {"template": {"spec": {}}}}), gates, outsider=True
    ).allowed


def test_every_warning_names_the_id_that_silences_it() -> None:
    spec = {"resourceClaims": [{"name": "c", "resourceClaimName": "o"}]}
    (warning,) = review(_vmi(spec), Gates.for_version(NEWEST)).warnings
    assert warning.startswith("spec.resourceClaims[0]: [unused-claim] no gpu")
    assert review(_vmi(spec, {"virt-dra.io/lint-ignore": "unused-claim"}), Gates.for_version(NEWEST)).warnings == ()


def test_an_update_does_not_change_the_kind() -> None:
    with pytest.raises(TypeError, match="a VirtualMachine cannot become a VirtualMachineInstance"):
        review(_vmi({}), Gates.for_version(NEWEST), _vm({}))


@pytest.mark.parametrize(
    ("version", "row"),
    [
        *(("main", 0), ("1.10", 1), ("1.9.0", 1), ("1.8", 2), ("1.8.3", 2), ("1.8.2", 3), ("1.8.0", 3)),
        *(("1.7.9", 4), ("1.6.0", 4), ("1.5", 5), ("0.36", 5)),
    ],
)
def test_each_version_has_the_rules_of_its_release(version: str, row: int) -> None:
    assert rules_for(KubeVirtVersion.parse(version)) is RULE_SETS[row][1]


def test_ten_thousand_of_everything_are_reviewed_in_time() -> None:
    many = range(10_000)
    devices = {
        "gpus": [{"name": f"g{n}", "claimName": f"c{n}", "requestName": "g"} for n in many],
        "interfaces": [{"name": f"n{n}", "sriov": {}} for n in many],
    }
    spec = {
        "resourceClaims": [{"name": f"c{n}", "resourceClaimName": "o"} for n in many],
        "networks": [{"name": f"n{n}", "resourceClaim": {"claimName": f"c{n}", "requestName": "n"}} for n in many],
        "domain": {"devices": devices},
    }
    vmi, gates = _vmi(spec), Gates.for_version(NEWEST, {"NetworkDevicesWithDRA": True})
    began = time.process_time()
    assert review(vmi, gates) == Verdict(allowed=True)
    assert time.process_time() - began < 3, "seconds of the processor"


def test_the_examples_in_the_docstrings_are_true() -> None:
    assert doctest.testmod(webhooks.vmi).failed == 0


# --- properties ---

_names = st.sampled_from(["", "a", "b", "a.b", "A", "a/b", "x" * 64]) | st.text(max_size=3)
_maybe_names = st.none() | _names
_ram_fb: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries({}, optional={"enabled": st.booleans()})
_devices = st.fixed_dictionaries(
    {"name": _names},
    optional={
        "deviceName": _maybe_names,
        "claimName": _maybe_names,
        "requestName": _maybe_names,
        "tag": _maybe_names,
        "virtualGPUOptions": st.fixed_dictionaries(
            {}, optional={"display": st.fixed_dictionaries({}, optional={"enabled": st.booleans(), "ramFB": _ram_fb})}
        ),
    },
)
_claims = st.fixed_dictionaries(
    {}, optional={"name": _names, "resourceClaimName": _maybe_names, "resourceClaimTemplateName": _maybe_names}
)
_references = st.none() | st.fixed_dictionaries({}, optional={"claimName": _maybe_names, "requestName": _maybe_names})
_networks = st.fixed_dictionaries(
    {"name": _names},
    optional={"multus": st.just({}) | st.just({"networkName": "x"}), "pod": st.just({}), "resourceClaim": _references},
)
_empty: st.SearchStrategy[dict[str, Any]] = st.just({})
_interfaces: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": _names},
    optional={
        **dict.fromkeys(("sriov", "bridge", "masquerade", "binding", "slirp"), _empty),
        **dict.fromkeys(("pciAddress", "macAddress", "model"), _maybe_names),
        "ports": st.none()
        | st.lists(
            st.fixed_dictionaries({}, optional={"name": _maybe_names, "port": st.integers(-1, 70_000)}), max_size=2
        ),
    },
)
_specs = st.fixed_dictionaries(
    {},
    optional={
        "resourceClaims": st.none() | st.lists(_claims, max_size=3),
        "networks": st.lists(_networks, max_size=3),
        "domain": st.fixed_dictionaries(
            {},
            optional={
                "memory": st.just({"reservedOverhead": {}}),
                "devices": st.fixed_dictionaries(
                    {},
                    optional={
                        "gpus": st.lists(_devices, max_size=4),
                        "hostDevices": st.lists(_devices, max_size=3),
                        "interfaces": st.lists(_interfaces, max_size=3),
                    },
                ),
            },
        ),
    },
)
_gates = st.builds(
    Gates.for_version,
    st.sampled_from(["main", "1.9", "1.8.3", "1.8.0", "1.7", "1.6", "1.5"]).map(KubeVirtVersion.parse),
    st.dictionaries(st.sampled_from(KNOWN_GATES), st.booleans()),
)


@settings(max_examples=sample(300), deadline=None)
@given(_specs, _gates)
def test_every_well_typed_vmi_gets_a_verdict_and_the_same_one_twice(spec: dict[str, Any], gates: Gates) -> None:
    vmi = _vmi(spec)
    verdict = review(vmi, gates)
    assert verdict == review(_vmi(spec), gates)
    assert verdict.allowed is not bool(verdict.causes)
    for cause in verdict.causes:
        assert cause.message
        assert cause.field.startswith(("spec.", "metadata."))


@settings(max_examples=sample(100), deadline=None)
@given(_specs, _gates)
def test_a_vm_gets_the_causes_of_its_vmi_below_its_template(spec: dict[str, Any], gates: Gates) -> None:
    of_vmi, of_vm = review(_vmi(spec), gates), review(_vm(spec), gates)
    assert [cause.type for cause in of_vm.causes] == [cause.type for cause in of_vmi.causes]
    assert [cause.field for cause in of_vm.causes] == [f"spec.template.{cause.field}" for cause in of_vmi.causes]


@settings(max_examples=sample(200), deadline=None)
@given(_specs, _gates, st.booleans())
def test_what_the_mutator_has_been_at_is_judged_the_same(spec: dict[str, Any], gates: Gates, machine: bool) -> None:
    given_ = _vm(spec) if machine else _vmi(spec)
    validated = as_validated(given_, gates.version)
    assert as_validated(validated, gates.version) is validated
    assert review(validated, gates).causes == review(given_, gates).causes
    assert type(given_).from_wire(validated.to_wire()).to_wire() == validated.to_wire()


@settings(max_examples=sample(100), deadline=None)
@given(_specs, _gates)
def test_an_unchanged_vmi_may_be_updated(spec: dict[str, Any], gates: Gates) -> None:
    assert review(_vmi(spec), gates, _vmi(spec)) == Verdict(allowed=True)
