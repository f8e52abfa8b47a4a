"""``virt-dra lint`` in a repository: files of other tools, broken ones, exclusion, configuration, counts, places."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from virt_dra.cli.lint.places import FindingPlaces
from virt_dra.cli.lint.report import LintReport
from virt_dra.cli.main import cli
from virt_dra.cluster.files import read_written
from webhooks.lint import LintSettings, lint_documents

CLASS = """apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec:
  selectors:
  - cel: {expression: 'device.driver == "gpu.example.com"'}
"""
SLICE = """apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice}
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes:
      model: {string: T4}
      resource.kubernetes.io/pciBusID: {string: "0000:01:00.0"}
    capacity:
      memory: {value: 16Gi}
"""
TEMPLATE = """apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.example.com
          selectors:
          - cel: {expression: 'device.attributes["gpu.example.com"].model == "L4"'}
"""
VM = """apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: vm}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
  domain:
    devices:
      gpus: [{name: g, claimName: gpu, requestName: gpu}]
"""
OF_OTHER_TOOLS = {
    "kustomization.yaml": "resources: [vm.yaml]\n",
    "overlay/kustomization.yml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [..]\n",
    "component/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nmetadata: {}\n",
    "Chart.yaml": "apiVersion: v2\nname: vms\nversion: 1.0.0\n",
    "values.yaml": "kind: small\nreplicas: 2\n",
    "values.schema.json": '{"$schema": "x", "properties": {}}',
    "package.json": '{"name": "x", "version": "1"}',
    "renovate.json": '["a"]',
    "kind.yaml": "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes: [{role: worker}]\n",
}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A VM that is as it should be, and files of other tools."""
    monkeypatch.chdir(tmp_path)
    good = {"class.yaml": CLASS, "slice.yaml": SLICE, "template.yaml": TEMPLATE.replace("L4", "T4"), "vm.yaml": VM}
    write({**good, **OF_OTHER_TOOLS})
    return tmp_path


