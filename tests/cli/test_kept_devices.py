"""What commands say of a stopped VM that keeps a device, and to who waits for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
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
      resourceClaims: [{name: gpu, resourceClaimTemplateName: any-gpu}]
      domain: {memory: {guest: 2Gi}, devices: {gpus: [{name: gpu1, claimName: gpu, requestName: gpu}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: any-gpu, namespace: team-a}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
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
    (tmp_path / "kept.yaml").write_text("---".join(KEPT.split("---")[:2]))
    assert said("explain", "vm", "trainer", "-n", "team-a", *limited).endswith(
        "Kept devices:\n  KeepPolicy team of the namespace allows devices to be kept for 2h only\n"
    )


def test_the_device_is_shown_as_the_stopped_vms(files: tuple[str, ...]) -> None:
    rows = said("get", "devices", *files, "--no-headers").splitlines()
    (row,) = (row for row in rows if "node-3" in row)
    assert "VM team-a/trainer (stopped)   trainer-gpu" in row


def test_its_description_has_the_claims_that_it_keeps(files: tuple[str, ...]) -> None:
    row = "trainer-gpu   reserved   node-3   gpu.example.com/node-3/gpu-0   VM trainer (stopped)"
    assert row in said("describe", "vm", "trainer", "-n", "team-a", *files)


# --- what ends it sooner than the lease ---


@dataclass(frozen=True)
class Ending:
    """What ends keeping before the lease of 24h. ``until``: what every command says; ``by_nodes``: what those say that
    read nodes, too. ``fits``: the nodes that the VM fits on then. ``vm``, ``claim``: added to their metadata;
    ``objects``: added; ``changed``: a part of the text, and what is in its place."""

    until: str
    fits: str = "(node-3)"
    vm: str = ""
    claim: str = ""
    objects: str = ""
    changed: tuple[str, str] = ("", "")
    by_nodes: str = ""


RULE = """---
apiVersion: resource.k8s.io/v1beta2
kind: DeviceTaintRule
metadata: {name: broken}
spec:
  deviceSelector: {pool: node-3, device: gpu-0}
  taint: {key: broken, effect: NoExecute, timeAdded: "2026-11-20T09:00:00Z"}
