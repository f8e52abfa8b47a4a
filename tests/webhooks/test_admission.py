"""The verdict of API server and KubeVirt together: who refuses, what is dropped before, and what is said of it.

Beside a real API server: tests/cli/jsonl/test_admit_on_a_real_api_server.py.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sampling import sample
from tests.webhooks.test_vmi import _gates as gates_strategy
from tests.webhooks.test_vmi import _specs as specs_strategy
from virt_dra.api import names
from virt_dra.api.kubevirt_versions import KNOWN_GATES, NEWEST, V1_9_0, Gates, KubeVirtVersion
from virt_dra.api.schemas.kubevirt_schema import schema_of
from virt_dra.api.schemas.walk import conforms
from virt_dra.api.wire import Json
from webhooks.admission import admit
from webhooks.api_server import MAX_UNKNOWN, FieldValidation, received
from webhooks.verdict import Verdict

GPU: Json = {"name": "g", "claimName": "c", "requestName": "r"}
CLAIMS: list[Json] = [{"name": "c", "resourceClaimTemplateName": "t"}]
NOT_IN_1_8 = "KubeVirt 1.8 does not know this field and drops it; it exists since KubeVirt 1.9"


def gates(version: str) -> Gates:
    return Gates.for_version(KubeVirtVersion.parse(version), dict.fromkeys(KNOWN_GATES, True))


def vmi(metadata: Json | None = None, **spec: Any) -> Json:
    head: Json = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "v", **(metadata or {})},
    }
    return {**head, "spec": {"resourceClaims": CLAIMS, "domain": {"devices": {"gpus": [GPU]}}, **spec}}


def vm(metadata: Json | None = None, **spec: Any) -> Json:
    template = {"metadata": metadata or {}, "spec": vmi(**spec)["spec"]}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "v"},
        "spec": {"template": template},
    }


def told(verdict: Verdict) -> list[tuple[str, str, str, str]]:
    return [(cause.by, cause.type, cause.field, cause.message) for cause in verdict.causes]


def gpus(*entries: Json, **more: Any) -> Json:
    return {"devices": {"gpus": list(entries)}, **more}


@pytest.mark.parametrize("version", ["1.6", "1.7", "1.8.0", "1.8.3", "1.9", "main"])
@pytest.mark.parametrize("obj", [vmi(), vm()])
def test_what_is_right_is_admitted_by_every_release_with_claims(obj: Json, version: str) -> None:
    assert admit(obj, gates(version)) == Verdict(allowed=True)


@pytest.mark.parametrize(
    ("obj", "version", "causes"),
    [
        (
            vmi(resourceClaims=[*CLAIMS, *CLAIMS]),
            "1.7",
            [("api-server", "FieldValueDuplicate", "spec.resourceClaims[1]", 'Duplicate value: {"name":"c"}')],
        ),
        (
            vm(resourceClaims=[*CLAIMS, *CLAIMS]),
            "1.9",
            [
                (
                    "api-server",
                    "FieldValueDuplicate",
                    "spec.template.spec.resourceClaims[1]",
                    'Duplicate value: {"name":"c"}',
                )
            ],
        ),
        (vmi(domain=gpus({**GPU, "name": ""})), "1.9", []),
        (
            vmi(metadata={"name": "a_b", "labels": {"a b": "c"}}, domain={}),
            "1.9",
            [
                (
                    "api-server",
                    "FieldValueInvalid",
                    "metadata.name",
                    f'Invalid value: "a_b": {names.dns1123_subdomain("a_b")[0]}',
                ),
                (
                    "api-server",
                    "FieldValueInvalid",
                    "metadata.labels",
                    f'Invalid value: "a b": {names.label_key("a b")[0]}',
                ),
                ("api-server", "FieldValueRequired", "spec.domain.devices", "Required value"),
            ],
        ),
        (
            vmi(metadata={"labels": {"kubevirt.io/created-by": "x"}}),
            "1.8",
            [
                (
                    "kubevirt",
                    "FieldValueNotSupported",
                    "metadata.labels",
                    "creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited",
                )
            ],
        ),
        (
            vmi(
                networks=[{"name": "n", "resourceClaim": {"claimName": "c", "requestName": "n"}}],
                domain=gpus(interfaces=[]),
            ),
            "1.9",
            [("kubevirt", "FieldValueRequired", "spec.networks[0].name", "spec.networks[0].name 'n' not found.")],
        ),
        (
            vmi(
                domain=gpus({"name": "g", "deviceName": "v/x", "claimName": "", "requestName": None}), resourceClaims=[]
            ),
            "1.9",
            [],
        ),
        (
            vmi(domain=gpus({"name": "g", "deviceName": "v/x", "claimName": ""}), resourceClaims=[]),
            "1.8",
            [
                (
                    "kubevirt",
                    "FieldValueInvalid",
                    "spec.domain.devices.gpus",
                    "vmi.spec.domain.devices.gpus contains GPUs with both deviceName and claimRequest",
                )
            ],
        ),
        (vmi(domain=gpus({"name": "g", "deviceName": "v/x", "claimName": None}), resourceClaims=[]), "1.8", []),
    ],
)
def test_who_refuses_and_why(obj: Json, version: str, causes: list[tuple[str, str, str, str]]) -> None:
    verdict = admit(obj, gates(version))
    assert told(verdict) == causes
    assert verdict.allowed is not bool(causes)


NAMELESS: Json = {"claimName": "c", "requestName": "r"}
NO_NAME = [
    ("kubevirt", "FieldValueRequired", "{}.resourceClaims[0].name", "{}.resourceClaims[0].name is a required field")
]


@pytest.mark.parametrize("version", ["1.7.4", "1.8.0", "1.8.4", "1.9.0", "main"])
@pytest.mark.parametrize(("make", "root"), [(vmi, "spec"), (vm, "spec.template.spec")])
def test_names_that_are_missing_are_written_empty_before_the_schema_is_checked(
    make: Callable[..., Json], root: str, version: str
) -> None:
    """KubeVirt's mutator writes them, as its Go types have no way to leave them out (K-2.36)."""
    named = make(domain={"devices": {"gpus": [NAMELESS], "hostDevices": [{"deviceName": "v/x"}]}})
    assert told(admit(named, gates(version))) == []
    unused = make(domain={"devices": {}}, resourceClaims=[{"resourceClaimTemplateName": "t"}])
    refused = [(by, kind, field.format(root), text.format(root)) for by, kind, field, text in NO_NAME]
    assert told(admit(unused, gates(version))) == (refused if KubeVirtVersion.parse(version) >= V1_9_0 else [])
    twice = make(domain={"devices": {}}, resourceClaims=[{"resourceClaimTemplateName": "t"}] * 2)
    duplicate = ("api-server", "FieldValueDuplicate", f"{root}.resourceClaims[1]", 'Duplicate value: {"name":""}')
    assert told(admit(twice, gates(version))) == [duplicate]


