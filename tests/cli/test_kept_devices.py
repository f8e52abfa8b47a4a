"""What commands say of a stopped VM that keeps a device, and to who waits for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from virt_dra.cli.main import cli

CLUSTER = Path(__file__).parents[2] / "examples/explain/cluster.yaml"
KEPT = """
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: trainer, namespace: team-a, uid: vm-1}
spec:
  runStrategy: Halted
  template:
    metadata: {annotations: {virt-dra.io/keep-devices: "true"}}
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: h100}]
      domain: {memory: {guest: 2Gi}, devices: {gpus: [{name: gpu1, claimName: gpu, requestName: gpu}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: trainer-gpu
  namespace: team-a
  uid: kept-1
  labels: {virt-dra.io/kept: "true"}
  ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: trainer, uid: vm-1, controller: true}]
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}
status:
  allocation:
    devices: {results: [{request: gpu, driver: gpu.example.com, pool: node-3, device: gpu-0}]}
    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [node-3]}]}]}
  reservedFor: [{apiGroup: kubevirt.io, resource: virtualmachines, name: trainer, uid: vm-1}]
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """A cluster in which nothing that fits is free but what the stopped VM keeps."""
    cluster, kept = tmp_path / "cluster.yaml", tmp_path / "kept.yaml"
    cluster.write_text(CLUSTER.read_text().replace("unschedulable: true", "unschedulable: false"))
    kept.write_text(KEPT)
    return ("-f", str(cluster), "-f", str(kept))


def said(*arguments: str) -> str:
    return CliRunner().invoke(cli, list(arguments)).stdout


def test_the_vm_itself_starts_with_what_it_keeps(files: tuple[str, ...]) -> None:
    answer = said("explain", "vm", "trainer", "-n", "team-a", *files)
    assert answer.startswith("VM team-a/trainer fits on 1 of 4 nodes (node-3)")


def test_others_are_offered_its_release(files: tuple[str, ...]) -> None:
    answer = said("explain", "vmi", "vm-late", "-n", "team-a", *files)
    assert "node-3/gpu-0: VM team-a/trainer (claim trainer-gpu), kept while the VM is stopped" in answer
    assert (
        "with gpu-0 released, which VM team-a/trainer keeps while it is stopped (virt-dra release vm trainer -n team-a)"
        in answer
    )


POLICY = """
apiVersion: virt-dra.io/v1alpha1
kind: KeepPolicy
metadata: {name: team, namespace: team-a}
spec: {stoppedFor: 2h}
"""


@pytest.fixture
def limited(files: tuple[str, ...], tmp_path: Path) -> tuple[str, ...]:
    """The same, with a policy, and since when the VM is stopped."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    kept = tmp_path / "kept.yaml"
    kept.write_text(
        KEPT.replace(
            "  uid: kept-1", '  uid: kept-1\n  annotations: {virt-dra.io/stopped-since: "2026-11-20T08:00:00Z"}'
        )
    )
    return (*files, "-f", str(tmp_path / "policy.yaml"))


def test_a_policy_is_named_to_the_vm_and_to_who_waits(limited: tuple[str, ...]) -> None:
    kept = "stopped since 2026-11-20T08:00:00Z, kept until 2026-11-20T10:00:00Z: KeepPolicy team"
    own = said("explain", "vm", "trainer", "-n", "team-a", *limited)
    assert f"\n\nKept devices:\n  gpu.example.com/node-3/gpu-0, {kept}\n" in own
    others = said("explain", "vmi", "vm-late", "-n", "team-a", *limited)
    assert (
        "kept while the VM is stopped, since 2026-11-20T08:00:00Z, until 2026-11-20T10:00:00Z: KeepPolicy team\n"
        in others
    )
    rows = said("get", "devices", *limited, "--no-headers")
    assert f"VM team-a/trainer ({kept})" in rows


def test_a_vm_that_keeps_nothing_yet_is_told_what_a_policy_leaves(limited: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "kept.yaml").write_text(KEPT.partition("---")[0])
    assert said("explain", "vm", "trainer", "-n", "team-a", *limited).endswith(
        "Kept devices:\n  KeepPolicy team of the namespace allows to keep devices for 2h only\n"
    )


def test_the_device_is_shown_as_the_stopped_vms(files: tuple[str, ...]) -> None:
    rows = said("get", "devices", *files, "--no-headers").splitlines()
    (row,) = (row for row in rows if "node-3" in row)
    assert "VM team-a/trainer (stopped)   trainer-gpu" in row


def test_its_description_has_the_claims_that_it_keeps(files: tuple[str, ...]) -> None:
    row = "trainer-gpu   reserved   node-3   gpu.example.com/node-3/gpu-0   VM trainer"
    assert row in said("describe", "vm", "trainer", "-n", "team-a", *files)