"""
NODE = """apiVersion: v1
kind: Node
metadata: {name: node-3}
spec: {unschedulable: false}
"""
DEVICE = """  pool: {name: node-3, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
"""
TOLERATED = (
    "pool: node-3, device: gpu-0",
    "pool: node-3, device: gpu-0, tolerations: [{operator: Exists, effect: NoExecute, tolerationSeconds: 1800}]",
)
LOST = ', virt-dra.io/node-lost-since: "2026-11-20T08:30:00Z"'
ELSEWHERE = "(node-4)"
TAINTED = "a device has a NoExecute taint:"
ENDINGS = {
    "the lease": Ending("until 2026-11-21T08:00:00Z"),
    "a rule's taint": Ending(f"until 2026-11-20T09:00:00Z: {TAINTED} DeviceTaintRule broken", ELSEWHERE, objects=RULE),
    "a rule's taint that is tolerated for a while": Ending(
        f"until 2026-11-20T09:30:00Z: {TAINTED} DeviceTaintRule broken", ELSEWHERE, objects=RULE, changed=TOLERATED
    ),
    "a driver's taint, before the stop": Ending(
        f"until 2026-11-20T08:00:00Z: {TAINTED} gpu.example.com/node-3/gpu-0",
        ELSEWHERE,
        changed=(DEVICE, f"{DEVICE}    taints: [{{key: hot, effect: NoExecute}}]\n"),
    ),
    "a taint that doesn't evict": Ending("until 2026-11-21T08:00:00Z", objects=RULE.replace("NoExecute", "NoSchedule")),
    "a node that is cordoned": Ending(
        "until 2026-11-20T09:30:00Z: node node-3 is away",
        "",
        claim=LOST,
        changed=(NODE, NODE.replace("false", "true")),
        by_nodes="until 2026-11-20T09:30:00Z: node node-3 is cordoned",
    ),
    "a node that is gone, which the keeper hasn't seen": Ending(
        "until 2026-11-21T08:00:00Z",
        "",
        changed=(NODE, NODE.replace("node-3", "node-5")),
        by_nodes="until 2026-11-21T08:00:00Z at the latest: node node-3 is gone; released 1h after the keeper saw it",
    ),
    "a node that is back, which the keeper hasn't seen": Ending(
        "until 2026-11-20T09:30:00Z: node node-3 is away", claim=LOST, by_nodes="until 2026-11-21T08:00:00Z"
    ),
    "a request": Ending(
        "until 2026-11-20T08:00:00Z: its release was asked for",
        "(node-3, node-4)",
        claim=', virt-dra.io/release-requested: ""',
    ),
    "a VM that is being deleted": Ending(
        "until 2026-11-21T08:00:00Z at the latest: the VM is being deleted",
        "can't start",
        vm=', deletionTimestamp: "2026-11-20T10:00:00Z"',
    ),
    "a VM that was made again": Ending(
        "until 2026-11-20T08:00:00Z: no VM owns it any more", "(node-3, node-4)", changed=("uid: vm-1}", "uid: vm-2}")
    ),
    "a moment out of the calendar": Ending(
        "until 9999-12-31T23:59:59Z", changed=("2026-11-20T08:00:00Z", "9999-12-31T08:00:00Z")
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_every_command_says_what_ends_it_sooner(files: tuple[str, ...], tmp_path: Path, name: str) -> None:
    ending = ENDINGS[name]
    stopped = f'  annotations: {{virt-dra.io/stopped-since: "2026-11-20T08:00:00Z"{ending.claim}}}'
    kept = KEPT.replace('"true"}}', "24h}}").replace("  uid: kept-1", f"  uid: kept-1\n{stopped}")
    text = kept.replace(", uid: vm-1}", f", uid: vm-1{ending.vm}}}", 1) + ending.objects
    before, after = ending.changed
    cluster = (tmp_path / "cluster.yaml").read_text()
    assert before in text + cluster
    (tmp_path / "kept.yaml").write_text(text.replace(before, after, 1) if before in text else text)
    (tmp_path / "cluster.yaml").write_text(cluster.replace(before, after, 1) if before in cluster else cluster)

    stop = after if after.startswith("9999") else "2026-11-20T08:00:00Z"
    by_nodes = ending.by_nodes or ending.until
    explained = said("explain", "vm", "trainer", "-n", "team-a", *files)
    assert f"\n  gpu.example.com/node-3/gpu-0, stopped since {stop}, kept {by_nodes}\n" in explained
    assert ending.fits in explained.splitlines()[0]
    (device,) = (row for row in said("get", "devices", *files, "--no-headers").splitlines() if "node-3" in row)
    assert f", kept {ending.until})   trainer-gpu" in device
    claims = json.loads(said("get", "claims", *files, "-o", "json"))["items"]
    (claim,) = (user for claim in claims if claim["metadata"]["name"] == "trainer-gpu" for user in claim["for"])
    row = f"gpu.example.com/node-3/gpu-0   VM trainer (stopped since {stop}, kept {ending.until})"
    assert row in said("describe", "vm", "trainer", "-n", "team-a", *files)
    (reported,) = json.loads(said("report", *files, "-o", "json"))["kept"]
    for shown, until in ((claim, ending.until), (reported, by_nodes)):
        when, _, limit = until.removeprefix("until ").partition(": ")
        time, _, latest = when.partition(" ")
        assert shown["keptUntil"] == time
        assert shown["keptUntilIs"] == ("latest" if latest else "exact")
        assert shown.get("keepLimit") == (limit or None)


def test_a_template_that_asks_for_something_else_counts_in_place_of_what_is_kept(
    files: tuple[str, ...], tmp_path: Path
) -> None:
    request = "{deviceClassName: gpu.example.com}"
    for asked, answer in (
        ("{deviceClassName: gpu.example.com, count: 1}", "fits on 1 of 4 nodes (node-3)"),
        (
            '{deviceClassName: gpu.example.com, selectors: [{cel: {expression: "false"}}]}',
            "would wait: none of 4 nodes",
        ),
    ):
        (tmp_path / "kept.yaml").write_text(KEPT.replace(request, asked, 1))
        assert said("explain", "vm", "trainer", "-n", "team-a", *files).startswith(f"VM team-a/trainer {answer}")
