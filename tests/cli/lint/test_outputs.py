"""What ``virt-dra lint`` prints: excerpts with a caret, annotations of a workflow, JUnit reports, YAML, rules with
their pages."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner, Result

from virt_dra.cli.main import cli

TEXT = """\
# two objects
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: vm}
spec:
  resourceClaims:
  - {name: gpu, resourceClaimTemplateName: one-gpu}
  domain:
    devices:
      gpus: [{name: gpu, claimName: gpu, requestName: gpux}]
"""
MESSAGE = 'ResourceClaimTemplate "one-gpu" has no request "gpux", only "gpu"; name that one'


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "vm.yaml").write_text(TEXT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(*arguments: str, stdin: str | None = None, color: bool = False) -> Result:
    result = CliRunner().invoke(cli, ["lint", *arguments], input=stdin, color=color)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_gitlab_gets_an_issue_for_each_finding(files: Path) -> None:
    (issue,) = json.loads(_run("./vm.yaml", "-o", "codequality").stdout)
    assert issue == {
        "description": "VirtualMachineInstance default/vm: spec.domain.devices.gpus[0].requestName: " + _message(files),
        "check_name": "request-missing",
        "fingerprint": issue["fingerprint"],
        "severity": "critical",
        "location": {"path": "vm.yaml", "lines": {"begin": 15}},
    }
    (files / "vm.yaml").write_text(f"# a line more\n{TEXT}", encoding="utf-8")
    (moved,) = json.loads(_run("vm.yaml", "-o", "codequality").stdout)
    assert (moved["fingerprint"], moved["location"]["lines"]["begin"]) == (issue["fingerprint"], 16)
    (files / "vm.yaml").write_text(TEXT.replace("gpux", "gpu"), encoding="utf-8")
    assert "request-missing" not in _run("vm.yaml", "-o", "codequality").stdout


def _message(files: Path) -> str:
    message: str = json.loads(_run("-f", "vm.yaml", "-o", "json").stdout)["objects"][0]["findings"][0]["message"]
    return message


def test_the_field_at_fault_is_shown_in_its_line(files: Path) -> None:
    lines = _run("-f", "vm.yaml").stdout.splitlines()
    assert lines[0].startswith(
        "vm.yaml:7 (document 2): VirtualMachineInstance default/vm: denial: spec.domain.devices.gpus[0].requestName: "
    )
    assert lines[1:4] == [
        "       --> vm.yaml:15:55",
        "    15 |       gpus: [{name: gpu, claimName: gpu, requestName: gpux}]",
        "       |                                                       ^^^^",
    ]
    assert not any("-->" in line for line in _run("-f", "vm.yaml", "-q").stdout.splitlines())


def test_of_an_unknown_field_its_name_is_shown(files: Path) -> None:
    (files / "vm.yaml").write_text(TEXT.replace("requestName: gpux", "reqestName: gpu"), encoding="utf-8")
    lines = _run("-f", "vm.yaml").stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.endswith("[unknown-field]"))
    assert lines[at + 1 : at + 4] == [
        "       --> vm.yaml:15:42",
        "    15 |       gpus: [{name: gpu, claimName: gpu, reqestName: gpu}]",
        "       |                                          ^^^^^^^^^^",
    ]
    findings = json.loads(_run("-f", "vm.yaml", "-o", "json").stdout)["objects"][0]["findings"]
    assert [(f["line"], f["column"]) for f in findings if f["id"] == "unknown-field"] == [(15, 42)]


def test_a_field_that_is_not_there_is_shown_where_it_belongs(files: Path) -> None:
    (files / "vm.yaml").write_text(TEXT.replace(", requestName: gpux", ""), encoding="utf-8")
    lines = _run("-f", "vm.yaml").stdout.splitlines()
    assert any(line.endswith("^  the field belongs here") for line in lines)


def test_severities_have_colours_where_the_output_is_a_terminal(files: Path) -> None:
    assert _run("-f", "vm.yaml", color=True).stdout.startswith("\x1b[31mvm.yaml:7")
    assert "\x1b" not in _run("-f", "vm.yaml").stdout


def test_annotations_of_a_workflow(files: Path) -> None:
    result = _run("-f", "vm.yaml", "-o", "github")
    message = _message(files)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "::error file=vm.yaml,line=15,title=request-missing,col=55,endColumn=59::"
        f"VirtualMachineInstance default/vm: spec.domain.devices.gpus[0].requestName: {message}"
    ]


def test_names_cannot_forge_annotations(files: Path) -> None:
    (files / "a,b:c%.yaml").write_text(TEXT, encoding="utf-8")
    (line,) = _run("-f", "a,b:c%.yaml", "-o", "github").stdout.splitlines()
    assert line.startswith("::error file=a%2Cb%3Ac%25.yaml,line=15,")


def test_a_junit_report_has_a_test_per_object(files: Path) -> None:
    result = _run("-f", "vm.yaml", "-o", "junit")
    assert result.exit_code == 1
    root = ElementTree.fromstring(result.stdout)
    assert root.attrib == {"tests": "2", "failures": "1", "errors": "0"}
    cases = root.findall("./testsuite/testcase")
    assert [(case.get("classname"), case.get("name"), len(case)) for case in cases] == [
        ("vm.yaml", "VirtualMachineInstance default/vm", 1),
        ("vm.yaml", "ResourceClaimTemplate default/one-gpu", 0),
    ]
    failure = cases[0].find("failure")
    assert failure is not None
    assert failure.attrib == {
        "type": "request-missing",
        "message": f"spec.domain.devices.gpus[0].requestName: {_message(files)}",
    }
    assert "15 |       gpus: [{name: gpu, claimName: gpu, requestName: gpux}]" in (failure.text or "")


def test_yaml_is_the_json_document(files: Path) -> None:
    assert yaml.safe_load(_run("-f", "vm.yaml", "-o", "yaml").stdout) == json.loads(
        _run("-f", "vm.yaml", "-o", "json").stdout
    )


def test_rules_name_the_served_pages_if_there_are_some(files: Path) -> None:
    log = json.loads(_run("-f", "vm.yaml", "-o", "sarif", "--pages-url", "https://docs.example.com/lint/").stdout)
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert all(rule["helpUri"] == f"https://docs.example.com/lint/{rule['id']}" for rule in rules)


def test_concatenated_json_has_no_excerpts(files: Path) -> None:
    documents = list(yaml.safe_load_all(TEXT))
    result = _run("-f", "-", stdin="".join(json.dumps(document, indent=1) for document in documents))
    assert result.exit_code == 1
    assert "-->" not in result.stdout
