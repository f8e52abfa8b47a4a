"""A claim reference in the design's form, which no KubeVirt has, is judged alike by every command (K-1.9)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from virt_dra.cli.main import cli

CLUSTER = Path(__file__).parents[2] / "examples/explain/cluster.yaml"
REFUSAL = "must specify either a deviceName or a claimRequest"


def vm(reference: dict[str, object]) -> str:
    devices = {"gpus": [{"name": "gpu", **reference}]}
    spec = {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "h100"}],
        "domain": {"memory": {"guest": "2Gi"}, "devices": devices},
    }
    metadata = {"name": "vm-new", "namespace": "team-a"}
    return yaml.safe_dump(
        {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": metadata, "spec": spec}
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a cluster that has a free device, and the same with the VM."""
    monkeypatch.chdir(tmp_path)
    cluster = CLUSTER.read_text().replace("unschedulable: true", "unschedulable: false")
    Path("cluster.yaml").write_text(cluster)
    Path("vm.yaml").write_text(vm({"claim": {"name": "gpu", "request": "gpu"}}))
    Path("upstream.yaml").write_text(vm({"claimName": "gpu", "requestName": "gpu"}))
    for name in ("vm", "upstream"):
        Path(f"with-{name}.yaml").write_text(f"{cluster}---\n{Path(f'{name}.yaml').read_text()}")
    return tmp_path


COMMANDS = {
    "lint": "lint -f with-{}.yaml",
    "run": "run with-{}.yaml",
    "explain": "explain vmi vm-new -n team-a -f with-{}.yaml",
    "diff": "diff cluster.yaml with-{}.yaml",
    "plan": "plan -f {}.yaml --dump cluster.yaml",
    "what-if": "simulate cluster.yaml --what-if",
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_takes_it_for_kubevirts_form(name: str) -> None:
    said = {}
    for form in ("vm", "upstream"):
        arguments = COMMANDS[name].format(form).split()
        made = CliRunner().invoke(cli, [*arguments, *([f"add {form}.yaml"] if name == "what-if" else [])])
        said[form] = " ".join((made.stdout + made.stderr).split())
    if name == "diff":
        assert "VMI team-a/vm-new is new, and does not fit" in said["vm"]
        assert "VMI team-a/vm-new is new, and fits" in said["upstream"]
    else:
        assert REFUSAL in said["vm"]
        assert REFUSAL not in said["upstream"]