def test_without_kubevirt_no_mutator_writes_names() -> None:
    refused = ("api-server", "FieldValueRequired", "spec.domain.devices.gpus[0].name", "Required value")
    assert told(admit(vmi(domain=gpus(NAMELESS)), gates("1.9"), kubevirt=False)) == [refused]


def test_a_vm_is_written_again_on_each_update_and_a_vmi_is_not() -> None:
    old_vm, old_vmi = vm(), vmi()
    assert told(admit(vm(domain=gpus(NAMELESS)), gates("1.9"), old_vm)) == []
    refused = ("api-server", "FieldValueRequired", "spec.domain.devices.gpus[0].name", "Required value")
    assert told(admit(vmi(domain=gpus(NAMELESS)), gates("1.9"), old_vmi)) == [refused]


@pytest.mark.parametrize("version", ["1.7.4", "1.8.0", "1.8.4", "1.9.0", "main"])
@pytest.mark.parametrize(("make", "root"), [(vmi, "spec"), (vm, "spec.template.spec")])
def test_another_architecture_needs_a_gate_up_to_1_7(make: Callable[..., Json], root: str, version: str) -> None:
    off = Gates.for_version(
        KubeVirtVersion.parse(version), {**dict.fromkeys(KNOWN_GATES, True), "MultiArchitecture": False}
    )
    text = f"MultiArchitecture feature gate is not enabled in kubevirt-config, invalid entry {root}.architecture"
    refused = [("kubevirt", "FieldValueRequired", f"{root}.architecture", text)] if version == "1.7.4" else []
    assert told(admit(make(architecture="s390x"), off)) == refused
    assert told(admit(make(architecture="amd64"), off)) == []
    assert told(admit(make(architecture="s390x"), gates(version))) == []
    assert told(admit(make(architecture="s390x"), replace(off, architecture="s390x"))) == []
    assert told(admit(make(architecture="s390x"), replace(off, architecture=None))) == []


