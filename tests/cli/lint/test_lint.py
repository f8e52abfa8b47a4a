"""``virt-dra lint``: what people and programs read, exit codes, and what becomes of bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.webhooks.lint.test_cases import COMMON
from virt_dra.cli.main import cli
from webhooks.lint import CHECKS

MISSING = (
    'there is no ResourceClaimTemplate "one" in namespace default. The VM doesn\'t '
    "start until it exists: create it, or correct the name"
)
FIELD = "spec.resourceClaims[0].resourceClaimTemplateName"
NOT_CHECKED = (
    "not checked: everything that depends on DeviceClasses and ResourceSlices, "
    "of which the files have none; add those of the cluster"
)


def _run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(cli, ["lint", *arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One file for each common object, in the current folder."""
    for name, raw in COMMON.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    (tmp_path / "both.yaml").write_text(
        yaml.safe_dump_all([COMMON["template"], COMMON["vmi"], COMMON["vm"]]), encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- for people ---


def test_a_denial_is_told_with_its_place_and_id(files: Path) -> None:
    result = _run("-f", "vmi.yaml")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"vmi.yaml:1: VirtualMachineInstance default/vm: denial: {FIELD}: {MISSING} [template-missing]",
        "       --> vmi.yaml:14:32",
        "    14 |     resourceClaimTemplateName: one",
        "       |                                ^^^",
        "1 VM checked against KubeVirt 1.9: 1 denial, 0 warnings",
        NOT_CHECKED,
    ]


def test_nothing_found(files: Path) -> None:
    result = _run("-f", "both.yaml", "class.yaml", "slice.yaml")
    assert result.exit_code == 0
    assert result.stdout == "2 VMs checked against KubeVirt 1.9: 0 denials, 0 warnings\n"


def test_warnings_alone_are_no_failure(files: Path) -> None:
    result = _run("-f", "direct-vmi.yaml", "-f", "claim.yaml")
    assert result.exit_code == 0
    assert "1 VM checked against KubeVirt 1.9: 0 denials, 1 warning" in result.stdout


@pytest.mark.parametrize(
    ("options", "exit_code", "summary"),
    [
        ((), 0, "0 denials, 1 warning"),
        (("--deny", "direct-claim-pins"), 1, "1 denial, 0 warnings"),
        (("--deny", "all"), 1, "1 denial, 0 warnings"),
        (("--ignore", "direct-claim-pins,template-missing"), 0, "0 denials, 0 warnings"),
        (("--deny", "all", "--ignore", "all"), 0, "0 denials, 0 warnings"),
        (("--kubevirt-gates", "GPUsWithDRA=false"), 1, "1 denial, 1 warning"),
        (("--kubevirt-gates", "GPUsWithDRA=false", "--warn", "feature-gate-off"), 0, "0 denials, 2 warnings"),
        (("--complete",), 1, "1 denial, 1 warning"),
    ],
)
def test_options_decide_what_is_found_and_what_denies(
    files: Path, options: tuple[str, ...], exit_code: int, summary: str
) -> None:
    result = _run("-f", "direct-vmi.yaml", "-f", "claim.yaml", *options)
    assert (result.exit_code, result.stdout.splitlines()[-1 if "--complete" in options else -2]) == (
        exit_code,
        f"1 VM checked against KubeVirt 1.9: {summary}",
    )


def test_another_kubevirt(files: Path) -> None:
    result = _run(
        "-f", "both.yaml", "--kubevirt-version", "1.8.1", "--kubevirt-gates", "GPUsWithDRA=true", "-o", "json"
    )
    assert json.loads(result.stdout)["kubevirt"] == "1.8.1"
    assert [finding["id"] for vm in json.loads(result.stdout)["objects"] for finding in vm["findings"]] == [
        "metadata-path",
        "metadata-path",
    ]


def test_objects_without_a_namespace_are_in_the_given_one(files: Path) -> None:
    result = _run("-f", "claim.yaml", "-f", "direct-vmi.yaml", "-n", "team-a")
    assert (
        'there is no ResourceClaim "mine" in namespace team-a; there is one in namespace default, but' in result.stdout
    )


