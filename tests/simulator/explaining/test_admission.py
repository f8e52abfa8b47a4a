"""An explanation begins with admission: explain, diff, run and a what-if give one verdict on a VM that is refused
before it has a pod."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import pytest

from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import read_documents, read_objects
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.model.cluster import ClusterModel
from virt_dra.simulator.embedded import RunSettings
from virt_dra.simulator.experiment.added_vms import added_vm
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.explaining.answer import answered
from virt_dra.simulator.explaining.difference import FitState, differences
from virt_dra.simulator.explaining.state import ClusterState
from virt_dra.simulator.explaining.subject import find_subject
from virt_dra.simulator.preflight import judged_for_run, run_judged
from webhooks.lint import LintSettings

CLUSTER: Final = """
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {allocatable: {cpu: "8", memory: 16Gi, pods: "110"}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-1-gpu}
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, attributes: {resource.kubernetes.io/pciBusID: {string: "0000:01:00.0"}}}
  - {name: gpu-1, attributes: {resource.kubernetes.io/pciBusID: {string: "0000:02:00.0"}}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu, namespace: team}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com, count: COUNT}}]}}}
"""
VM: Final = """
---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: vm, namespace: team}
spec:
  runStrategy: Always
  template:
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
      domain:
        resources: {requests: {memory: 1Gi}}
        devices: {gpus: [{name: gpu, claimName: gpu, requestName: gpu}], interfaces: []}
"""
_SETTINGS: Final = RunSettings()
SOUND: Final = CLUSTER.replace("COUNT", "1") + VM
REFUSED: Final = {
    "kubevirt-refuses": SOUND.replace("claimName: gpu, requestName: gpu", "requestName: gpu"),
    "request-name": SOUND.replace("requestName: gpu", "requestName: GPU/x"),
    "request-missing": SOUND.replace("requestName: gpu", "requestName: other"),
    "several-devices": CLUSTER.replace("COUNT", "2") + VM,
    "no-address": SOUND.replace("resource.kubernetes.io/pciBusID", "serial"),
    "unknown-field": SOUND.replace("devices: {gpus:", "devices: {gpuz: [], gpus:"),
    "invalid-object": SOUND.replace("      domain:", "      accessCredentials: [{sshPublicKey: {}}]\n      domain:"),
    "unrendered-template": SOUND.replace("      domain:", '      hostname: "{{ .Values.host }}"\n      domain:'),
}
"""By the finding of the lint."""


def _objects(text: str) -> list[TypedObject]:
    loaded = read_objects(text.encode(), "input")
    assert loaded.problems == ()
    return [sourced.object for sourced in loaded.objects]


def _explained(text: str) -> tuple[str, str, str]:
    state = ClusterState.from_objects(_objects(text))
    answer = answered(find_subject("vm", "vm", "team", state.model), state, lambda done, total: None)
    return answer.verdict, answer.reason, answer.headline


def _changes(text: str) -> list[str]:
    before, after = (
        FitState(ClusterState.from_objects(objects), lambda: None) for objects in (_objects(SOUND), _objects(text))
    )
    return [change.says for change in differences(before, after, lambda done, total: None)]


async def _ready(text: str, settings: RunSettings = _SETTINGS) -> list[tuple[str, bool]]:
    documents = read_documents(text.encode(), "input")
    judgement = judged_for_run(documents, settings, LintSettings())
    now = datetime(2026, 1, 1, tzinfo=UTC)
    ran = await run_judged(MemoryCluster.deterministic(), judgement, settings, lambda: now)
    return [(outcome.name, outcome.ready) for outcome in ran.outcomes]


async def test_a_vm_that_is_admitted_fits() -> None:
    assert _explained(SOUND) == ("fits", "", "VM team/vm fits on 1 of 1 node (node-1): it isn't created yet")
    assert _changes(SOUND) == []
    assert await _ready(SOUND) == [("vm", True)]


def test_an_instancetype_that_is_not_given_leaves_the_size_open() -> None:
    text = SOUND.replace("  runStrategy: Always\n", "  runStrategy: Always\n  instancetype: {name: u1.medium}\n")
    text = text.replace("resources: {requests: {memory: 1Gi}}", "")
    state = ClusterState.from_objects(_objects(text))
    answer = answered(find_subject("vm", "vm", "team", state.model), state, lambda done, total: None)
    assert [fact.to_json() for fact in answer.unknown if fact.code == "InstancetypeNotGiven"] == [
        {
            "code": "InstancetypeNotGiven",
            "subject": "team/vm",
            "text": "VirtualMachineClusterInstancetype u1.medium isn't given or readable, so its devices, CPUs and "
            "memory are not checked. Add it to the files, or let the account read it",
        }
    ]


@pytest.mark.parametrize("finding", REFUSED)
async def test_a_vm_that_the_lint_denies_cant_start_for_anybody(finding: str) -> None:
    verdict, reason, headline = _explained(REFUSED[finding])
    assert (verdict, reason) == ("broken", finding)
    assert headline.startswith("VM team/vm can't start: spec.template.spec.")
    assert _changes(REFUSED[finding]) == ["VM team/vm stops fitting"]
    assert await _ready(REFUSED[finding]) == [("vm", False)]
    objects = _objects(REFUSED[finding])
    with pytest.raises(BadExperiment) as refused:
        added_vm([obj for obj in objects if isinstance(obj, VirtualMachine)], objects, "vm.yaml")
    assert str(refused.value) == headline.replace("VM team/vm", "vm.yaml: VirtualMachine team/vm")


@pytest.mark.parametrize(
    ("unread", "reason"), [(frozenset({KubeVirt}), "invalid-object"), (frozenset[type[TypedObject]](), "")]
)
async def test_files_are_judged_as_for_kubevirt_and_clusters_without_one_by_our_own_crds(
    unread: frozenset[type[TypedObject]], reason: str
) -> None:
    """Which ask for no domain (K-1.9, K-2.2)."""
    without_domain = f"{VM.partition('      resourceClaims')[0]}      terminationGracePeriodSeconds: 0\n"
    settings = RunSettings(beside_kubevirt=KubeVirt in unread)
    model = ClusterModel(_objects(without_domain), unread=unread)
    problem = find_subject("vm", "vm", "team", model).problem
    assert (problem.code if problem else "") == reason
    assert await _ready(without_domain, settings) == [("vm", not reason)]


SHARED: Final = (
    CLUSTER.replace("COUNT", "1")
    + """
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: licensed, namespace: team}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}
"""
    + "".join(
        VM.replace("name: vm,", f"name: {name},").replace(
            "resourceClaimTemplateName: gpu", "resourceClaimName: licensed"
        )
        for name in ("first", "second")
    )
)


async def test_of_two_vms_that_name_one_claim_one_runs() -> None:
    assert await _ready(SHARED) == [("first", True), ("second", False)]
