"""What holds for every input of the lint, and how the webhook asks it."""

from __future__ import annotations

import doctest
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webhooks.lint
from tests.sampling import sample
from tests.webhooks.lint.test_cases import COMMON
from virt_dra.api.keeping.claims import KEPT_CLAIMS_ANNOTATION
from virt_dra.api.keeping.terms import KEEP_ANNOTATION
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import NEWEST, Gates, KubeVirtVersion
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION
from virt_dra.api.profiles.device_profile_v1alpha1 import API_VERSION as PROFILES
from virt_dra.api.reading.scheme import read_object
from virt_dra.cel import Work
from virt_dra.matching.evaluating import ImmediateEvaluator
from webhooks.lint import BY_ID, IGNORE_ANNOTATION, DeviceInventory, LintInputs, LintSettings, Preflight, lint
from webhooks.lint.inputs import CLAIMS, CLASSES, TEMPLATES
from webhooks.verdict import INVALID, AdmissionCause, Verdict

MISSING = (
    'there is no ResourceClaimTemplate "one" in namespace default. The VM doesn\'t '
    "start until it exists: create it, or correct the name"
)
NO_REQUEST = 'ResourceClaimTemplate "one" has no request "gpu": it has none; add one'


def _object(name: str) -> Any:
    return read_object(COMMON[name])


def _world(*names: str) -> LintInputs:
    return LintInputs.from_objects([_object(name) for name in names])


def _empty_template() -> Any:
    raw = COMMON["template"]
    return read_object({**raw, "spec": {"spec": {"devices": {"requests": []}}}})


def test_the_example_in_the_docstring_is_true() -> None:
    assert doctest.testmod(webhooks.lint).failed == 0


# --- as the webhook asks ---


def test_at_admission_what_may_come_later_warns() -> None:
    field = "spec.resourceClaims[0].resourceClaimTemplateName"
    assert Preflight(_world()).preflight(_object("vmi")) == Verdict(
        True, warnings=(f"{field}: [template-missing] {MISSING}",)
    )


def test_at_admission_a_vmi_that_keeps_is_judged_by_its_templates() -> None:
    """Its entries name claims that the keeper makes only then; the operator makes the templates."""
    spec = {"devices": [{"name": "gpu", "deviceClassName": "gpu.example.com"}]}
    profile = {"apiVersion": PROFILES, "kind": "DeviceProfile", "metadata": {"name": "ours"}, "spec": spec}
    annotations = {DEVICES_ANNOTATION: "ours", KEPT_CLAIMS_ANNOTATION: '{"ours":"vmi-ours"}'}
    gpus = [{"name": "gpu", "claimName": "ours", "requestName": "gpu"}]
    vmi: Any = {
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": "vmi", "namespace": "default", "annotations": annotations},
        "spec": {
            "resourceClaims": [{"name": "ours", "resourceClaimName": "vmi-ours"}],
            "domain": {"devices": {"gpus": gpus}},
        },
    }  # fmt: skip
    kinds = (TEMPLATES, CLAIMS, CLASSES, "DeviceProfile")
    knowledge = Preflight(LintInputs.from_objects([_object("class"), read_object(profile)], known_kinds=kinds))
    assert knowledge.preflight(VirtualMachineInstance.from_wire(vmi)) == Verdict(True)


def test_at_admission_an_id_can_be_made_to_deny() -> None:
    knowledge = Preflight(
        LintInputs.from_objects([_empty_template()]), LintSettings.for_admission(deny={"request-missing"})
    )
    message, field = f"{NO_REQUEST} [request-missing]", "spec.domain.devices.gpus[0].requestName"
    assert knowledge.preflight(_object("vmi")) == Verdict(False, causes=(AdmissionCause(INVALID, message, field),))


def test_at_admission_nothing_is_said_twice() -> None:
    raw = COMMON["vmi"]
    spec = {
        **raw["spec"],
        "domain": {"devices": {"gpus": [{"name": "g", "claimName": "gpu", "requestName": "gpu", "tag": "t"}]}},
    }
    vmi = VirtualMachineInstance.from_wire({**raw, "spec": spec})
    world = _world("template")
    assert [finding.id for finding in lint(vmi, world)] == ["tag-without-effect"]
    assert Preflight(world).preflight(vmi) == Verdict(True)  # webhooks.vmi.review warns of it
    denied = Preflight(world, LintSettings.for_admission(deny=BY_ID)).preflight(vmi)
    assert [cause.field for cause in denied.causes] == ["spec.domain.devices.gpus[0].tag"]