def test_a_vmi_of_a_vm_of_the_input_is_judged_with_its_vm(files: Path) -> None:
    vmi = {
        **COMMON["vmi"],
        "metadata": {"name": "vm", "ownerReferences": [{"kind": "VirtualMachine", "name": "vm", "controller": True}]},
    }
    (files / "owned.yaml").write_text(yaml.safe_dump(vmi), encoding="utf-8")
    assert "1 VM checked" in _run("-f", "owned.yaml", "-f", "vm.yaml", "-f", "template.yaml").stdout
    assert "1 VM checked" in _run("-f", "owned.yaml", "-f", "template.yaml").stdout


def test_configured_attribute_keys_are_addresses(files: Path) -> None:
    device = {"name": "gpu-0", "attributes": {"slot": {"string": "0000:01:00.0"}}}
    raw = {**COMMON["slice"], "spec": {**COMMON["slice"]["spec"], "devices": [device]}}
    (files / "own.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    (files / "keys.yaml").write_text("[{driver: gpu.example.com, pci: [slot]}]", encoding="utf-8")
    paths = ("own.yaml", "class.yaml", "template.yaml", "vmi.yaml", "-o", "json")

    def ids(*options: str) -> list[str]:
        return [finding["id"] for finding in json.loads(_run(*paths, *options).stdout)["objects"][0]["findings"]]

    assert ids() == ["no-address"]
    assert ids("--address-keys", "keys.yaml") == ["address-key"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "keys.yaml: must hold one list of objects {driver, pci: [keys], mdev: [keys]}"),
        ("a: b", "keys.yaml: must be a list of objects {driver, pci: [keys], mdev: [keys]}"),
        (
            "[{driver: d, pci: [pcieRoot]}]",
            "keys.yaml[0].pci[0]: pcieRoot is never an address of the device itself;",
        ),
        ("[", "keys.yaml: line 1, column 2, document 1: not JSON: Expecting value"),
        (None, "keys.yaml: No such file or directory"),
    ],
)
def test_attribute_keys_that_are_wrong(files: Path, text: str | None, message: str) -> None:
    if text is not None:
        (files / "keys.yaml").write_text(text, encoding="utf-8")
    result = _run("-f", "vmi.yaml", "--address-keys", "keys.yaml")
    assert result.exit_code == 2
    assert message in result.stderr


