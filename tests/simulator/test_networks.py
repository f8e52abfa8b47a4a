"""Networks from claims in a run: shown and resolved like devices (K-5.32, K-7.21)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import DocumentSource, Sourced
from virt_dra.api.reading.scheme import read_object
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.simulator.embedded import RunSettings, run_on
from virt_dra.simulator.outcome import HandOver, VmOutcome

WORLD = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: net}
spec: {}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: net}}]}}}
"""
ON = {"NetworkDevicesWithDRA": True}


def _slice(**attributes: str) -> dict[str, Any]:
    device = {
        "name": "vf-0",
        "attributes": {
            key.replace("__", "/").replace("_", "."): {"string": value} for key, value in attributes.items()
        },
    }
    spec = {
        "driver": "net.example.com",
        "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
        "devices": [device],
    }
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "a"}, "spec": spec}


def _vmi(interface: dict[str, Any], **devices: Any) -> dict[str, Any]:
    spec = {
        "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "one"}],
        "networks": [{"name": "fast", "resourceClaim": {"claimName": "c", "requestName": "r"}}],
        "domain": {"devices": {"interfaces": [{"name": "fast", **interface}], **devices}},
    }
    return {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "vm"}, "spec": spec}


async def _run(*raw: dict[str, Any], gates: dict[str, bool] = ON, kubevirt: str = "1.9") -> VmOutcome:
    inputs = [
        Sourced[TypedObject](read_object(obj), DocumentSource("input", line))
        for line, obj in enumerate([*yaml.safe_load_all(WORLD), *raw], 1)
    ]
    settings = RunSettings(gates=gates, kubevirt=KubeVirtVersion.parse(kubevirt))
    ran = await run_on(MemoryCluster.deterministic(), inputs, settings, lambda: datetime(2026, 1, 1, tzinfo=UTC))
    (outcome,) = ran.outcomes
    return outcome


async def test_an_sriov_interface_gets_its_function() -> None:
    outcome = await _run(_slice(resource_kubernetes_io__pciBusID="0000:08:02.1"), _vmi({"sriov": {}}))
    assert outcome.ready, outcome.failure
    (network,) = outcome.devices
    assert network.to_json() == {
        "device": "networks/fast",
        "claim": "c",
        "request": "r",
        "allocated": "net.example.com/a/vf-0",
        "pciAddress": "0000:08:02.1",
        "mdevUUID": None,
        "source": "metadata",
        "xml": '<hostdev type="pci" managed="no"><source>'
        '<address type="pci" domain="0x0000" bus="0x08" slot="0x02" '
        'function="0x1"/></source><alias name="ua-sriov-fast"/></hostdev>',
        "binding": None,
    }
    assert outcome.domain is not None
    assert "ua-sriov-fast" in outcome.domain


@pytest.mark.parametrize(
    ("published", "address"), [({}, None), ({"resource_kubernetes_io__pciBusID": "0000:08:02.1"}, "0000:08:02.1")]
)
async def test_a_binding_plugin_attaches_its_device_itself(published: dict[str, str], address: str | None) -> None:
    outcome = await _run(_slice(**published), _vmi({"binding": {"name": "tap"}}))
    assert outcome.ready, outcome.failure
    (network,) = outcome.devices
    assert (network.allocated, network.pci_address, network.xml, network.binding) == (
        "net.example.com/a/vf-0",
        address,
        None,
        "tap",
    )
    assert "hostdev" not in (outcome.domain or "")


@pytest.mark.parametrize(
    ("published", "message"),
    [
        ({}, "none of the attributes is a usable address"),
        ({"mdevUUID": "b5b8ce27-0b8c-4b5e-a0f0-1f1f6d3c3a01"}, "only an mdev UUID is published"),
    ],
)
async def test_a_function_without_pci_address_fails_where_it_is_resolved(
    published: dict[str, str], message: str
) -> None:
    failure = (await _run(_slice(**published), _vmi({"sriov": {}}))).failure
    assert failure is not None
    assert (failure.step, failure.reason) == (HandOver.DEVICE_STATUS, "NoAddress")
    assert failure.message.startswith("networks/fast: ")
    assert message in failure.message
    assert failure.advice.startswith("select a device of a driver that publishes addresses")


async def test_a_network_and_a_gpu_can_not_have_one_device() -> None:
    address = "0000:08:02.1"
    twice = _slice(resource_kubernetes_io__pciBusID=address)
    twice["spec"]["devices"].append({**twice["spec"]["devices"][0], "name": "vf-1"})
    vmi = _vmi({"sriov": {}}, gpus=[{"name": "g", "claimName": "d", "requestName": "r"}])
    vmi["spec"]["resourceClaims"].append({"name": "d", "resourceClaimTemplateName": "one"})
    outcome = await _run(twice, vmi)
    assert [device.device for device in outcome.devices] == ["gpus/g", "networks/fast"]
    assert outcome.failure is not None
    assert outcome.failure.reason == "DuplicateAddress"


async def test_the_gate_is_alpha_and_off_unless_it_is_switched_on() -> None:
    outcome = await _run(_slice(resource_kubernetes_io__pciBusID="0000:08:02.1"), _vmi({"sriov": {}}), gates={})
    assert outcome.failure is not None
    assert outcome.failure.step == HandOver.ADMISSION
    assert "--kubevirt-gates NetworkDevicesWithDRA=true" in outcome.failure.advice
