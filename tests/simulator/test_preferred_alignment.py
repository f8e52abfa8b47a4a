"""VMs whose profiles prefer devices together: what run and explain say of them, one after the other."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import yaml

from virt_dra.api.reading.documents import Document, DocumentSource, Sourced, read_document
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.simulator.embedded import RunSettings, run_on
from virt_dra.simulator.explaining.answer import answered
from virt_dra.simulator.explaining.state import ClusterState
from virt_dra.simulator.explaining.subject import SubjectFinder
from virt_dra.simulator.outcome import VmOutcome

Json = dict[str, Any]
NOW = datetime(2026, 11, 26, tzinfo=UTC)
APART = "gpu and nic on different PCIe roots: no node has both free on one"

CLUSTER = """
apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kubevirt, namespace: kubevirt}
spec: {configuration: {developerConfiguration: {featureGates: [HostDevicesWithDRA, HostDevices]}}}
status: {observedKubeVirtVersion: v1.9.0}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.attributes["d.example.com"].kind == "gpu"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: nic}
spec: {selectors: [{cel: {expression: 'device.attributes["d.example.com"].kind == "nic"'}}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status:
  allocatable:
    {cpu: '8', memory: 16Gi, pods: '20', devices.kubevirt.io/kvm: 1k, devices.kubevirt.io/tun: 1k,
     devices.kubevirt.io/vhost-net: 1k}
---
apiVersion: virt-dra.io/v1alpha1
kind: DeviceProfile
metadata: {name: pair}
spec:
  devices: [{name: gpu, deviceClassName: gpu}, {name: nic, type: HostDevice, deviceClassName: nic}]
  align: [{attribute: pcieRoot, mode: Preferred}]
"""


def published(*devices: tuple[str, str, str]) -> Json:
    """A slice of devices, each with its name, kind and PCIe root."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "n1"},
        "spec": {
            "driver": "d.example.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": name,
                    "attributes": {
                        "kind": {"string": kind},
                        "resource.kubernetes.io/pcieRoot": {"string": root},
                        "resource.kubernetes.io/pciBusID": {"string": f"0000:0{number}:00.0"},
                    },
                }
                for number, (name, kind, root) in enumerate(devices)
            ],
        },
    }


def vm(name: str) -> Json:
    spec = {"domain": {"devices": {}, "resources": {"requests": {"memory": "1Gi", "cpu": "100m"}}}}
    template = {"metadata": {"annotations": {"virt-dra.io/devices": "pair"}}, "spec": spec}
    metadata = {"name": name, "namespace": "team"}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": metadata,
        "spec": {"runStrategy": "Always", "template": template},
    }


def objects(*raw: Json) -> list[Sourced[Any]]:
    written = (*yaml.safe_load_all(CLUSTER), *raw)
    read = [read_document(Document(obj, DocumentSource("f.yaml", number))) for number, obj in enumerate(written, 1)]
    return [sourced for sourced in read if isinstance(sourced, Sourced)]


def ran(*raw: Json) -> list[VmOutcome]:
    cluster = MemoryCluster.deterministic(NOW)
    return list(asyncio.run(run_on(cluster, objects(*raw), RunSettings(namespace="team"), lambda: NOW)).outcomes)


def explained(name: str, *raw: Json) -> tuple[str, tuple[str, ...]]:
    state = ClusterState.from_objects([sourced.object for sourced in objects(*raw)], "team")
    subject = SubjectFinder(state.model).find("vm", name, "team")
    answer = answered(subject, state, lambda done, total: None)
    return answer.verdict, answer.unaligned


def devices_of(outcome: VmOutcome) -> list[str]:
    return sorted((device.allocated or "").rpartition("/")[2] for device in outcome.devices)


ONE_ROOT_IS_WHOLE = published(
    ("gpu-0", "gpu", "a"), ("gpu-1", "gpu", "b"), ("nic-0", "nic", "b"), ("nic-1", "nic", "c")
)


def test_devices_are_together_where_a_node_can_and_apart_after_that() -> None:
    first, second = ran(ONE_ROOT_IS_WHOLE, vm("first"), vm("second"))
    assert (first.ready, devices_of(first), first.warnings) == (True, ["gpu-1", "nic-0"], ())
    assert (second.ready, devices_of(second), second.warnings) == (True, ["gpu-0", "nic-1"], (APART,))


def test_explain_says_what_a_vm_gets_apart() -> None:
    assert explained("vm", ONE_ROOT_IS_WHOLE, vm("vm")) == ("fits", ())
    apart = published(("gpu-0", "gpu", "a"), ("nic-0", "nic", "b"))
    assert explained("vm", apart, vm("vm")) == ("fits", (APART,))


def test_of_a_vm_that_fits_nowhere_nothing_is_said_but_that() -> None:
    assert explained("vm", published(("gpu-0", "gpu", "a")), vm("vm")) == ("waits", ())