def test_the_list_has_every_check() -> None:
    result = _run("--list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == [check.id for check in CHECKS]


def test_help_has_examples_and_exit_codes() -> None:
    result = _run("--help")
    assert result.exit_code == 0
    assert "virt-dra lint -f examples/cluster/vm.yaml -f examples/cluster/claim-template.yaml" in result.stdout
    assert (
        "Exit codes: 0 no denial, 1 a VM, another object or a file has a denial, 2 bad usage or no readable input."
        in result.stdout
    )


EXAMPLES = Path(__file__).parents[3] / "examples"
FOUND = {
    "cel-error": ["refused-object", "invalid-object"],  # the VM's and the class's
    "device-name-and-claim": ["kubevirt-refuses", "unused-claim"],
    "device-without-address": ["no-address"],
    "gate-off": ["feature-gate-off"],
    "host-devices-gate-off": ["feature-gate-off"],
    "malformed-pci-address": ["no-address"],
    "no-matching-device": ["no-matching-device"],
    "no-template": ["template-missing"],
    "not-enough-capacity": ["not-enough-capacity"],
    "unknown-claim": ["kubevirt-refuses", "unused-claim"],
    "unknown-request": ["request-missing"],
    "xml-hostile-names": ["invalid-domain"],
}
"""What is found in the examples that fail; the others there can't be read."""


@pytest.mark.parametrize(
    "name",
    sorted(
        path.name
        for path in EXAMPLES.iterdir()
        if path.is_dir() and path.name not in ("cluster", "failing", "plan", "requests", "simulation")
    ),
)
def test_examples_that_run_have_no_denials(name: str) -> None:
    assert _run("-f", str(EXAMPLES / name)).exit_code == 0


def test_of_the_examples_for_a_cluster_the_one_that_is_to_be_denied_is() -> None:
    folder = EXAMPLES / "cluster"
    others = [f"-f{path}" for path in sorted(folder.glob("*.yaml")) if path.name != "wrong-request.yaml"]
    denied = _run("-f", str(folder))
    assert (_run(*others).exit_code, denied.exit_code, denied.output.count("[request-missing]")) == (0, 1, 1)


@pytest.mark.parametrize("name", sorted(path.name for path in (EXAMPLES / "failing").iterdir()))
def test_examples_that_fail_are_found_beforehand(name: str) -> None:
    result = _run("-f", str(EXAMPLES / "failing" / name), "-o", "json")
    if name not in FOUND:
        assert result.exit_code == 2
        return
    assert result.exit_code == (1 if FOUND[name] else 0)
    assert [finding["id"] for vm in json.loads(result.stdout)["objects"] for finding in vm["findings"]] == FOUND[name]


# --- for programs ---


def test_json(files: Path) -> None:
    result = _run(
        "-o",
        "json",
        "-f",
        "-",
        stdin="---\n".join(json.dumps(COMMON[name]) + "\n" for name in ("template", "direct-vmi", "vm")),
    )
    assert result.exit_code == 1
    pins = (
        'a ResourceClaim that is named directly ("mine") keeps its devices, so '
        "the VM is pinned to their node: it can't migrate, "
        "and it doesn't start elsewhere if the node is lost. Use a template, unless that is intended"
    )
    absent = MISSING.replace("ResourceClaimTemplate", "ResourceClaim").replace('"one"', '"mine"')
    field = "spec.resourceClaims[0].resourceClaimName"
    assert json.loads(result.stdout) == {
        "apiVersion": "output.virt-dra.io/v1",
        "kind": "LintReport",
        "version": 1,
        "kubevirt": "1.9",
        "kubevirtAssumed": False,
        "denials": 1,
        "warnings": 1,
        "replaced": [],
        "notChecked": ["DeviceClass", "ResourceSlice"],
        "unknown": [],
        "otherTools": [],
        "counts": [
            {"id": "claim-missing", "severity": "denial", "findings": 1, "objects": 1},
            {"id": "direct-claim-pins", "severity": "warning", "findings": 1, "objects": 1},
        ],
        "objects": [
            {
                "kind": "VirtualMachineInstance",
                "namespace": "default",
                "name": "vm",
                "file": "standard input",
                "line": 3,
                "findings": [
                    {
                        "id": id,
                        "severity": severity,
                        "field": field,
                        "message": message,
                        "page": f"docs/lint/{id}.md",
                        "line": 3,
                        "column": 161,
                    }
                    for id, severity, message in (
                        ("claim-missing", "denial", absent),
                        ("direct-claim-pins", "warning", pins),
                    )
                ],
            },
            {
                "kind": "VirtualMachine",
                "namespace": "default",
                "name": "vm",
                "file": "standard input",
                "line": 5,
                "findings": [],
            },
        ],
    }


def test_sarif(files: Path) -> None:
    result = _run("-o", "sarif", "-f", "vmi.yaml")
    assert result.exit_code == 1
    log = json.loads(result.stdout)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("/sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    assert run["invocations"] == [{"executionSuccessful": True}]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [check.id for check in CHECKS]
    assert all(
        rule["defaultConfiguration"]["level"] in ("error", "warning") and rule["shortDescription"]["text"]
        for rule in rules
    )
    assert all(rule["help"]["markdown"].startswith(f"# {rule['id']}\n") and "helpUri" not in rule for rule in rules)
    (reported,) = run["results"]
    assert rules[reported["ruleIndex"]]["id"] == reported["ruleId"] == "template-missing"
    assert reported["level"] == "error"
    assert reported["message"] == {"text": f"VirtualMachineInstance default/vm: {FIELD}: {MISSING}"}
    assert reported["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "vmi.yaml"},
                "region": {"startLine": 14, "startColumn": 32, "endColumn": 35},
            },
            "logicalLocations": [
                {"name": FIELD, "fullyQualifiedName": f"VirtualMachineInstance default/vm/{FIELD}", "kind": "member"}
            ],
        }
    ]


@pytest.mark.parametrize(("name", "uri"), [("a b#.yaml", "a%20b%23.yaml"), ("x:y.yaml", "x%3Ay.yaml")])
def test_sarif_names_files_by_uri(files: Path, name: str, uri: str) -> None:
    (files / name).write_text(yaml.safe_dump(COMMON["vmi"]), encoding="utf-8")
    (result,) = json.loads(_run("-o", "sarif", "-f", name).stdout)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_sarif_of_standard_input(files: Path) -> None:
    (result,) = json.loads(_run("-o", "sarif", "-f", "-", stdin=json.dumps(COMMON["vmi"])).stdout)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "stdin"},
        "region": {"startLine": 1, "startColumn": 169, "endColumn": 174},
    }


