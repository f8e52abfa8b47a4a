"""docs/guides/ci.md: pre-commit, the GitHub Action and GitLab's job, each run on a repository as its users would."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
GUIDE: Final = (ROOT / "docs" / "guides" / "ci.md").read_text()
ACTION: Final[dict[str, Any]] = yaml.safe_load((ROOT / "action.yml").read_text())
VM: Final = (ROOT / "examples" / "gpu-pci" / "gpu.yaml").read_text()
TEMPLATE: Final = "resourceClaimTemplateName: "
BROKEN: Final = VM.replace(TEMPLATE, f"{TEMPLATE}no-", 1)
"""The VM names a template that is missing; and, as VM does, a device whose address has another key, of which the lint
only warns."""
BIN: Final = Path(sys.prefix) / "bin"


def block(info: str) -> Any:
    """A block of YAML of the guide."""
    (text,) = re.findall(rf"^```yaml {info}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    return yaml.safe_load(text)


def run(
    *command: str, cwd: Path, env: Mapping[str, str] | None = None, script: str = ""
) -> subprocess.CompletedProcess[str]:
    path = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, **path, **(env or {})}, input=script, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One with a VM in ``manifests``, and a file of another tool."""
    path = tmp_path / "repository"
    (path / "manifests").mkdir(parents=True)
    (path / "manifests" / "vm.yaml").write_text(VM)
    (path / "values.yaml").write_text("replicas: 1\n")
    return path


def committed(path: Path) -> str:
    """Commits everything in a folder, and returns the commit."""
    author = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    for arguments in (("init", "-q"), ("add", "--all"), (*author, "commit", "-q", "--no-verify", "-m", "test")):
        done = run("git", *arguments, cwd=path)
        assert done.returncode == 0, done.stderr
    return run("git", "rev-parse", "HEAD", cwd=path).stdout.strip()


# --- pre-commit -------------------------------------------------------------------------------------------------------


@pytest.fixture
def hooks(tmp_path: Path) -> tuple[str, str]:
    """A repository with our hooks, and its commit. pre-commit would install virt-dra into an environment of its own;
    here the hook runs in this one."""
    path = tmp_path / "hooks"
    path.mkdir()
    (path / ".pre-commit-hooks.yaml").write_text((ROOT / ".pre-commit-hooks.yaml").read_text())
    return str(path), committed(path)


