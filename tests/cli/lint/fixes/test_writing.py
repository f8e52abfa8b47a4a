"""How ``virt-dra lint --fix`` asks, writes and reports: terminals, links, modes, encodings, files that can't be
written, standard input."""

from __future__ import annotations

import codecs
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.lint.fixes.test_fixes import files as files
from tests.cli.lint.fixes.test_fixes import run

TEMPLATE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: gpu, deviceClassName: gpu.example.com}]}}}
"""
FIXED = TEMPLATE.replace("deviceClassName: gpu.example.com", "exactly: {deviceClassName: gpu.example.com}")
VM = """\
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: vm}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
  domain: {devices: {gpus: [{name: a, claimName: gpu, requestName: gpu}]}}
"""
DIFF = """\
--- one.yaml
+++ one.yaml
@@ -1,4 +1,4 @@
 apiVersion: resource.k8s.io/v1
 kind: ResourceClaimTemplate
 metadata: {name: one}
-spec: {spec: {devices: {requests: [{name: gpu, deviceClassName: gpu.example.com}]}}}
+spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
"""
CLEAN = (
    "1 VM checked against KubeVirt 1.9: 0 denials, 0 warnings\n"
    "not checked: everything that depends on DeviceClasses and ResourceSlices, "
    "of which the files have none; add those of the cluster\n"
)


@pytest.fixture
def given(files: Path) -> list[str]:
    (files / "one.yaml").write_text(TEMPLATE, encoding="utf-8")
    (files / "vm.yaml").write_text(VM, encoding="utf-8")
    return ["-q", "-f", "one.yaml", "-f", "vm.yaml"]


def test_without_a_terminal_nothing_is_changed(given: list[str]) -> None:
    result = run("--fix", *given)
    assert result.exit_code == 1
    assert result.stdout.startswith(
        f"{DIFF}nothing is changed: there is no terminal to ask at; --yes applies the changes without asking\n"
    )
    assert result.stdout.splitlines()[-3:-1] == [
        "1 VM checked against KubeVirt 1.9: 2 denials, 0 warnings",
        "2 fixable with --fix",
    ]
    assert Path("one.yaml").read_text(encoding="utf-8") == TEMPLATE


def test_yes_writes_without_asking(given: list[str]) -> None:
    result = run("--fix", "--yes", *given)
    assert (result.exit_code, result.stdout) == (0, f"{DIFF}1 file changed\n{CLEAN}")
    assert Path("one.yaml").read_text(encoding="utf-8") == FIXED
    assert sorted(path.name for path in Path().iterdir()) == ["one.yaml", "vm.yaml"]


def _at_a_terminal(arguments: list[str], answer: bytes) -> tuple[int, str]:
    """Exit code and output of the command with a terminal, at which someone types an answer."""
    own, other = pty.openpty()
    program = [str(Path(sys.executable).parent / "virt-dra"), "lint", *arguments]
    process = subprocess.Popen(
        program, stdin=other, stdout=other, stderr=other, env={**os.environ, "NO_COLOR": "1", "TERM": "dumb"}
    )
    os.close(other)
    os.write(own, answer)
    shown = b""
    while True:
        try:
            part = os.read(own, 65536)
        except OSError:  # the terminal's other end is closed
            break
        if not part:
            break
        shown += part
    os.close(own)
    return process.wait(timeout=60), shown.decode().replace("\r\n", "\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "code", "content", "said"),
    [
        (b"y\n", 0, FIXED, "1 file changed\n"),
        (b"n\n", 1, TEMPLATE, "nothing is changed\n"),
        (b"\n", 1, TEMPLATE, "nothing is changed\n"),
    ],
)
def test_at_a_terminal_it_asks(given: list[str], answer: bytes, code: int, content: str, said: str) -> None:
    ended, shown = _at_a_terminal(["--fix", *given], answer)
    assert "Apply these changes to 1 file? [y/N]: " in shown
    assert said in shown
    assert ended == code
    assert Path("one.yaml").read_text(encoding="utf-8") == content


def test_a_link_stays_one_and_a_file_keeps_its_mode(given: list[str], files: Path) -> None:
    (files / "real").mkdir()
    (files / "one.yaml").rename(files / "real" / "one.yaml")
    (files / "real" / "one.yaml").chmod(0o640)
    (files / "one.yaml").symlink_to("real/one.yaml")
    result = run("--fix", "-y", *given)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"one.yaml is a link: what is written is {files / 'real' / 'one.yaml'}\n--- ")
    assert (files / "one.yaml").is_symlink()
    assert (files / "real" / "one.yaml").read_text(encoding="utf-8") == FIXED
    assert (files / "real" / "one.yaml").stat().st_mode & 0o777 == 0o640
    assert [path.name for path in (files / "real").iterdir()] == ["one.yaml"]


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")],
)
def test_encodings_and_line_breaks_stay(given: list[str], files: Path, mark: bytes, encoding: str) -> None:
    before, after = (f"# Ω 😀\n{text}".replace("\n", "\r\n") for text in (TEMPLATE, FIXED))
    (files / "one.yaml").write_bytes(mark + before.encode(encoding))
    assert run("--fix", "-y", *given).exit_code == 0
    assert (files / "one.yaml").read_bytes() == mark + after.encode(encoding)


def test_a_file_that_changed_meanwhile_is_left_alone(given: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def changing(handle: int) -> None:
        Path("one.yaml").write_text("# mine now\n", encoding="utf-8")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", changing)
    result = run("--fix", "-y", *given)
    assert result.exit_code == 2
    assert (
        result.stderr
        == "error: one.yaml: it has changed since it was read, so it is left as it is; run the command again\n"
    )
    assert Path("one.yaml").read_text(encoding="utf-8") == "# mine now\n"
    assert sorted(path.name for path in Path().iterdir()) == ["one.yaml", "vm.yaml"]


def test_a_file_that_cannot_be_written_does_not_prevent_the_others(
    given: list[str], files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (files / "two.yaml").write_text(TEMPLATE.replace("one", "two"), encoding="utf-8")
    monkeypatch.setattr(os, "access", lambda path, mode, **place: path != "one.yaml")
    result = run("--fix", "-y", *given, "-f", "two.yaml", "-o", "json")
    assert result.exit_code == 2
    assert result.stderr == "error: one.yaml: can't be written: permission denied; it must be writable for this user\n"
    report = json.loads(result.stdout)
    assert not report["fixes"]["applied"]
    assert [(file["file"], file["written"], file.get("problem")) for file in report["fixes"]["files"]] == [
        ("one.yaml", False, "can't be written: permission denied; it must be writable for this user"),
        ("two.yaml", True, None),
    ]
    assert [obj["name"] for obj in report["objects"]] == ["vm", "one"]
    assert (files / "one.yaml").read_text(encoding="utf-8") == TEMPLATE
    assert "exactly" in (files / "two.yaml").read_text(encoding="utf-8")


def test_json_has_the_diff_of_each_finding(given: list[str]) -> None:
    report = json.loads(run(*given, "-o", "json").stdout)
    vm, template = report["objects"]
    assert [finding["fix"] for finding in template["findings"]] == [{"available": True, "diff": DIFF}]
    assert [(finding["id"], finding.get("fix")) for finding in vm["findings"]] == [("refused-object", None)]
    assert "fixes" not in report
    assert run(*given).stdout.splitlines()[-3:-1] == [
        "1 VM checked against KubeVirt 1.9: 2 denials, 0 warnings",
        "2 fixable with --fix",
    ]
    fixed = run("--fix", "-y", *given, "-o", "yaml")
    assert yaml.safe_load(fixed.stdout)["fixes"] == {
        "applied": True,
        "files": [{"file": "one.yaml", "diff": DIFF, "written": True}],
        "dropped": [],
    }


def test_a_fix_that_is_not_made_says_why(files: Path) -> None:
    (files / "one.yaml").write_text(TEMPLATE.replace("name: gpu,", "name: gpu, exactly: {},"), encoding="utf-8")
    (files / "vm.yaml").write_text(VM, encoding="utf-8")
    report = json.loads(run("-f", ".", "-o", "json").stdout)
    reason = "a request has deviceClassName beside exactly; only you know which of them is meant"
    assert {"available": False, "reason": reason} in [
        finding.get("fix") for entry in report["objects"] for finding in entry["findings"]
    ]
    assert "fixable" not in run("-f", ".").stdout


def test_of_standard_input_the_corrected_text_is_printed(files: Path) -> None:
    text = f"{TEMPLATE}---\n{VM}"
    result = run("--fix", "-q", "-", stdin=text)
    assert result.stdout == text.replace(TEMPLATE, FIXED)
    assert result.exit_code == 0
    assert result.stderr == DIFF.replace("one.yaml", "standard input").replace("-1,4 +1,4", "-1,7 +1,7") + (
        f" ---\n apiVersion: kubevirt.io/v1\n kind: VirtualMachineInstance\n{CLEAN}"
    )
    again = run("--fix", "-q", "-", stdin=result.stdout)
    assert again.stdout == result.stdout
    assert again.stderr.startswith("nothing to fix\n")


def test_files_beside_standard_input_are_only_changed_with_yes(given: list[str]) -> None:
    arguments = ["--fix", "-q", "-f", "one.yaml", "-f", "-"]
    assert run(*arguments, stdin=VM).stdout == VM
    assert Path("one.yaml").read_text(encoding="utf-8") == TEMPLATE
    assert run(*arguments, "-y", stdin=VM).stdout == VM
    assert Path("one.yaml").read_text(encoding="utf-8") == FIXED


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--yes", "-f", "vm.yaml"], "--yes goes with --fix"),
        (
            ["--fix", "--live"],
            "--fix changes files, never a cluster; name them, e.g. virt-dra lint --live --fix -f vm.yaml",
        ),
        (["--fix", "-f", "vm.yaml", "-o", "sarif"], "--fix goes with -o text, json, yaml"),
        (
            ["--fix", "-", "-o", "json"],
            "with --fix standard output has the corrected text of standard input; -o json and yaml go with files",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(given: list[str], arguments: list[str], message: str) -> None:
    result = run(*arguments, stdin=VM)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: {message}"


def test_unreadable_input_is_refused_before_anything_is_changed(given: list[str], files: Path) -> None:
    (files / "broken.yaml").write_text("a: [\n", encoding="utf-8")
    result = run("--fix", "-y", *given, "-f", "broken.yaml")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert (files / "one.yaml").read_text(encoding="utf-8") == TEMPLATE


def test_control_characters_of_a_file_do_not_reach_the_terminal(given: list[str], files: Path) -> None:
    text = TEMPLATE.replace("{name: one}", '{name: one} # "\x85 \u202e"')
    (files / "one.yaml").write_text(text, encoding="utf-8")
    assert "\u202e" not in run("--fix", *given).stdout


def test_many_bad_fixes_are_given_up_after_bounded_work(files: Path) -> None:
    """Every second template's fix also changes its alias."""
    bad = "- &r{0} {{name: gpu, deviceClassName: a}}\n      - {{<<: *r{0}, name: b}}"
    good = "- {{name: gpu, deviceClassName: a}}"
    head = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {{name: t{0}}}\n"
    head += "spec:\n  spec:\n    devices:\n      requests:\n      "
    texts = [(head + (bad if number % 2 else good)).format(number) for number in range(200)]
    (files / "many.yaml").write_text("\n---\n".join([*texts, VM.replace("one", "t0")]), encoding="utf-8")
    result = run("--fix", "-y", "-q", "-f", "many.yaml")
    assert result.stdout.splitlines().count("1 file changed") == 1
    assert (files / "many.yaml").read_text(encoding="utf-8").count("exactly:") == 100


def test_the_cost_is_linear_in_the_file(files: Path) -> None:
    """3,000 devices with a wrong key, in a file of one line."""
    slices = [
        {
            "apiVersion": "resource.k8s.io/v1beta1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"s{number}"},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": f"n{number}",
                "pool": {"name": f"n{number}", "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {"name": f"d{device}", "basic": {"attributes": {"pciBusId": {"string": f"0000:{device:02x}:00.0"}}}}
                    for device in range(100)
                ],
            },
        }
        for number in range(30)
    ]
    (files / "all.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": slices}), encoding="utf-8")
    (files / "vm.yaml").write_text(f"{FIXED}---\n{VM}", encoding="utf-8")
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu.example.com"},
        "spec": {},
    }
    (files / "class.json").write_text(json.dumps(device_class), encoding="utf-8")
    result = run("--fix", "-y", "-q", ".")
    assert result.stdout.splitlines()[-1] == "1 VM checked against KubeVirt 1.9: 0 denials, 0 warnings"
    assert (files / "all.json").read_text(encoding="utf-8").count("resource.kubernetes.io/pciBusID") == 3000