def test_networks_from_claims_are_dropped_before_1_9_and_then_have_no_type() -> None:
    domain = {"devices": {"gpus": [GPU], "interfaces": [{"name": "n", "sriov": {}}]}}
    obj = vmi(networks=[{"name": "n", "resourceClaim": {"claimName": "c", "requestName": "n"}}], domain=domain)
    verdict = admit(obj, gates("1.8"))
    assert told(verdict) == [("kubevirt", "FieldValueRequired", "spec.networks[0]", "should have a network type")]
    assert verdict.warnings == (f"spec.networks[0].resourceClaim: [unknown-field] {NOT_IN_1_8}",)
    assert admit(obj, gates("1.9")).allowed


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"memroy": {"guest": "1Gi"}}, 'unknown field "spec.domain.memroy", did you mean "memory"?'),
        ({"zzz": 1}, 'unknown field "spec.domain.zzz"'),
    ],
)
def test_an_unknown_field_is_dropped_refused_or_passed_over(field: Json, said: str) -> None:
    obj = vmi(domain=gpus(GPU, **field))
    path = f"spec.domain.{next(iter(field))}"
    warned, strict, ignored = (
        admit(obj, gates("1.9"), field_validation=level) for level in ("Warn", "Strict", "Ignore")
    )
    dropped = f"{said} The API server drops it" if "?" in said else f"{said}, which the API server drops"
    assert warned == Verdict(allowed=True, warnings=(f"{path}: [unknown-field] {dropped}",))
    assert told(strict) == [("api-server", "FieldValueInvalid", path, f"strict decoding error: {said}")]
    assert ignored == Verdict(allowed=True)


def test_the_object_silences_the_warning_by_its_id() -> None:
    quiet = {"annotations": {"virt-dra.io/lint-ignore": "unknown-field"}}
    assert admit(vmi(metadata=quiet, domain=gpus(GPU, x=1)), gates("1.9")) == Verdict(allowed=True)
    assert admit(vm(metadata=quiet, domain=gpus(GPU, x=1)), gates("1.9")) == Verdict(allowed=True)


def test_of_many_unknown_fields_some_are_named() -> None:
    obj = vmi(domain=gpus(GPU, **{f"x{n}": 1 for n in range(MAX_UNKNOWN + 7)}))
    warnings = admit(obj, gates("1.9")).warnings
    assert (len(warnings), warnings[-1]) == (MAX_UNKNOWN + 1, "[unknown-field] 7 more unknown fields")
    causes = admit(obj, gates("1.9"), field_validation="Strict").causes
    assert (len(causes), causes[-1].message) == (MAX_UNKNOWN + 1, "strict decoding error: 7 more unknown fields")