def pre_commit(repository: Path, hooks: tuple[str, str], *more: str, **overrides: Any) -> str:
    """What pre-commit says when the repository's files are committed, and "0" or "1" before it."""
    config = block("pre-commit")
    (entry,) = config["repos"]
    entry["repo"], entry["rev"] = hooks
    (hook,) = entry["hooks"]
    hook |= {"language": "system", **overrides}
    (repository / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    committed(repository)
    home = {"PRE_COMMIT_HOME": str(repository.parent / "cache")}
    done = run("pre-commit", "run", "--color=never", *(more or ["--all-files"]), cwd=repository, env=home)
    return f"{done.returncode} {done.stdout}{done.stderr}"


@pytest.mark.slow
def test_pre_commit_takes_our_hooks() -> None:
    done = run("pre-commit", "validate-manifest", ".pre-commit-hooks.yaml", cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.slow
def test_pre_commit_lets_a_good_vm_pass_and_refuses_a_broken_one(repository: Path, hooks: tuple[str, str]) -> None:
    """With the guide's --strict a warning is enough; without arguments the whole repository is checked."""
    assert pre_commit(repository, hooks, args=["manifests"]).startswith("0 ")
    assert "[address-key]" in pre_commit(repository, hooks)
    (repository / "manifests" / "vm.yaml").write_text(BROKEN)
    said = pre_commit(repository, hooks, args=["."])
    assert said.startswith("1 ")
    assert "[template-missing]" in said


@pytest.mark.slow
def test_pre_commit_runs_it_only_for_yaml_and_json(repository: Path, hooks: tuple[str, str]) -> None:
    (repository / "README.md").write_text("A text.\n")
    said = pre_commit(repository, hooks, "--files", "README.md")
    assert said.startswith("0 ")
    assert "(no files to check)Skipped" in said


# --- GitHub's action --------------------------------------------------------------------------------------------------


def action(repository: Path, folder: Path, **given: str) -> tuple[int, str, dict[str, str]]:
    """Runs the action's steps as a runner does; its exit code, what it printed, and its outputs. What it would install
    is this environment."""
    folder.mkdir()
    (folder / "virt-dra").mkdir()
    (folder / "virt-dra" / "bin").symlink_to(BIN)
    (folder / "virt-dra" / ".ready-run").touch()
    inputs = {name: given.get(name, declared["default"]) for name, declared in ACTION["inputs"].items()}
    assert given.keys() <= inputs.keys()
    output = folder / "output"
    variables = {"RUNNER_TEMP": str(folder), "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_OUTPUT": str(output)}
    printed = ""
    for step in ACTION["runs"]["steps"]:
        if "run" not in step:
            continue
        assert "${{" not in step["run"], "a text of the workflow would be run"
        env = {name: inputs[text.removeprefix("${{ inputs.").removesuffix(" }}")] for name, text in
               step.get("env", {}).items()}  # fmt: skip
        script = folder / "script.sh"
        script.write_text(step["run"])
        # GitHub's own way for "shell: bash"
        done = run("bash", "--noprofile", "--norc", "-eo", "pipefail", str(script), cwd=repository, env=variables | env)
        printed += done.stdout + done.stderr
        if done.returncode:
            break
    lines = output.read_text().splitlines() if output.exists() else []
    return done.returncode, printed, dict(line.split("=", 1) for line in lines)


@pytest.mark.slow
def test_the_action_annotates_and_leaves_a_log_for_code_scanning(repository: Path, tmp_path: Path) -> None:
    (repository / "manifests" / "vm.yaml").write_text(BROKEN)
    code, printed, outputs = action(repository, tmp_path / "runner")
    assert code == 1
    line = BROKEN[: BROKEN.index(TEMPLATE)].count("\n") + 1
    assert re.search(rf"^::error file=manifests/vm\.yaml,line={line},.*template-missing", printed, re.MULTILINE)
    (logged,) = json.loads(Path(outputs["sarif"]).read_text())["runs"]
    places = {
        (result["ruleId"], place["artifactLocation"]["uri"], place["region"]["startLine"])
        for result in logged["results"]
        for place in [result["locations"][0]["physicalLocation"]]
    }
    assert ("template-missing", "manifests/vm.yaml", line) in places


@pytest.mark.slow
def test_the_actions_inputs_are_words_and_never_run(repository: Path, tmp_path: Path) -> None:
    (repository / "more").mkdir()
    (repository / "more" / "namespace.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: more}\n")
    assert action(repository, tmp_path / "a", paths="manifests more")[0] == 0
    assert action(repository, tmp_path / "b", paths="manifests\nmore\n", arguments="--strict")[0] == 1
    code, printed, _ = action(repository, tmp_path / "c", paths="manifests", arguments="--ignore=$(touch${IFS}made)")
    assert code == 2
    assert "'$(touch${IFS}made)' is no finding" in printed
    assert not (repository / "made").exists()


def test_the_guides_workflow_gives_inputs_that_the_action_has() -> None:
    (*_, step) = block("github")["jobs"]["vms"]["steps"]
    assert step["with"].keys() <= ACTION["inputs"].keys()
    assert set(re.findall(r"`([a-z]+-[a-z]+)(?:: \"false\")?`", GUIDE)) >= ACTION["inputs"].keys() - step["with"].keys()


# --- GitLab -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("text", "code", "failures"), [(VM, 0, 0), (BROKEN, 1, 1)], ids=["good", "broken"])
def test_gitlab_gets_a_report_of_every_object(repository: Path, text: str, code: int, failures: int) -> None:
    (repository / "manifests" / "vm.yaml").write_text(text)
    job = block("gitlab")["vms"]
    install, *lint = job["script"]
    assert install.startswith("pip install git+https://git.example.com/virt-dra@v")
    assert run("sh", "-e", cwd=repository, script="\n".join(lint)).returncode == code
    report = ElementTree.parse(repository / job["artifacts"]["reports"]["junit"]).getroot()
    assert len(list(report.iter("failure"))) == failures
    issues = json.loads((repository / job["artifacts"]["reports"]["codequality"]).read_text())
    assert sum(issue["severity"] == "critical" for issue in issues) == failures
    assert {issue["location"]["path"] for issue in issues} == {"manifests/vm.yaml"}
    assert [test.get("name") for test in report.iter("testcase")] != []