def write(files: dict[str, str]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["lint", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def report(*arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run(*arguments, "-o", "json").stdout)
    return document


def findings(document: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (obj["file"], finding["id"], finding["message"]) for obj in document["objects"] for finding in obj["findings"]
    ]


@pytest.mark.usefixtures("repository")
def test_files_of_other_tools_are_no_findings() -> None:
    assert findings(report(".")) == []
    assert report(".")["otherTools"] == sorted(OF_OTHER_TOOLS)
    assert run(".").stdout == (
        "1 VM checked against KubeVirt 1.9: 0 denials, 0 warnings\n"
        "not meant for Kubernetes, so not checked: Chart.yaml, component/kustomization.yaml, kind.yaml, "
        "kustomization.yaml, overlay/kustomization.yml, package.json, renovate.json, values.schema.json, … (9 files)\n"
    )
    named = [name for name in OF_OTHER_TOOLS if name not in ("renovate.json", "kind.yaml")]
    assert findings(report("vm.yaml", "template.yaml", "class.yaml", "slice.yaml", *named)) == []


@pytest.mark.usefixtures("repository")
def test_patches_of_kustomize_are_parts_of_objects() -> None:
    patch = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vm}\nspec: {template: {spec: {}}}\n"
    names = ("a/larger.yaml", "b/smaller.yaml", "c.yaml")
    write(dict.fromkeys(names, patch))
    write(
        {
            "a/kustomization.yaml": "resources: [..]\npatches: [{path: ./larger.yaml}, {patch: 'x'}, 5]\n",
            "b/kustomization.yaml": "patchesStrategicMerge: [smaller.yaml]\npatchesJson6902: [{path: ../c.yaml}]\n",
        }
    )
    assert findings(report(".")) == []
    assert set(names) < set(report(".")["otherTools"])
    assert findings(report("a/larger.yaml")) != [], "nobody says that it is a patch"


@pytest.mark.usefixtures("repository")
def test_what_is_meant_as_an_object_is_still_judged() -> None:
    write({"a/nokind.yaml": VM.replace("kind: VirtualMachineInstance\n", "").replace("name: vm", "name: a")})
    write({"a/noversion.yaml": "kind: ResourceClaim\nmetadata: {name: b}\n"})
    assert findings(report(".")) == [
        ("a/nokind.yaml", "unreadable-object", "is required and must be a string"),
        ("a/noversion.yaml", "unreadable-object", "is required and must be a string"),
    ]
    write({"own.yaml": "some: text\n"})
    assert [name for name, _, _ in findings(report("vm.yaml", "template.yaml", "own.yaml"))] == ["own.yaml"]


@pytest.mark.usefixtures("repository")
def test_a_broken_file_is_a_finding_and_the_others_are_checked() -> None:
    helm = "apiVersion: v1\nkind: Pod\n{{- if .Values.x }}\nmetadata: {}\n{{- end }}\n"
    write({"broken/helm.yaml": helm, "broken/twice.yaml": "apiVersion: v1\nkind: Pod\nkind: Pod\n"})
    write({"broken/tsconfig.json": '{"a": [}', "template.yaml": TEMPLATE})
    Path("broken/link.yaml").symlink_to("nowhere.yaml")
    Path("broken/secret.yaml").symlink_to("/etc/passwd")
    os.mkfifo("broken/pipe.yaml")
    document = report(".")
    outside = "which is outside of this folder. Name the file itself if it is meant"
    first, *others = findings(document)
    assert first[:2] == ("vm.yaml", "no-matching-device")
    assert others == [
        (
            "broken/helm.yaml",
            "unrendered-template",
            "column 1: `{{- if .Values.x }}` is an instruction of a template, not YAML. "
            "Render the template first, e.g. helm template CHART | virt-dra lint -f -",
        ),
        ("broken/link.yaml", "unreadable-object", "a link to nowhere.yaml, which does not exist"),
        ("broken/pipe.yaml", "unreadable-object", "not a regular file but a named pipe"),
        ("broken/secret.yaml", "unreadable-object", f"a link to /etc/passwd, {outside}"),
        (
            "broken/twice.yaml",
            "unreadable-object",
            'column 1: key "kind" is given twice in the same mapping; remove one of them',
        ),
    ]
    assert "5 files could not be read; what they have counts as missing\n" in run(".").stdout
    assert run(".").exit_code == 1
    assert run("broken/twice.yaml").exit_code == 2
    assert run("vm.yaml", "gone.yaml").exit_code == 2
    fixed = run("--fix", "-y", ".")
    assert (fixed.exit_code, "broken/twice.yaml:3: denial: column 1: " in fixed.stdout) == (1, True)


@pytest.mark.usefixtures("repository")
def test_a_broken_file_without_an_object_is_of_another_tool() -> None:
    write({"own/no-object.yaml": "a: 1\na: 2\n", "own/vm.yaml": VM})
    assert report("own")["otherTools"] == ["own/no-object.yaml"]


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("arguments", [("component", "overlay"), ("--exclude", "vm.yaml", "."), ("package.json",)])
def test_where_only_files_of_other_tools_are_left_a_vm_is_missing(arguments: tuple[str, ...]) -> None:
    for name in ("template.yaml", "class.yaml", "slice.yaml"):
        Path(name).unlink()
    paths = [argument for argument in arguments if argument not in ("--exclude", "vm.yaml")]
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: {', '.join(paths)}: no VirtualMachine or VirtualMachineInstance found; name the file that has one\n",
    )