def test_at_admission_other_namespaces_and_devices_are_not_told_of() -> None:
    template = COMMON["template"]
    elsewhere = read_object({**template, "metadata": {"name": "one", "namespace": "secret"}})
    (warning,) = Preflight(LintInputs.from_objects([elsewhere])).preflight(_object("vmi")).warnings
    assert warning.endswith(MISSING)
    selector = {"cel": {"expression": 'device.attributes["gpu.example.com"].model == "H100"'}}
    exactly = {"deviceClassName": "gpu.example.com", "selectors": [selector]}
    picky = read_object(
        {**template, "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}}
    )
    world = LintInputs.from_objects([_object("class"), _object("slice"), picky])
    (warning,) = Preflight(world).preflight(_object("vmi")).warnings
    assert "matches none of the 2 devices. " in warning


def test_a_vm_whose_template_stays_is_not_denied() -> None:
    knowledge = Preflight(
        LintInputs.from_objects([_empty_template()]), LintSettings.for_admission(deny={"request-missing"})
    )
    old = _object("vm")
    stopped = old.with_(spec=old.spec.with_(run_strategy="Halted"))
    warning = f"spec.template.spec.domain.devices.gpus[0].requestName: [request-missing] {NO_REQUEST}"
    assert knowledge.preflight(stopped, old) == Verdict(True, warnings=(warning,))
    assert knowledge.preflight(stopped).allowed is False


_OLD_KEY = {
    **COMMON["slice"],
    "spec": {
        **COMMON["slice"]["spec"],
        "devices": [{"name": "gpu-0", "attributes": {"pciAddress": {"string": "0000:01:00.0"}}}],
    },
}
_ALTERNATIVES = {
    **COMMON["template"],
    "spec": {
        "spec": {
            "devices": {
                "requests": [{"name": "gpu", "firstAvailable": [{"name": "a", "deviceClassName": "gpu.example.com"}]}]
            }
        }
    },
}


@pytest.mark.parametrize(
    ("objects", "version", "id"),
    [
        ((_OLD_KEY, COMMON["template"]), "1.9", "address-key"),
        ((COMMON["slice"], COMMON["template"]), "1.8.1", "metadata-path"),
        ((COMMON["slice"], _ALTERNATIVES), "1.9", "first-available"),
    ],
)
def test_at_admission_what_the_pod_webhook_puts_right_is_not_told(
    objects: tuple[Any, ...], version: str, id: str
) -> None:
    world = LintInputs.from_objects(
        [_object("class"), *map(read_object, objects)],
        version=KubeVirtVersion.parse(version),
        gates={"GPUsWithDRA": True},
    )
    vmi = _object("vmi")
    assert [finding.id for finding in lint(vmi, world)] == [id], "without virt-dra on the cluster it won't work"
    native = vmi.with_(metadata=vmi.metadata.with_(annotations={"virt-dra.io/integration-path": "native"}))
    annotated = _object("class").to_wire()
    annotated["metadata"]["annotations"] = {"virt-dra.io/writes-metadata": "gpu.example.com"}
    writing = Preflight(replace(world, model=world.model.changed([read_object(annotated)])))
    told = [
        [id in warning for warning in knowledge.preflight(subject).warnings if "-not-work]" not in warning]
        for knowledge, subject in ((Preflight(world), vmi), (Preflight(world), native), (writing, vmi))
    ]
    assert told == [[], [True], [] if version == "1.8.1" else [True]]


def test_the_webhook_gets_the_gates_of_the_kubevirt_object() -> None:
    raw = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "spec": {"configuration": {"developerConfiguration": {"featureGates": ["HostDevices"]}}},
        "status": {"observedKubeVirtVersion": "v1.8.4"},
    }
    gates = Preflight(LintInputs.from_objects([read_object(raw)])).gates
    assert gates == Gates(KubeVirtVersion(1, 8, 4), frozenset({"HostDevices"}))
    assert LintInputs.from_objects([]).configuration.version == NEWEST


