"""``virt-dra release``: which claims it marks, and when it marks none."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tests.json_schema import faults, schema_named
from virt_dra.api.keeping.claims import RELEASE_ANNOTATION
from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.meta import ObjectMeta, controller_reference
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.wire import Json
from virt_dra.cli.main import cli
from virt_dra.cli.release.command import released
from virt_dra.cluster.memory.cluster import MemoryCluster

VM: Json = {"apiGroup": "kubevirt.io", "resource": "virtualmachines", "name": "trainer", "uid": "vm-1"}
POD: Json = {"resource": "pods", "name": "virt-launcher-trainer-abcde", "uid": "pod-1"}

OTHER: Json = {"resource": "pods", "name": "other", "uid": "pod-2"}


async def cluster_with(*users: Json) -> MemoryCluster:
    """A VM's kept claim with a device, and a claim of nobody."""
    cluster = MemoryCluster.deterministic()
    metadata = ObjectMeta(name="trainer", namespace="team-a")
    owner = controller_reference(await cluster.create(VirtualMachine(metadata=metadata))).to_wire()
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    for name, more in (
        ("trainer-gpu", {"labels": {"virt-dra.io/kept": "true"}, "ownerReferences": [owner]}),
        ("another", {}),
    ):
        raw: Json = {
            "metadata": {"name": name, "namespace": "team-a", **more}, "spec": {"devices": {"requests": [request]}},
        }  # fmt: skip
        claim = await cluster.create(ResourceClaim.from_wire(raw))
        results = [{"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": f"gpu-of-{name}"}]
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": list(users) if more else [OTHER]}
        await cluster.update_status(ResourceClaim.from_wire({**claim.to_wire(), "status": status}))
    return cluster


async def marked(cluster: MemoryCluster) -> list[str]:
    claims = (await cluster.list(ResourceClaim, "team-a")).items
    return [claim.name for claim in claims if RELEASE_ANNOTATION in claim.metadata.annotations]


async def test_the_claims_of_a_stopped_vm_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = await cluster_with(VM)
    assert await released(cluster, "team-a", "trainer", True, "text") == 0
    assert await marked(cluster) == ["trainer-gpu"]
    assert capsys.readouterr().out == (
        "trainer-gpu: gpu-of-trainer-gpu of gpu.example.com/node-1\n"
        "asked the keeper to release them; virt-dra get claims shows when it has\n"
    )


async def test_a_vm_that_runs_keeps_its_devices(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = await cluster_with(VM, POD)
    assert await released(cluster, "team-a", "trainer", True, "text") == 1
    assert await marked(cluster) == []
    assert capsys.readouterr().err == "error: the VM runs, or its pod hasn't ended: stop it first\n"


async def test_who_keeps_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert await released(await cluster_with(VM), "team-a", "other", True, "text") == 0
    assert capsys.readouterr().out == "VM team-a/other keeps no devices\n"


async def test_a_document_says_what_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    await released(await cluster_with(VM), "team-a", "trainer", True, "json")
    document = json.loads(capsys.readouterr().out)
    assert faults(document, schema_named("release")) == []
    assert (document["kind"], document["items"]) == (
        "ReleaseList",
        [
            {
                "claim": "trainer-gpu",
                "namespace": "team-a",
                "devices": "gpu-of-trainer-gpu of gpu.example.com/node-1",
                "asked": True,
            }
        ],
    )


def test_a_document_needs_yes() -> None:
    made = CliRunner().invoke(cli, ["release", "vm", "trainer", "-o", "json"])
    assert (made.exit_code, "-o json and yaml go with --yes" in made.stderr) == (2, True)
