"""``virt-dra lint`` of objects as they are written: what an API server refuses is a denial, whether a VM uses the
object or not."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.cli.lint.test_lint import _run
from tests.webhooks.lint.test_cases import COMMON

VMI, TEMPLATE, CLASS, SLICE = (COMMON[name] for name in ("vmi", "template", "class", "slice"))


def _changed(raw: Any, *changes: tuple[str, Any]) -> Any:
    """A copy with values at paths (``spec.devices.0.name``); None takes the member away."""
    copied = copy.deepcopy(raw)
    for path, value in changes:
        holder, (*way, last) = copied, path.split(".")
        for part in way:
            holder = holder[int(part)] if isinstance(holder, list) else holder.setdefault(part, {})
        if value is None:
            del holder[last]
        else:
            holder[int(last) if isinstance(holder, list) else last] = value
    return copied


def _lint(*objects: Any, options: tuple[str, ...] = ()) -> tuple[int, dict[str, list[tuple[str, str, str]]]]:
    """Exit code, and the denials (id, field, message) of each object that was judged, by kind and name."""
    result = _run(
        "-f",
        "-",
        "-o",
        "json",
        *options,
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}),
    )
    report = json.loads(result.stdout)
    assert "error" not in report, report
    assert report["denials"] == sum(
        finding["severity"] == "denial" for entry in report["objects"] for finding in entry["findings"]
    )
    return result.exit_code, {
        f"{entry['kind']} {entry['name']}": [
            (finding["id"], finding["field"], finding["message"])
            for finding in entry["findings"]
            if finding["severity"] == "denial"
        ]
        for entry in report["objects"]
    }


REQUEST = "spec.spec.devices.requests.0"
AT = "spec.spec.devices.requests[0]"
V1BETA1_STYLE = _changed(TEMPLATE, (REQUEST, {"name": "gpu", "deviceClassName": "gpu.example.com"}))


@pytest.mark.parametrize(
    ("template", "id", "field", "part"),
    [
        (
            V1BETA1_STYLE,
            "unknown-field",
            f"{AT}.deviceClassName",
            "put it under exactly, or say apiVersion: resource.k8s.io/v1beta1",
        ),
        (
            _changed(TEMPLATE, (f"{REQUEST}.exactly.alocationMode", "All")),
            "unknown-field",
            f"{AT}.exactly.alocationMode",
            'did you mean "allocationMode"?',
        ),
        (
            _changed(TEMPLATE, (f"{REQUEST}.exactly.allocationMode", "Some")),
            "invalid-object",
            f"{AT}.exactly.allocationMode",
            'Unsupported value: "Some"',
        ),
        (
            _changed(TEMPLATE, (f"{REQUEST}.exactly.count", -1)),
            "invalid-object",
            f"{AT}.exactly.count",
            "must be greater than zero",
        ),
        (
            _changed(TEMPLATE, (f"{REQUEST}.name", "GPU_1")),
            "invalid-object",
            f"{AT}.name",
            "a lowercase RFC 1123 label",
        ),
        (
            _changed(TEMPLATE, (f"{REQUEST}.exactly.selectors", [{"cel": {"expression": "device."}}])),
            "invalid-object",
            f"{AT}.exactly.selectors[0].cel.expression",
            "Syntax error",
        ),
        (
            _changed(TEMPLATE, ("metadata.name", "One_GPU")),
            "invalid-object",
            "metadata.name",
            "a lowercase RFC 1123 subdomain",
        ),
        (
            _changed(TEMPLATE, ("metadata", {"generateName": "One_GPU-"})),
            "invalid-object",
            "metadata.generateName",
            "a lowercase RFC 1123 subdomain",
        ),
        (_changed(TEMPLATE, ("metadata", {})), "invalid-object", "metadata.name", "name or generateName is required"),
        (
            _changed(TEMPLATE, (f"{REQUEST}.exactly.count", "1")),
            "unreadable-object",
            f"{AT}.exactly.count",
            "must be an integer, not a string",
        ),
        (
            _changed(TEMPLATE, ("apiVersion", "resource.k8s.io/v1alpha2")),
            "unreadable-object",
            "apiVersion",
            "classic DRA",
        ),
        (
            _changed(TEMPLATE, (f"{REQUEST}.exactly.deviceClassName", "{{ .Values.class }}")),
            "unrendered-template",
            f"{AT}.exactly.deviceClassName",
            "`{{ .Values.class }}` is an instruction of a template",
        ),
    ],
)
def test_a_template_that_is_refused_is_denied_used_or_not(template: Any, id: str, field: str, part: str) -> None:
    """K-2.2, A-22: the object has the finding, and of the VMs only those that use it are told."""
    other = _changed(VMI, ("metadata.name", "other"), ("spec.resourceClaims.0.resourceClaimTemplateName", "two"))
    two = _changed(TEMPLATE, ("metadata.name", "two"))
    unused = _lint(other, two, template)
    used = _lint(VMI, other, two, template)
    assert (unused[0], used[0]) == (1, 1)
    for _, found in (unused, used):
        (faults,) = (faults for name, faults in found.items() if name.startswith("ResourceClaimTemplate"))
        assert [(fault[0], fault[1]) for fault in faults] == [(id, field)]
        assert part in faults[0][2]
        assert found["VirtualMachineInstance other"] == []
    if template["metadata"].get("name") == "one":
        ((told, where, message),) = used[1]["VirtualMachineInstance vm"]
        assert (told, where) == ("refused-object", "spec.resourceClaims[0].resourceClaimTemplateName")
        assert message.startswith(
            'ResourceClaimTemplate "one" (standard input:1 (items[3])) would be refused by the API server: '
        )
        assert part in message


@pytest.mark.parametrize(
    ("objects", "field"),
    [
        ((_changed(CLASS, ("spec.selectors.0.cel.expression", "device.")),), "spec.selectors[0].cel.expression"),
        ((_changed(CLASS, ("metadata.namespace", "a")),), "metadata.namespace"),
        ((_changed(SLICE, ("spec.pool.resourceSliceCount", 0)),), "spec.pool.resourceSliceCount"),
        ((_changed(SLICE, ("spec.devices.0.name", "GPU 0")),), "spec.devices[0].name"),
        (
            (
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "DeviceTaintRule",
                    "metadata": {"name": "r"},
                    "spec": {"taint": {"key": "a/b/c", "effect": "No"}},
                },
            ),
            "spec.taint.key",
        ),
        (
            (
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "p"},
                    "spec": {
                        "resourceClaims": [{"name": "a", "resourceClaimName": "b", "resourceClaimTemplateName": "c"}]
                    },
                },
            ),
            "spec.resourceClaims[0]",
        ),
        (({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a/b"}},), "metadata.name"),
        ((_changed(VMI, ("metadata.name", "A b")),), "metadata.name"),
        (
            (_changed(COMMON["vm"], ("spec.template.metadata", {"labels": {"a": "b c"}})),),
            "spec.template.metadata.labels",
        ),
    ],
)
def test_objects_of_every_kind_are_validated(objects: tuple[Any, ...], field: str) -> None:
    code, findings = _lint(*objects, _changed(VMI, ("metadata.name", "good")), TEMPLATE)
    assert code == 1
    assert ("invalid-object", field) in [fault[:2] for faults in findings.values() for fault in faults]


def test_one_object_of_a_wrong_type_does_not_stop_the_run() -> None:
    wrong = _changed(VMI, ("metadata.name", "wrong"), ("spec.domain.devices.gpus.0.name", 3))
    missing = _changed(VMI, ("metadata.name", "missing"), ("spec.resourceClaims.0.resourceClaimTemplateName", "none"))
    code, findings = _lint(wrong, missing, VMI, TEMPLATE, 1, {"kind": "Pod"})
    assert code == 1
    assert [(name, [fault[0] for fault in faults]) for name, faults in findings.items()] == [
        ("VirtualMachineInstance wrong", ["unreadable-object"]),
        ("VirtualMachineInstance missing", ["template-missing"]),
        ("VirtualMachineInstance vm", []),
        (" ", ["unreadable-object"]),
        ("Pod ", ["unreadable-object"]),
    ]


def test_objects_of_a_cluster_keep_fields_that_are_newer_than_we_are() -> None:
    newer = _changed(TEMPLATE, ("metadata.uid", "1"), ("spec.spec.fieldOfTheFuture", 1))
    assert _lint(VMI, newer) == (0, {"VirtualMachineInstance vm": []})
    assert _lint(VMI, _changed(newer, ("metadata.uid", None)))[0] == 1


def test_v1beta1_objects_are_judged_as_such() -> None:
    beta = _changed(V1BETA1_STYLE, ("apiVersion", "resource.k8s.io/v1beta1"))
    assert _lint(VMI, beta) == (0, {"VirtualMachineInstance vm": []})
    code, findings = _lint(VMI, _changed(TEMPLATE, ("apiVersion", "resource.k8s.io/v1beta1")))
    assert code == 1
    assert [finding[:2] for finding in findings["ResourceClaimTemplate one"]] == [("unknown-field", f"{AT}.exactly")]


def test_slices_that_are_refused_do_not_count() -> None:
    code, findings = _lint(VMI, TEMPLATE, CLASS, _changed(SLICE, ("spec.pool.resourceSliceCount", 0)))
    assert code == 1
    assert [finding[0] for finding in findings["VirtualMachineInstance vm"]] == ["no-matching-device"]
    assert "a ResourceSlice of the input would be refused" in findings["VirtualMachineInstance vm"][0][2]


@pytest.mark.parametrize(
    ("options", "annotations", "code"),
    [
        ((), {}, 1),
        (("--ignore", "unknown-field"), {}, 0),
        (("--warn", "unknown-field"), {}, 0),
        ((), {"virt-dra.io/lint-ignore": "unknown-field"}, 0),
    ],
)
def test_findings_on_objects_are_silenced_like_others(
    options: tuple[str, ...], annotations: dict[str, str], code: int
) -> None:
    template = _changed(TEMPLATE, ("metadata.annotations", annotations), (f"{REQUEST}.exactly.alocationMode", "All"))
    assert _lint(VMI, template, options=options)[0] == code


def test_what_programs_in_the_guest_read_may_have_braces() -> None:
    cloud_init = {"name": "c", "cloudInitNoCloud": {"userData": "## template: jinja\n{{ ds.meta_data }}"}}
    vmi = _changed(VMI, ("spec.volumes", [cloud_init]), ("metadata.annotations", {"note": "{{ x }}"}))
    assert _lint(vmi, TEMPLATE) == (0, {"VirtualMachineInstance vm": []})


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata:\n  name: {{ .Values.name }}\n",
        "{{- if .Values.enabled }}\napiVersion: v1\nkind: Pod\n{{- end }}\n",
        'kind: VirtualMachineInstance\nmetadata:\n  labels:\n    {{- include "x" . | nindent 4 }}\nspec: {}\n',
        "{% if enabled %}\nkind: Pod\n{% endif %}\n",
    ],
)
@pytest.mark.parametrize("output", ["text", "json"])
def test_a_file_that_is_no_yaml_until_it_is_rendered(text: str, output: str) -> None:
    result = _run("-f", "-", "-o", output, stdin=text)
    assert result.exit_code == 2
    assert (
        "is an instruction of a template, not YAML. Render the template first, "
        "e.g. helm template CHART | virt-dra lint -f -" in result.output
    )


def test_sarif_shows_objects_at_their_line() -> None:
    text = "---\n".join(json.dumps(obj) + "\n" for obj in (VMI, V1BETA1_STYLE))
    (run,) = json.loads(_run("-f", "-", "-o", "sarif", stdin=text).stdout)["runs"]
    told = [
        (result["ruleId"], result["locations"][0]["physicalLocation"]["region"]["startLine"])
        for result in run["results"]
    ]
    assert told == [("refused-object", 1), ("unknown-field", 3)]


def test_templates_alone_are_judged_too() -> None:
    result = _run("-f", "-", stdin=json.dumps(V1BETA1_STYLE))
    assert result.exit_code == 1
    lines = [line for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert lines[:2] == [
        f"standard input:1: ResourceClaimTemplate default/one: denial: {AT}.deviceClassName: unknown field; "
        "put it under exactly, or say apiVersion: resource.k8s.io/v1beta1, which has it here [unknown-field]",
        "0 VMs checked against KubeVirt 1.9: 1 denial, 0 warnings",
    ]


VM = COMMON["vm"]
VM_TEMPLATE = "spec.template.spec"
ENTRIES = [{"name": "gpu", "resourceClaimTemplateName": "one"}]


@pytest.mark.parametrize(
    ("vm", "field", "message"),
    [
        (
            _changed(VMI, ("spec.domain.devices.gpu", [])),
            "spec.domain.devices.gpu",
            'unknown field, did you mean "gpus"?',
        ),
        (
            _changed(VMI, ("spec.domain.memroy", {"guest": "2Gi"})),
            "spec.domain.memroy",
            'unknown field, did you mean "memory"?',
        ),
        (
            _changed(VM, ("spec.resourceClaims", ENTRIES)),
            "spec.resourceClaims",
            "unknown field; put it under spec.template.spec.resourceClaims",
        ),
        (_changed(VM, ("spec.domain", {})), "spec.domain", "unknown field; put it under spec.template.spec.domain"),
        (
            _changed(VMI, ("spec.domain.gpus", [])),
            "spec.domain.gpus",
            "unknown field; put it under spec.domain.devices.gpus",
        ),
        (
            _changed(VMI, ("spec.resourceClaims", [{"name": "gpu", "source": {"resourceClaimTemplateName": "one"}}])),
            "spec.resourceClaims[0].source",
            "unknown field; write what is in it, resourceClaimName or resourceClaimTemplateName, beside name",
        ),
        (
            _changed(VM, (f"{VM_TEMPLATE}.domain.devices.gpus.0.requestname", "gpu")),
            f"{VM_TEMPLATE}.domain.devices.gpus[0].requestname",
            'unknown field, did you mean "requestName"?',
        ),
    ],
)
@pytest.mark.parametrize("options", [(), ("--kubevirt-version", "1.9")])
def test_fields_that_a_vm_does_not_have(vm: Any, field: str, message: str, options: tuple[str, ...]) -> None:
    code, findings = _lint(vm, TEMPLATE, options=options)
    (faults,) = (faults for name, faults in findings.items() if name.startswith("VirtualMachine"))
    assert code == 1
    assert [(id, where) for id, where, text in faults if text.startswith(message)] == [("unknown-field", field)]


@pytest.mark.parametrize("options", [(), ("--kubevirt-version", "1.9")])
def test_the_designs_form_is_unknown_to_kubevirt(options: tuple[str, ...]) -> None:
    vmi = _changed(VMI, ("spec.domain.devices.gpus", [{"name": "g", "claim": {"name": "gpu", "request": "gpu"}}]))
    code, findings = _lint(vmi, TEMPLATE, options=options)
    assert code == 1
    assert (
        "unknown-field",
        "spec.domain.devices.gpus[0].claim",
        "unknown field; KubeVirt has claimName and requestName in its place",
    ) in findings["VirtualMachineInstance vm"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("spec.terminationGracePeriodSeconds", "soon"), "spec.terminationGracePeriodSeconds"),
        (("spec.hostname", 3), "spec.hostname"),
        (("spec.domain.firmware", []), "spec.domain.firmware"),
        (("spec.volumes", [{"name": "root", "emptyDisk": {}}]), "spec.volumes[0].emptyDisk.capacity"),
        (("spec.domain.devices", None), "spec.domain.devices"),
        (("spec.resourceClaims", [*ENTRIES, *ENTRIES]), "spec.resourceClaims[1]"),
    ],
)
def test_what_the_schema_of_a_kubevirt_refuses(change: tuple[str, Any], field: str) -> None:
    """K-2.2: types of fields that we have no type for, required fields, keys of lists."""
    code, findings = _lint(
        _changed(VMI, change), TEMPLATE, options=("--kubevirt-version", "1.7.4", "--kubevirt-gates", "GPUsWithDRA=true")
    )
    assert code == 1
    assert field in [
        finding[1]
        for finding in findings["VirtualMachineInstance vm"]
        if finding[0] in ("invalid-object", "unreadable-object")
    ]