@pytest.mark.parametrize(
    ("status", "configuration", "architecture"),
    [
        ({}, {}, "amd64"),
        ({"defaultArchitecture": "s390x"}, {}, "s390x"),
        ({"defaultArchitecture": "s390x"}, {"architectureConfiguration": {"defaultArchitecture": "s390x"}}, None),
        ({"defaultArchitecture": "arm64"}, {"architectureConfiguration": {"arm64": {}}}, "arm64"),
    ],
)
def test_the_control_plane_has_the_architecture_of_the_kubevirt_objects_status(
    status: dict[str, str], configuration: dict[str, Any], architecture: str | None
) -> None:
    """Unless the configuration names a default, which the status repeats (K-2.47)."""
    raw = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "spec": {"configuration": configuration},
        "status": {"observedKubeVirtVersion": "v1.7.4", **status},
    }
    assert LintInputs.from_objects([read_object(raw)]).configuration.gates.architecture == architecture


# --- inventory ---


def test_devices_beyond_the_limit_are_left_open() -> None:
    inventory = DeviceInventory.from_slices([_object("slice")])
    match = inventory.matching(['device.attributes["gpu.example.com"].model == "A2"'], limit=1)
    assert (match.devices, match.passed, match.incomplete) == ((), (1, 0), True)


def test_answers_are_kept() -> None:
    inventory = DeviceInventory.from_slices([_object("slice")])
    assert inventory.matching(["true"]) is inventory.matching(["true"])


@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, 2000])
def test_ten_thousand_devices_and_fifty_claims_are_linted_in_time(limit: int | None) -> None:
    device = COMMON["slice"]["spec"]["devices"][0]
    slices = [
        read_object(
            {
                **COMMON["slice"],
                "metadata": {"name": f"s{part}"},
                "spec": {
                    **COMMON["slice"]["spec"],
                    "pool": {"name": f"p{part}", "generation": 1, "resourceSliceCount": 1},
                    "devices": [{**device, "name": f"gpu-{n}"} for n in range(100)],
                },
            }
        )
        for part in range(100)
    ]
    claims = range(50)
    spec = {
        "resourceClaims": [{"name": f"c{n}", "resourceClaimTemplateName": "one"} for n in claims],
        "domain": {
            "devices": {"gpus": [{"name": f"g{n}", "claimName": f"c{n}", "requestName": "gpu"} for n in claims]}
        },
    }
    world = LintInputs.from_objects([_object("class"), _object("template"), *slices])
    vmi = VirtualMachineInstance.from_wire({"metadata": {"name": "v"}, "spec": spec})
    began = time.process_time()
    assert lint(vmi, world, LintSettings(max_devices=limit)) == ()
    assert time.process_time() - began < 5, "seconds of the processor"


NINE = "[1,2,3,4,5,6,7,8,9]"
HOSTILE = (
    f'{NINE}.all(a, {NINE}.all(b, {NINE}.all(c, device.driver.startsWith("x") || a + b > c || true)))'
    ' && device.attributes["gpu.example.com"].model != ""'  # which differs from device to device
)


def test_selectors_that_take_long_are_left_open() -> None:
    inventory = DeviceInventory.from_slices([_object("slice")])
    work = Work(3_000)
    assert inventory.matching([HOSTILE], evaluator=ImmediateEvaluator(work)).incomplete
    assert work.left is not None
    assert work.left < 0
    assert len(inventory.matching([HOSTILE]).devices) == 2  # the answer was not kept
    assert not inventory.matching([HOSTILE], evaluator=ImmediateEvaluator(Work(0))).incomplete  # now it is