@pytest.mark.usefixtures("repository")
def test_patterns_exclude_files_and_folders_as_gitignore_does() -> None:
    names = ("charts/a.yaml", "sub/charts/b.yaml", "sub/c.yaml", "sub/keep.yaml", "d.yaml")
    write(dict.fromkeys(names, "apiVersion: v1\nkind: a b\nmetadata: {}\n"))

    def left(*patterns: str) -> list[str]:
        options = [part for pattern in patterns for part in ("--exclude", pattern)]
        return [name for name, _, _ in findings(report(".", *options))]

    assert left() == ["charts/a.yaml", "d.yaml", "sub/c.yaml", "sub/charts/b.yaml", "sub/keep.yaml"]
    assert left("charts/") == ["d.yaml", "sub/c.yaml", "sub/keep.yaml"]
    assert left("/charts") == ["d.yaml", "sub/c.yaml", "sub/charts/b.yaml", "sub/keep.yaml"]
    assert left("sub/*", "!sub/keep.yaml", "**/a.yaml", "# comment", "d.y?ml") == ["sub/keep.yaml"]
    assert left("sub", "!sub/keep.yaml") == ["charts/a.yaml", "d.yaml"]
    absolute = report(str(Path.cwd()), "--exclude", "sub/charts/")
    assert [Path(name).name for name, _, _ in findings(absolute)] == ["a.yaml", "d.yaml", "c.yaml", "keep.yaml"]


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("file", [".virt-dra.toml", "pyproject.toml"])
def test_a_configuration_sets_options_and_severities(file: str) -> None:
    table = "[lint]\n" if file == ".virt-dra.toml" else "[tool.virt-dra.lint]\n"
    write({"template.yaml": TEMPLATE, "bad/x.yaml": "kind: Pod\n", "sub/.keep": "", ".git/HEAD": ""})
    options = 'filename = ["."]\nexclude = ["/bad/"]\nkubevirt-version = "1.8.3"\n'
    written = f'{table}{options}warn = ["no-matching-device"]\nignore = ["feature-gate-off"]\n'
    write({file: written})
    os.chdir("sub")
    ran = run()
    assert (ran.exit_code, ran.stdout.splitlines()[-2]) == (
        0,
        "1 VM checked against KubeVirt 1.8.3: 0 denials, 1 warning",
    )
    assert run("--warn", "unused-claim").exit_code == 1  # of one option the command line's values count alone
    assert run("--kubevirt-version", "1.9").stdout.splitlines()[-2].startswith("1 VM checked against KubeVirt 1.9: ")
    assert run("--config", "/dev/null", "..").exit_code == 1
    write({f"../{file}": f"{written}strict = true\n"})
    assert run().exit_code == 1


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[lint]\nexclud = []\n", "lint.exclud: unknown key; did you mean exclude?"),
        ("[lint]\nkubevirt_version = '1.9'\n", "lint.kubevirt_version: unknown key; did you mean kubevirt-version?"),
        ("[lnt]\n", "lnt: unknown table; did you mean lint?"),
        ("[lint]\ndeny = ['unused-clam']\n", "lint.deny.0: 'unused-clam' is no finding; did you mean unused-claim?"),
        ("[lint]\ncomplete = 'yes'\n", "lint.complete: Input should be a valid boolean"),
        ("[lint\n", "Expected ']' at the end of a table declaration (at line 1, column 6)"),
        (f"a = {'[' * 100_000}\n", "maximum recursion depth exceeded"),
    ],
)
def test_a_wrong_configuration_is_bad_usage(text: str, said: str) -> None:
    write({".virt-dra.toml": text})
    ran = run(".")
    assert ran.exit_code == 2
    assert f"Error: {Path.cwd()}/.virt-dra.toml: {said}" in ran.stderr


@pytest.mark.usefixtures("repository")
def test_nobody_elses_configuration_is_read() -> None:
    write({".virt-dra.toml": "[lint]\nnonsense = 1\n", "sub/.keep": ""})
    os.chdir("sub")
    assert run("..").exit_code == 0  # above, and not in one repository with this folder
    os.mkfifo(".virt-dra.toml")
    assert "not a regular file but a named pipe" in run("..").stderr


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("key", ["filename", "address-keys"])
@pytest.mark.parametrize(
    "name", ["../outside.yaml", "/etc/passwd", "http://127.0.0.1:1/x.yaml", "pipe", "link", "loop"]
)
def test_a_configuration_that_nobody_named_names_only_what_is_beside_it(key: str, name: str) -> None:
    """Its author would choose what is read, or rewritten, of the machine on which somebody lints his repository."""
    os.mkfifo("pipe")
    Path("link").symlink_to("../outside.yaml")
    Path("loop").symlink_to("loop")
    Path("../outside.yaml").write_text(VM)
    write({".virt-dra.toml": f"[lint]\n{key} = {json.dumps([name] if key == 'filename' else name)}\n"})
    ran = run("--fix", "--yes")
    assert ran.exit_code == 2
    where = f"{Path.cwd()}/.virt-dra.toml: lint.{'filename.0' if key == 'filename' else key}"
    said = f"Error: {where}: {name} isn't a file or folder beside this one; name it, or this file with --config\n"
    assert ran.stderr.endswith(said)
    assert Path("../outside.yaml").read_text() == VM


