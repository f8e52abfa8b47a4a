"""The hand-overs on an embedded cluster: what stands in for a real cluster's agents, and what must be left alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from virt_dra.api.core_v1 import Node
from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import DocumentSource, Sourced
from virt_dra.api.reading.scheme import read_object
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.simulator.embedded import Ran, RunSettings, run_on
from virt_dra.simulator.outcome import HandOver

CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
}


def _slice(node: str, *addresses: str) -> dict[str, Any]:
    devices = [
        {"name": f"gpu-{n}", "attributes": {"resource.kubernetes.io/pciBusID": {"string": address}}}
        for n, address in enumerate(addresses)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpus"},
        "spec": spec,
    }


def _gpu(request: str) -> dict[str, Any]:
    return {"devices": {"gpus": [{"name": "g", "claimName": "c", "requestName": request}]}}


def _vmi(name: str = "vm", **spec: Any) -> dict[str, Any]:
    claims = [{"name": "c", "resourceClaimTemplateName": "one"}]
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": name},
        "spec": {"resourceClaims": claims, "domain": _gpu("gpu"), **spec},
    }


async def _run(*raw: dict[str, Any], **settings: Any) -> Ran:
    inputs = [Sourced[TypedObject](read_object(obj), DocumentSource("input", line)) for line, obj in enumerate(raw, 1)]
    return await run_on(
        MemoryCluster.deterministic(), inputs, RunSettings(**settings), lambda: datetime(2026, 1, 1, tzinfo=UTC)
    )


async def test_nodes_are_made_of_what_slices_name_and_labelled_as_virt_handler_would() -> None:
    ran = await _run(CLASS, TEMPLATE, _slice("a", "0000:01:00.0"), _vmi())
    (node,) = (obj for obj in ran.objects if isinstance(obj, Node))
    assert (node.name, node.metadata.labels) == (
        "a",
        {
            "kubevirt.io/schedulable": "true",
            "cpumanager": "true",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "kubernetes.io/hostname": "a",
        },
    )
    assert ran.ready


async def test_given_nodes_are_the_only_ones_and_keep_their_labels() -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "b", "labels": {"kubevirt.io/schedulable": "false"}},
    }
    ran = await _run(CLASS, TEMPLATE, node, _slice("a", "0000:01:00.0"), _vmi())
    (outcome,) = ran.outcomes
    assert outcome.failure is not None
    assert (outcome.failure.step, outcome.failure.message) == (
        HandOver.PLACEMENT,
        "the one node can't take it. Nearest: b: without the label kubevirt.io/schedulable=true of the nodeSelector",
    )
    assert outcome.failure.advice.startswith("add or label a node")


async def test_vms_compete_in_the_order_of_the_input() -> None:
    ran = await _run(CLASS, TEMPLATE, _slice("a", "0000:01:00.0"), _vmi("zebra"), _vmi("ant"))
    assert [(outcome.name, outcome.ready) for outcome in ran.outcomes] == [("zebra", True), ("ant", False)]


async def test_claims_of_consumers_that_are_not_part_of_the_input_keep_their_devices() -> None:
    results = [{"request": "gpu", "driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}]
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "other", "finalizers": ["resource.kubernetes.io/delete-protection"]},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
        },
    }
    ran = await _run(CLASS, TEMPLATE, claim, _slice("a", "0000:01:00.0", "0000:02:00.0"), _vmi())
    assert ran.outcomes[0].devices[0].pci_address == "0000:02:00.0"
    (kept,) = (obj for obj in ran.objects if isinstance(obj, ResourceClaim) and obj.name == "other")
    assert kept.status.to_wire() == read_object(claim).to_wire()["status"]


async def test_a_vmi_that_a_vm_of_the_input_owns_is_driven_once() -> None:
    vm = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "vm"},
        "spec": {"running": False},
    }
    vm["spec"]["template"] = {"spec": _vmi()["spec"]}  # type: ignore[index] # a nested dict
    owned = _vmi()
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "vm", "uid": "u", "controller": True}
    ]
    ran = await _run(CLASS, TEMPLATE, _slice("a", "0000:01:00.0"), vm, owned)
    assert [(outcome.kind, outcome.ready, outcome.warnings) for outcome in ran.outcomes] == [
        (
            "VirtualMachine",
            True,
            ("the VM is stopped (spec.running, spec.runStrategy); this shows what starting it would do",),
        )
    ]


async def test_status_and_server_set_metadata_of_another_life_are_not_used() -> None:
    vmi = _vmi()
    vmi["metadata"] |= {"uid": "old", "resourceVersion": "7", "finalizers": ["kubevirt.io/x"]}
    former = {"name": "gpu-9", "resourceClaimName": "old", "attributes": {"pciAddress": "0000:ff:00.0"}}
    vmi["status"] = {
        "phase": "Running",
        "deviceStatus": {"gpuStatuses": [{"name": "g", "deviceResourceClaimStatus": former}]},
    }
    ran = await _run(CLASS, TEMPLATE, _slice("a", "0000:01:00.0"), vmi)
    assert ran.outcomes[0].devices[0].pci_address == "0000:01:00.0"


async def test_of_an_object_given_twice_the_last_one_counts_and_the_places_are_reported() -> None:
    other = {**CLASS, "spec": {"selectors": [{"cel": {"expression": "false"}}]}}
    ran = await _run(CLASS, other, TEMPLATE, _slice("a", "0000:01:00.0"), _vmi())
    assert [str(replacement) for replacement in ran.replaced] == [
        "DeviceClass gpu is given with different content at input:1 and "
        "input:2; the last one is used, as kubectl apply does"
    ]
    assert (ran.refused, ran.ready) == ((), False)
    again = await _run(other, CLASS, CLASS, TEMPLATE, _slice("a", "0000:01:00.0"), _vmi())
    assert ([replacement.to_json() for replacement in again.replaced], again.ready) == (
        [{"kind": "DeviceClass", "key": "gpu", "earlier": ["input:1"], "used": "input:3"}],
        True,
    )


async def test_a_vm_given_twice_is_one_vm() -> None:
    same = (CLASS, TEMPLATE, _slice("a", "0000:01:00.0", "0000:02:00.0"))
    ran = await _run(*same, _vmi(), _vmi())
    assert ([outcome.ready for outcome in ran.outcomes], ran.replaced) == ([True], ())
    ran = await _run(*same, _vmi(), _vmi(resourceClaims=[]))
    (outcome,) = ran.outcomes
    assert (outcome.source, outcome.ready, len(ran.replaced)) == ("input:5", False, 1)


async def test_an_instancetype_gives_its_devices_to_the_vm() -> None:
    spec: dict[str, Any] = {"cpu": {"guest": 4}, "memory": {"guest": "8Gi"}, "gpus": _gpu("gpu")["devices"]["gpus"]}
    group = "instancetype.kubevirt.io/v1beta1"
    sizes = {
        "apiVersion": group,
        "kind": "VirtualMachineClusterInstancetype",
        "metadata": {"name": "large"},
        "spec": spec,
    }
    template: dict[str, Any] = {
        "spec": {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "one"}], "domain": {}}
    }
    vm = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "vm"},
        "spec": {"runStrategy": "Always", "instancetype": {"name": "large"}, "template": template},
    }
    ran = await _run(CLASS, TEMPLATE, sizes, _slice("a", "0000:01:00.0"), vm)
    (outcome,) = ran.outcomes
    assert outcome.ready, outcome.failure
    assert [device.pci_address for device in outcome.devices] == ["0000:01:00.0"]
    assert '<memory unit="b">8589934592</memory>' in (outcome.domain or "")
    assert '<topology sockets="4" cores="1" threads="1"/>' in (outcome.domain or "")
    (stored,) = (obj for obj in ran.objects if isinstance(obj, VirtualMachine))
    assert stored.to_wire()["spec"] == vm["spec"], "the VM stays as it was written"

    template["spec"]["domain"] = _gpu("gpu")
    (outcome,) = (await _run(CLASS, TEMPLATE, sizes, _slice("a", "0000:01:00.0"), vm)).outcomes
    assert outcome.failure is not None
    assert (outcome.failure.step, outcome.failure.message) == (
        HandOver.ADMISSION,
        "VM field(s) spec.template.spec.domain.devices.gpus conflicts with selected instance type",
    )


async def test_objects_without_a_namespace_get_the_given_one() -> None:
    ran = await _run(CLASS, TEMPLATE, _slice("a", "0000:01:00.0"), _vmi(), namespace="team")
    assert (ran.outcomes[0].namespace, ran.outcomes[0].ready) == ("team", True)


@pytest.mark.parametrize(
    ("objects", "vmi", "advice"),
    [
        ((CLASS, TEMPLATE), {}, "add the ResourceSlices of these nodes to the input"),
        ((), {"resourceClaims": [{"name": "c", "resourceClaimName": "mine"}]}, "add the ResourceClaim to the input"),
        ((CLASS, TEMPLATE, _slice("a", "0000:01:00.9")), {}, "select a device of a driver that publishes addresses"),
        (
            (CLASS, TEMPLATE, _slice("a", "0000:01:00.0")),
            {"domain": _gpu("other")},
            "correct requestName of the device",
        ),
        (
            (CLASS, {**TEMPLATE, "metadata": {"name": "One"}}),
            {},
            "first correct the objects that the API server refused (input:2)",
        ),
    ],
)
async def test_a_failure_says_what_to_do(objects: tuple[dict[str, Any], ...], vmi: dict[str, Any], advice: str) -> None:
    (outcome,) = (await _run(*objects, _vmi(**vmi))).outcomes
    assert outcome.failure is not None
    assert outcome.failure.advice.startswith(advice)


async def test_a_node_that_the_input_lacks_says_so() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
    (outcome,) = (await _run(CLASS, TEMPLATE, node, _slice("a", "0000:01:00.0"), _vmi(), node="b")).outcomes
    assert outcome.failure is not None
    assert (outcome.failure.message, outcome.failure.advice) == (
        'node "b" not found',
        "choose a node of the input, or add the Node",
    )


async def test_a_device_of_a_device_plugin_says_what_is_missing_here() -> None:
    vmi = _vmi(domain={"devices": {"gpus": [{"name": "g", "deviceName": "nvidia.com/A100"}]}}, resourceClaims=[])
    (outcome,) = (await _run(vmi)).outcomes
    assert outcome.failure is not None
    assert (outcome.failure.step, outcome.failure.reason) == (HandOver.DOMAIN_XML, "CountMismatch")
    assert "the embedded cluster does not have" in outcome.failure.advice


@pytest.mark.parametrize(("version", "ready"), [("v1.9.2", True), ("v1.8.4", False), ("dev-build", True)])
async def test_the_kubevirt_object_tells_version_and_gates(version: str, ready: bool) -> None:
    kubevirt = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": "kubevirt"},
        "spec": {},
        "status": {"observedKubeVirtVersion": version},
    }
    ran = await _run(kubevirt, CLASS, TEMPLATE, _slice("a", "0000:01:00.0"), _vmi())
    assert ran.outcomes[0].ready == ready


async def test_a_node_whose_name_is_no_label_value_gets_no_host_name_label() -> None:
    ran = await _run(CLASS, TEMPLATE, _slice("n" * 70, "0000:01:00.0"), _vmi())
    (node,) = (obj for obj in ran.objects if isinstance(obj, Node))
    assert "kubernetes.io/hostname" not in node.metadata.labels
    assert ran.ready