@pytest.mark.slow
def test_nobodys_vm_takes_long_at_admission() -> None:
    """As many claims, requests, alternatives and selectors as the API server takes, none like another, on 4000
    devices."""

    def published(n: int) -> dict[str, Any]:
        devices = [
            {**device, "attributes": {**device["attributes"], "model": {"string": f"{n} {place}"}}}
            for place, device in enumerate(COMMON["slice"]["spec"]["devices"])
        ]
        return {**COMMON["slice"]["spec"], "pool": {"name": f"p{n}", "generation": 1}, "devices": devices}

    pools = [published(n) for n in range(2000)]
    slices = [
        read_object({**COMMON["slice"], "metadata": {"name": f"s{n}"}, "spec": spec}) for n, spec in enumerate(pools)
    ]

    def alternative(template: int, request: int, n: int) -> dict[str, Any]:
        selectors = [
            {"cel": {"expression": f"{HOSTILE} && {template} + {request} + {n} + {part} > 0"}} for part in range(4)
        ]
        return {"name": f"a{n}", "deviceClassName": "gpu.example.com", "selectors": selectors}

    def hostile(template: int) -> Any:
        requests = [
            {"name": f"r{r}", "firstAvailable": [alternative(template, r, n) for n in range(8)]} for r in range(32)
        ]
        spec = {"spec": {"devices": {"requests": requests}}}
        return read_object({**COMMON["template"], "metadata": {"name": f"t{template}"}, "spec": spec})

    templates = [hostile(template) for template in range(5)]
    many = range(2000)
    spec = {
        "resourceClaims": [{"name": f"c{n}", "resourceClaimTemplateName": f"t{n % 5}"} for n in many],
        "domain": {
            "devices": {"gpus": [{"name": f"g{n}", "claimName": f"c{n}", "requestName": f"r{n % 32}"} for n in many]}
        },
    }
    knowledge = Preflight(LintInputs.from_objects([_object("class"), *templates, *slices]))
    vmi = VirtualMachineInstance.from_wire({"metadata": {"name": "v"}, "spec": spec})
    began = time.process_time()
    knowledge.preflight(vmi)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("kind", ["VirtualMachineInstancetype", "VirtualMachineClusterInstancetype"])
@pytest.mark.parametrize(
    ("own", "passed_on", "kubevirt", "ignored"),
    [
        ("24h", None, True, True),
        ("false", None, True, False),  # nothing is kept, as it says
        ("24h", {KEEP_ANNOTATION: "true"}, True, False),
        ("24h", {"other": "true"}, True, True),
        ("24h", [], True, True),
        ("24h", None, False, False),  # virt-dra's own CRDs know no instancetypes
    ],
)
def test_keeping_in_the_metadata_of_an_instancetype(
    kind: str, own: str, passed_on: Any, kubevirt: bool, ignored: bool
) -> None:
    spec = {"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}} | ({} if passed_on is None else {"annotations": passed_on})
    instancetype = read_object({
        "apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind,
        "metadata": {"name": "large", "annotations": {KEEP_ANNOTATION: own}}, "spec": spec,
    })  # fmt: skip
    inputs = LintInputs.from_objects([instancetype], beside_kubevirt=kubevirt)
    find = BY_ID["keep-ignored"].find_beside
    assert find is not None
    assert [issue.field for issue in find(instancetype, inputs)] == (
        [f"metadata.annotations[{KEEP_ANNOTATION}]"] if ignored else []
    )


def test_devices_of_an_instancetype_may_use_a_claim() -> None:
    raw = COMMON["vm"]
    template = {"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}}
    vm = {**raw, "spec": {"runStrategy": "Always", "template": template}}
    assert [finding.id for finding in lint(VirtualMachine.from_wire(vm), _world("template"))] == ["unused-claim"]
    vm = {**raw, "spec": {"runStrategy": "Always", "template": template, "instancetype": {"name": "gpu-large"}}}
    assert [finding.id for finding in lint(VirtualMachine.from_wire(vm), _world("template"))] == [
        "instancetype-not-checked"
    ]


# --- properties ---

_names = st.sampled_from(["", "gpu", "one", "mine", "gpu/a", "A", "\x1b", "\ud800"])
_requests = st.fixed_dictionaries(
    {"name": _names},
    optional={
        "exactly": st.fixed_dictionaries(
            {"deviceClassName": st.sampled_from(["gpu.example.com", "vfio.gpu.nvidia.com", "", "\n"])},
            optional={
                "count": st.integers(-1, 3),
                "allocationMode": st.sampled_from(["", "All", "ExactCount"]),
                "adminAccess": st.booleans(),
                "selectors": st.lists(
                    st.sampled_from(["true", "false", "1", "(", 'device.attributes["x"].y == 1']).map(
                        lambda text: {"cel": {"expression": text}}
                    )
                    | st.just({}),
                    max_size=2,
                ),
                "capacity": st.just({"requests": {"memory": "12Gi"}}),
            },
        ),
        "firstAvailable": st.lists(
            st.fixed_dictionaries({"name": _names, "deviceClassName": st.just("gpu.example.com")}), max_size=2
        ),
    },
)
_configs = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "requests": st.lists(_names, max_size=1),
            "opaque": st.fixed_dictionaries(
                {"driver": st.sampled_from(["gpu.nvidia.com", "x", ""])},
                optional={
                    "parameters": st.none()
                    | st.lists(st.none(), max_size=1)
                    | st.just({"kind": "VfioDeviceConfig", "iommu": 3})
                },
            ),
        },
    ),
    max_size=2,
)
_devices = st.fixed_dictionaries(
    {"name": _names}, optional={"deviceName": _names, "claimName": _names, "requestName": _names, "tag": _names}
)
_entries = st.fixed_dictionaries(
    {"name": _names}, optional={"resourceClaimName": _names, "resourceClaimTemplateName": _names}
)
_specs = st.fixed_dictionaries(
    {
        "resourceClaims": st.lists(_entries, max_size=2),
        "domain": st.fixed_dictionaries(
            {
                "devices": st.fixed_dictionaries(
                    {}, optional={"gpus": st.lists(_devices, max_size=2), "hostDevices": st.lists(_devices, max_size=2)}
                )
            }
        ),
    },
    optional={
        "networks": st.lists(
            st.fixed_dictionaries(
                {"name": _names, "resourceClaim": st.just({"claimName": "gpu", "requestName": "gpu"})}
            ),
            max_size=1,
        )
    },
)
_versions = st.sampled_from(["main", "1.9", "1.8.3", "1.8.0", "1.7", "1.5"]).map(KubeVirtVersion.parse)