@pytest.mark.usefixtures("repository")
def test_a_summary_counts() -> None:
    write({"template.yaml": TEMPLATE, "bad.yaml": "kind: Pod\nmetadata: {name: x}\n---\nkind: Pod\n"})
    assert run(".", "--summary", "--deny", "all").stdout.splitlines()[:4] == [
        "denial: unreadable-object: 2 findings on 2 objects",
        "denial: no-matching-device: 1 finding on 1 object",
        "1 VM checked against KubeVirt 1.9: 3 denials, 0 warnings",
        "not meant for Kubernetes, so not checked: Chart.yaml, component/kustomization.yaml, kind.yaml, "
        "kustomization.yaml, overlay/kustomization.yml, package.json, renovate.json, values.schema.json, … (9 files)",
    ]
    document = report(".", "--summary")
    assert "objects" not in document
    assert document["counts"] == [
        {"id": "unreadable-object", "severity": "denial", "findings": 2, "objects": 2},
        {"id": "no-matching-device", "severity": "denial", "findings": 1, "objects": 1},
    ]
    assert run(".", "--summary", "-o", "sarif").exit_code == 2


@pytest.mark.usefixtures("repository")
def test_a_file_with_thousands_of_findings_ends_with_counts() -> None:
    many = "".join(
        f"---\napiVersion: v1\nkind: a {n}\nmetadata: {{}}\n---\nkind: Pod\nmetadata: {{name: p}}\n"
        for n in range(1000)
    )
    write({"many.yaml": many})
    lines = run(".", "-q").stdout.splitlines()
    assert len(lines) == 103
    assert lines[100] == (
        "many.yaml: 1,900 more findings: 1,900 unreadable-object; --summary counts all, -o json has all"
    )
    assert lines[101] == "1 VM checked against KubeVirt 1.9: 2,000 denials, 0 warnings"
    assert len(findings(report("."))) == 2000


@pytest.mark.usefixtures("repository")
def test_lines_are_wrapped_between_words() -> None:
    write({"template.yaml": TEMPLATE})
    written = read_written(["class.yaml", "slice.yaml", "template.yaml", "vm.yaml"])
    judged = lint_documents(written.documents, LintSettings())
    places = FindingPlaces(written.texts, judged.sources)
    lines = list(LintReport(judged, places=places).lines(width=60))
    assert lines[0] == "vm.yaml:1: VirtualMachineInstance default/vm: denial:"
    assert max(len(line) for line in lines) <= 60
    message = [line for line in lines[:-1] if not line.startswith("    ")]
    assert " ".join(line.strip() for line in message) == next(LintReport(judged).lines())