# --- bad input ---


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "error: standard input: contains no objects\n"),
        ("a: [", "error: standard input:2: column 1: not YAML: "),
        (
            "kind: Pod\napiVersion: v1\n",
            "error: -: no VirtualMachine or VirtualMachineInstance found; name the file that has one\n",
        ),
        (
            "kind: VirtualMachineInstance\napiVersion: kubevirt.io/v1\nmetadata: {name: x}\n"
            "spec: {domain: {devices: {gpus: [{name: 3}]}}}\n",
            'error: standard input:1: VirtualMachineInstance "x": '
            "spec.domain.devices.gpus[0].name: must be a string, not an integer\n",
        ),
        ("- 1\n", "error: standard input:1: a Kubernetes object must be a JSON object\n"),
    ],
)
def test_unreadable_input(text: str, message: str) -> None:
    result = _run("-f", "-", stdin=text)
    assert result.exit_code == 2
    assert result.stderr.startswith(message)
    assert result.stdout == ""
    as_json = _run("-f", "-", "-o", "json", stdin=text)
    assert as_json.exit_code == 2
    assert list(json.loads(as_json.stdout)) == ["apiVersion", "kind", "error", "problems"]
    as_sarif = _run("-f", "-", "-o", "sarif", stdin=text)
    assert as_sarif.exit_code == 2
    (run,) = json.loads(as_sarif.stdout)["runs"]
    assert run["results"] == []
    assert run["invocations"][0]["executionSuccessful"] is False
    assert run["invocations"][0]["toolExecutionNotifications"][0]["level"] == "error"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name the files to check, e.g. virt-dra lint -f vm.yaml -f template.yaml"),
        (
            ("-f", "x", "--ignore", "nonsense"),
            "'nonsense' is no finding; virt-dra lint --list shows them, and all stands for every one",
        ),
        (("-f", "x", "--deny", "a,b"), "'a' is no finding"),
        (
            ("-f", "x", "--kubevirt-version", "one"),
            "'one' is no KubeVirt version; write for example 1.9, 1.8.3 or main",
        ),
        (
            ("-f", "x", "--kubevirt-gates", "Nonsense"),
            "'Nonsense': write GATE=true or GATE=false with a gate of GPUsWithDRA",
        ),
        (("-f", "x", "-n", "A"), "'A' can't be the name of a namespace"),
        (("-f", "x", "-o", "xml"), "'xml' is not one of 'text', 'json', 'yaml', 'sarif', 'github', 'junit'"),
        (("-f", "no-such-file.yaml"), "error: no-such-file.yaml: no such file or folder"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...], message: str) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_hostile_names_are_shown_on_one_line() -> None:
    vmi: dict[str, Any] = {**COMMON["vmi"], "metadata": {"name": "a\x1b[31m\nb", "namespace": "n\u202e"}}
    result = _run("-f", "-", stdin=json.dumps(vmi))
    assert result.exit_code == 1
    first = result.stdout.splitlines()[0]
    assert first.startswith("standard input:1: VirtualMachineInstance n\\u202e/a\\x1b[31m\\nb: denial: ")
    assert first.isprintable()