@settings(max_examples=sample(200), deadline=None)
@given(
    spec=_specs,
    requests=st.lists(_requests, max_size=2),
    configs=_configs,
    version=_versions,
    gates=st.dictionaries(st.sampled_from(["GPUsWithDRA", "HostDevices"]), st.booleans()),
    cluster=st.booleans(),
)
def test_whatever_the_objects_findings_are_known_readable_and_can_be_silenced(
    spec: dict[str, Any],
    requests: list[Any],
    configs: list[Any],
    version: KubeVirtVersion,
    gates: dict[str, bool],
    cluster: bool,
) -> None:
    devices = {"requests": requests, "config": configs}
    objects = [
        read_object({**COMMON["template"], "spec": {"spec": {"devices": devices}}}),
        read_object({**COMMON["claim"], "spec": {"devices": devices}}),
        *([_object(name) for name in ("class", "nvidia-class", "slice", "nvidia-slice")] if cluster else []),
    ]
    world = LintInputs.from_objects(objects, version=version, gates=gates)
    vmi = VirtualMachineInstance.from_wire({"metadata": {"name": "v"}, "spec": spec})
    findings = lint(vmi, world)
    assert findings == lint(vmi, world)
    for finding in findings:
        assert finding.id in BY_ID
        assert (finding.field + finding.message).isprintable()
    silenced = ",".join({finding.id for finding in findings})
    assert lint(vmi.with_(metadata=vmi.metadata.with_(annotations={IGNORE_ANNOTATION: silenced})), world) == ()
    vm = VirtualMachine.from_wire(
        {"metadata": {"name": "v"}, "spec": {"runStrategy": "Always", "template": {"spec": spec}}}
    )
    of_vm = [(finding.id, finding.severity) for finding in lint(vm, world)]
    assert of_vm == [(finding.id, finding.severity) for finding in findings]


@pytest.mark.parametrize(
    ("version", "live", "silent"),
    [("1.7.4", True, False), ("1.8.0", True, True), ("1.8.2", True, True), ("1.8.2", False, False)],
)
def test_a_lost_request_that_the_pod_webhook_adds_is_no_warning(version: str, live: bool, silent: bool) -> None:
    world = LintInputs.from_objects((), version=KubeVirtVersion.parse(version))
    clock = (lambda: datetime(2026, 11, 22, tzinfo=UTC)) if live else None
    assert ("lost-request" in Preflight(world, clock=clock).unwanted_warnings) is silent