def test_without_a_kubevirt_the_designs_form_is_read() -> None:
    designed = vmi(domain=gpus({"name": "g", "claim": {"name": "c", "request": "r"}}))
    machine = {**vm(), "spec": {"template": {"spec": designed["spec"]}}}
    for obj, root in ((designed, "spec"), (machine, "spec.template.spec")):
        verdict = admit(obj, Gates.for_version(NEWEST), kubevirt=False)
        assert verdict.allowed
        assert [warning.partition(" ")[0] for warning in verdict.warnings] == [f"{root}.domain.devices.gpus[0].claim:"]
        assert not admit(obj, Gates.for_version(NEWEST)).allowed
    assert admit({"spec": {}}, Gates.for_version(NEWEST), kubevirt=False) == Verdict(allowed=True), (
        "our kinds ask for no domain"
    )


def test_an_update_may_leave_what_was_wrong() -> None:
    wrong = vmi(domain=gpus({"name": "g", "claimName": "c", "requestName": "r", "tag": 1}))
    assert not admit(wrong, gates("1.9")).allowed
    right, odd = vm(), vm(metadata={"labels": {"a": "b"}})
    odd["spec"]["runStrategy"] = 1
    assert told(admit(odd, gates("1.9"), right)) == [
        ("api-server", "FieldValueInvalid", "spec.runStrategy", "must be a string, not an integer")
    ]
    assert told(admit(odd, gates("1.9"), copy.deepcopy(odd))) == [
        ("api-server", "FieldValueInvalid", "spec.runStrategy", "must be a string, not an integer")
    ], "a type can't be passed over: no webhook could read the object"


@pytest.mark.parametrize("obj", [{"kind": "Pod"}, {"kind": ["VirtualMachine"]}, {"kind": 1}])
def test_another_kind_is_refused(obj: Json) -> None:
    assert told(admit(obj, gates("1.9"))) == [
        ("api-server", "FieldValueInvalid", "kind", "must be VirtualMachineInstance or VirtualMachine")
    ]


_odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3) | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "gpus", "claim", "x", "\ud800"]), inner, max_size=3)
    ),
    max_leaves=6,
)


_changes = st.lists(st.tuples(st.integers(0, 10**6), _odd), max_size=3)
_validations: st.SearchStrategy[FieldValidation] = st.sampled_from(get_args(FieldValidation))


@settings(max_examples=sample(300), deadline=None)
@given(specs_strategy, gates_strategy, _changes, _validations, st.booleans())
def test_whatever_is_asked_gets_one_verdict(
    spec: Json, gates_: Gates, changes: list[tuple[int, Any]], validation: FieldValidation, kubevirt: bool
) -> None:
    obj: Json = {"kind": "VirtualMachineInstance", "metadata": {"name": "v"}, "spec": copy.deepcopy(spec)}
    for number, value in changes:
        owners = list(_owners(obj["spec"]))
        owner = owners[number % len(owners)] if owners else None
        if isinstance(owner, dict):
            owner[sorted(owner)[number % len(owner)] if owner and number % 2 else "gpu"] = value
        elif isinstance(owner, list):
            owner.append(value)
    before = copy.deepcopy(obj)
    verdict = admit(obj, gates_, kubevirt=kubevirt, field_validation=validation)
    assert obj == before
    assert verdict == admit(before, gates_, kubevirt=kubevirt, field_validation=validation)
    assert verdict.allowed is not bool(verdict.causes)
    assert len({cause.by for cause in verdict.causes}) <= 1
    got = received(obj, obj["kind"], gates_.version if kubevirt else None, validation)
    if not got.undecoded and not got.causes:
        assert conforms(got.object, schema_of(obj["kind"], gates_.version if kubevirt else None))
        again = admit(got.object, gates_, kubevirt=kubevirt, field_validation="Strict")
        assert (again.allowed, again.causes) == (verdict.allowed, verdict.causes), (
            "what was received is received again as it is"
        )


def _owners(value: Any) -> Any:
    if isinstance(value, dict | list):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from _owners(item)