def test_hostile_kinds_are_shown_on_one_line() -> None:
    result = _run("-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "\x1b[31m"}))
    assert result.exit_code == 2
    assert (
        result.stderr == "error: standard input:1: \\x1b[31m: kind: must be letters and digits, such as ResourceClaim\n"
    )


@pytest.mark.parametrize(
    ("version", "assumed"),
    [("20260801_abcdef", True), ("sha256:0123", True), ("devel", True), ("v1.9.0-rc.1-12-gabcdef", False), ("", False)],
)
def test_a_version_that_names_no_release_is_named_with_what_is_assumed(
    files: Path, version: str, assumed: bool
) -> None:
    kubevirt = {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt"}}
    (files / "kubevirt.yaml").write_text(
        yaml.safe_dump({**kubevirt, "status": {"observedKubeVirtVersion": version}}), encoding="utf-8"
    )
    arguments = ("-f", "kubevirt.yaml", "-f", "vm.yaml", "-f", "template.yaml")
    sentence = (
        f'status.observedKubeVirtVersion is "{version}", which names no release: '
        "the rules of 1.9, the newest release known here"
    )
    assert (sentence in _run(*arguments).stdout) == assumed
    assert json.loads(_run(*arguments, "-o", "json").stdout)["kubevirtAssumed"] is assumed
    named = _run(*arguments, "--kubevirt-version", "1.8.3", "--kubevirt-gates", "GPUsWithDRA=true")
    assert ("checked against KubeVirt 1.8.3" in named.stdout, "names no release" in named.stdout) == (True, False)


def test_a_vm_that_two_files_define_differently_is_judged_as_the_last_has_it(tmp_path: Path) -> None:
    head = (
        "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: vm}\nspec: {domain: {devices: {}}"
    )
    a, b, c = (tmp_path / name for name in ("a.yaml", "b.yaml", "c.yaml"))
    a.write_text(f"{head}, resourceClaims: [{{name: gpu, resourceClaimTemplateName: one}}]}}\n")
    b.write_text(f"{head}}}\n")
    c.write_text(f"# the same\n{head}}}\n")
    told = CliRunner().invoke(cli, ["lint", str(a), str(b), str(c)])
    assert (told.exit_code, told.stdout.splitlines()) == (
        0,
        [
            f"VirtualMachineInstance default/vm is given with different content at {a}:1 and {c}:2; "
            "the last one is used, as kubectl apply does",
            "1 VM checked against KubeVirt 1.9: 0 denials, 0 warnings",
            *told.stdout.splitlines()[2:],
        ],
    )
    report = json.loads(CliRunner().invoke(cli, ["lint", str(a), str(b), "-o", "json"]).stdout)
    assert report["replaced"] == [
        {"kind": "VirtualMachineInstance", "key": "default/vm", "earlier": [f"{a}:1"], "used": f"{b}:1"}
    ]
    log = json.loads(CliRunner().invoke(cli, ["lint", str(a), str(b), "-o", "sarif"]).stdout)
    (notification,) = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert notification["level"] == "warning"
    assert json.loads(CliRunner().invoke(cli, ["lint", str(b), str(c), "-o", "json"]).stdout)["replaced"] == []
    run = CliRunner().invoke(cli, ["run", str(a), str(b)])
    assert run.exit_code == 0, run.output
    assert f"is given with different content at {a}:1 and {b}:1" in run.output
    assert "1 of 1 VM ready" in run.output


# --- the design's form ---


def _device(entry: dict[str, Any], kind: str) -> dict[str, Any]:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    spec = {"resourceClaims": claims, "domain": {"devices": {"gpus": [{"name": "g", **entry}]}}}
    written = {"runStrategy": "Always", "template": {"spec": spec}} if kind == "VirtualMachine" else spec
    return {"apiVersion": "kubevirt.io/v1", "kind": kind, "metadata": {"name": "v"}, "spec": written}


@pytest.mark.parametrize(
    ("kind", "root"), [("VirtualMachine", "spec.template.spec"), ("VirtualMachineInstance", "spec")]
)
@pytest.mark.parametrize("version", [(), ("--kubevirt-version", "1.9")])
@pytest.mark.parametrize(
    ("entry", "denials"),
    [
        (
            {"claim": {"name": "gpu", "request": "gpu"}},
            [
                ("kubevirt-refuses", "gpus", "without deviceName or claimRequest"),
                ("unknown-field", "gpus[0].claim", "KubeVirt has claimName and requestName in its place"),
            ],
        ),
        (
            {"claim": {"name": "gpu", "request": "gpu"}, "deviceName": "example.com/gpu"},
            [("unknown-field", "gpus[0].claim", "KubeVirt has claimName and requestName in its place")],
        ),
        (
            {"claimName": "gpu", "requestName": "gpu", "deviceName": "example.com/gpu"},
            [
                (
                    "kubevirt-refuses",
                    "gpus",
                    "vmi.spec.domain.devices.gpus contains GPUs with both deviceName and claimRequest",
                )
            ],
        ),
    ],
)
def test_a_claim_in_the_designs_form_is_what_the_api_server_makes_of_it(
    files: Path,
    kind: str,
    root: str,
    version: tuple[str, ...],
    entry: dict[str, Any],
    denials: list[tuple[str, str, str]],
) -> None:
    Path("v.yaml").write_text(yaml.safe_dump(_device(entry, kind)), encoding="utf-8")
    result = _run("-f", "v.yaml", "-f", "template.yaml", "-o", "json", *version)
    (vm,) = [obj for obj in json.loads(result.stdout)["objects"] if obj["kind"] == kind]
    findings = [finding for finding in vm["findings"] if finding["severity"] == "denial"]
    assert [(finding["id"], finding["field"]) for finding in findings] == [
        (id, f"{root}.domain.devices.{field}") for id, field, _ in denials
    ]
    assert all(text in finding["message"] for finding, (_, _, text) in zip(findings, denials, strict=True))