@pytest.mark.usefixtures("repository")
def test_the_caret_points_at_the_fault_where_it_is() -> None:
    write({"template.yaml": TEMPLATE})
    lines = run(".").stdout.splitlines()
    assert lines[0].startswith("vm.yaml:1: VirtualMachineInstance default/vm: denial: spec.resourceClaims[0].")
    assert lines[1:4] == [
        "       --> template.yaml:12:31",
        '    12 |           - cel: {expression: \'device.attributes["gpu.example.com"].model == "L4"\'}',
        f"       |                               {'^' * 52}",
    ]
    (obj,) = report(".")["objects"]
    (finding,) = obj["findings"]
    assert (obj["file"], finding["line"], finding["column"]) == ("vm.yaml", 5, 59)
    assert finding["fault"] == {
        "kind": "ResourceClaimTemplate", "namespace": "default", "name": "one",
        "field": "spec.spec.devices.requests[0].exactly.selectors[0].cel.expression",
        "file": "template.yaml", "line": 12, "column": 31,
    }  # fmt: skip
    (result,) = json.loads(run(".", "-o", "sarif").stdout)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "template.yaml"},
        "region": {"startLine": 12, "startColumn": 31, "endColumn": 83},
    }
    assert result["relatedLocations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "vm.yaml"}
    annotation = "::error file=template.yaml,line=12,title=no-matching-device,col=31,endColumn=83::"
    assert run(".", "-o", "github").stdout.startswith(annotation)
    assert "--> template.yaml:12:31" in run(".", "-o", "junit").stdout.replace("&gt;", ">")


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("file", "before", "after", "place"),
    [
        ("class.yaml", '"gpu.example.com"\'', '"gpu.exampel.com"\'', "class.yaml:6:23"),
        ("template.yaml", "gpu.example.com\n", "gpu.exampel.com\n", "template.yaml:10:28"),
        ("template.yaml", "selectors:", "count: 5\n          selectors:", "template.yaml:11:18"),
        ("vm.yaml", "requestName: gpu", "requestName: gpi", "vm.yaml:8:53"),
    ],
    ids=["a class's selector", "a class", "a number", "the VM itself"],
)
def test_each_fault_has_its_place(file: str, before: str, after: str, place: str) -> None:
    write({file: Path(file).read_text(encoding="utf-8").replace(before, after)})
    first, *_ = (line.strip() for line in run(".").stdout.splitlines() if "-->" in line)
    assert first == f"--> {place}"


@pytest.mark.usefixtures("repository")
def test_a_key_that_does_not_exist_names_those_of_the_driver() -> None:
    write({"template.yaml": TEMPLATE.replace(".model ==", ".modle ==")})
    (message,) = [message for _, _, message in findings(report("."))]
    assert "no such key: modle. " in message
    assert (
        'The driver\'s devices have "model", "memory" (a capacity) under "gpu.example.com"; '
        '"pciBusID" under "resource.kubernetes.io". ' in message
    )


@pytest.mark.usefixtures("repository")
def test_a_template_of_that_name_exists() -> None:
    write({"vm.yaml": VM.replace("resourceClaimTemplateName", "resourceClaimName")})
    (message,) = [message for _, id, message in findings(report(".")) if id == "claim-missing"]
    assert message.startswith(
        'there is no ResourceClaim "one" in namespace default; a *template* of that name exists: '
        "if you mean that one, write resourceClaimTemplateName. "
    )


@pytest.mark.usefixtures("repository")
def test_an_entry_without_its_claim_names_both_ends() -> None:
    write({"vm.yaml": VM.replace("claimName: gpu", "claimName: gup")})
    (message,) = [message for _, id, message in findings(report(".")) if id == "kubevirt-refuses"]
    assert message.endswith(
        '; spec.domain.devices.gpus[0] "g": claimName "gup" is not in spec.resourceClaims; it has "gpu"'
    )


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    "text",
    [
        CLASS.replace("v1\n", "v1beta9\n", 1),
        CLASS.replace("spec:", "spec: 5\nx:"),
        SLICE.replace("generation: 1", "generation: x"),
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: 5}\n",
    ],
)
def test_cluster_scoped_objects_have_no_namespace(text: str) -> None:
    write({"cluster.yaml": text})
    (obj,) = [obj for obj in report(".")["objects"] if obj["file"] == "cluster.yaml"]
    assert obj["namespace"] == ""
    named = [line for line in run(".").stdout.splitlines() if line.startswith("cluster.yaml")]
    assert named
    assert [line for line in named if "default" in line] == []


@pytest.mark.parametrize("version", ["1.99", "2.0", "1.10.0-rc.1"])
def test_an_unknown_release_is_refused_with_the_known_ones(version: str) -> None:
    ran = run("--kubevirt-version", version, "vm.yaml")
    assert ran.exit_code == 2
    assert f"KubeVirt {version} is newer than the releases known here: 1.6, 1.7, 1.8, 1.9 and main" in ran.stderr
