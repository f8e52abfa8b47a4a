"""The library guide's examples run as they stand, and are short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from virt_dra.api.integration.live_migration import MigrationBlocker

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "library.md").read_text(encoding="utf-8")
LAUNCHER, ADMISSION, ALLOCATOR, MIGRATION = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)

VMI = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "metadata": {"name": "my-vm", "namespace": "default"},
    "spec": {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        "domain": {"devices": {"gpus": [{"name": "gpu1", "claimName": "gpu", "requestName": "gpu"}]}},
    },
}
CLUSTER = [
    {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {
            "devices": {
                "requests": [
                    {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
                ]
            }
        },
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node-1",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-7"}],
        },
    },
]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my-vm.yaml").write_text(yaml.safe_dump(VMI))
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(CLUSTER))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("example", [LAUNCHER, ADMISSION, ALLOCATOR, MIGRATION])
def test_an_example_has_at_most_ten_lines(example: str) -> None:
    assert len([line for line in example.splitlines() if line.strip()]) <= 10


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the examples leave closing files to the interpreter
def test_domain_xml_can_be_unit_tested_as_shown() -> None:
    scope: dict[str, object] = {}
    exec(LAUNCHER, scope)  # noqa: S102 - the guide's own text
    test = scope["test_the_gpu_reaches_the_domain"]
    assert callable(test)
    test()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # as above
def test_a_vmi_can_be_checked_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    exec(ADMISSION, {})  # noqa: S102 - the guide's own text
    message = "vmi.spec.domain.devices.gpus contains DRA enabled GPUs but feature gate is not enabled"
    assert capsys.readouterr().out == f"[('FieldValueInvalid', 'spec.domain.devices.gpus', {message!r})]\n"


def test_the_allocator_can_be_called_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    exec(ALLOCATOR, {})  # noqa: S102 - the guide's own text
    assert capsys.readouterr().out == "['gpu-7']\n"


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # as above
def test_migration_can_be_judged_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    exec(MIGRATION, {})  # noqa: S102 - the guide's own text
    wanted = MigrationBlocker("VMI specifies non-migratable GPU device", "domain.devices.gpus[0]")
    assert capsys.readouterr().out == f"{wanted}\n"
