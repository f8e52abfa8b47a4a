"""What is told of devices while VMs run or wait: health, taints, why a pod waits, metrics; and who else may say it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from devtools.cluster.processes import keeper
from devtools.deployed.worlds import Json, World
from devtools.prometheus import prometheus
from tests.e2e.conftest import InWorld
from virt_dra.api.resource_v1 import DeviceTaint
from virt_dra.installation.kustomize import build
from virt_dra.installation.plan import MONITORING, packaged
from virt_dra.simulator.agents.driver import Driver

pytestmark = pytest.mark.control_plane

PLACE = "1.9.0"


@pytest.fixture
def world(in_world: InWorld) -> World:
    return in_world(PLACE)


def _condition(status: Json, kind: str) -> tuple[str, str, str] | None:
    found = next((condition for condition in status["conditions"] if condition["type"] == kind), None)
    return None if found is None else (found["status"], found["reason"], found["message"])


def _is(kind: str, *wanted: str) -> Callable[[Json], bool]:
    return lambda status: (_condition(status, kind) or ())[: len(wanted)] == wanted


def _driver(world: World) -> Driver:
    return world.drivers["gpu.example.com"]


def test_a_taint_of_a_running_vms_device_is_told_until_it_is_gone(world: World) -> None:
    world.in_phase("tainted", "Running")
    world.devices("tainted", _is("DevicesHealthy", "True", "AllDevicesHealthy"))
    taint = DeviceTaint(key="example.com/hot", value="90C", effect="NoSchedule", time_added="2026-11-21T09:00:00Z")
    world.background.do(_driver(world).taint(world.node, "pgpu-20", taint))
    message = "gpus/gpu1: device pgpu-20 has taint example.com/hot=90C:NoSchedule; see the driver's logs"
    status = world.devices("tainted", _is("DevicesHealthy", "False", "DeviceTainted", message))
    (device,) = status["devices"]
    assert device["taints"] == [
        {"key": "example.com/hot", "value": "90C", "effect": "NoSchedule", "timeAdded": "2026-11-21T09:00:00Z"}
    ]
    assert (device["state"], device["reason"]) == ("Resolved", "DeviceTainted")
    assert world.table("virtualmachineinstancedevices", "tainted")["Healthy"] == "False"
    world.eventually(lambda: ("Warning", "DeviceTainted", message) in world.events("tainted"))
    world.background.do(_driver(world).taint(world.node, "pgpu-20"))
    status = world.devices("tainted", _is("DevicesHealthy", "True", "AllDevicesHealthy"))
    assert "taints" not in status["devices"][0]
    world.eventually(lambda: ("Normal", "DevicesHealthy", "all devices are healthy again") in world.events("tainted"))
    assert world.get("virtualmachineinstances", "tainted")["status"]["phase"] == "Running"


def test_an_administrators_rule_taints_devices_too(world: World) -> None:
    world.in_phase("host-device", "Running")
    rules = "/apis/resource.k8s.io/v1/devicetaintrules"
    selector = {"driver": "gpu.example.com", "pool": world.node, "device": "card-0"}
    taint = {"key": "example.com/service", "value": "planned", "effect": "NoSchedule"}
    rule = {"metadata": {"name": "e2e"}, "spec": {"deviceSelector": selector, "taint": taint}}
    world.plane.request("POST", rules, rule)
    try:
        message = (
            "hostDevices/card1: device card-0 has taint example.com/service=planned:NoSchedule; see the driver's logs"
        )
        status = world.devices("host-device", _is("DevicesHealthy", "False", "DeviceTainted", message))
        (told,) = status["devices"][0]["taints"]
        assert {key: told[key] for key in taint} == taint
    finally:
        world.plane.request("DELETE", f"{rules}/e2e")
    world.devices("host-device", _is("DevicesHealthy", "True", "AllDevicesHealthy"))


def test_what_the_kubelet_hears_of_a_devices_health_is_told(world: World) -> None:
    world.in_phase("unhealthy", "Running")
    world.background.call(_driver(world).set_health, world.node, "pgpu-21", "Unhealthy", "XID 79: fell off the bus")
    message = "gpus/gpu1: device pgpu-21 is unhealthy: XID 79: fell off the bus; see the driver's logs"
    status = world.devices("unhealthy", _is("DevicesHealthy", "False", "DeviceUnhealthy", message))
    assert status["devices"][0]["health"] == {"status": "Unhealthy", "message": "XID 79: fell off the bus"}
    world.eventually(lambda: ("Warning", "DeviceUnhealthy", message) in world.events("unhealthy"))
    world.background.call(_driver(world).set_health, world.node, "pgpu-21", "Healthy")
    status = world.devices("unhealthy", _is("DevicesHealthy", "True", "AllDevicesHealthy"))
    assert status["devices"][0]["health"] == {"status": "Healthy"}


def test_a_pod_that_waits_for_devices_says_which_and_gets_them_when_they_come(world: World) -> None:
    status = world.devices("waiting", lambda status: _condition(status, "Allocatable") is not None)
    verdict = _condition(status, "Allocatable")
    assert verdict is not None
    assert verdict[:2] == ("False", "NoNodeFits")
    assert verdict[2].startswith(f"0 of 1 nodes can take the pod: 1 node ({world.node}), claim ")
    assert "request gpu" in verdict[2]
    assert (status["ready"], status["devices"][0]["state"], status["devices"][0]["reason"]) == (
        "0/1",
        "Pending",
        "NotAllocated",
    )
    world.eventually(lambda: ("Warning", "DevicesNotAllocatable", verdict[2]) in world.events("waiting"))
    assert world.table("virtualmachineinstancedevices", "waiting") | {"Age": ""} == {
        "Name": "waiting", "Ready": "0/1", "Node": None, "Path": "metadata-shim", "Healthy": "Unknown",
        "Reason": "NotAllocated", "Age": "",
    }  # fmt: skip
    driver = _driver(world)
    (pool,) = driver.pools
    bigger = [
        replace(device, attributes={**device.attributes, "size": "big"}) if device.name == "pgpu-22" else device
        for device in pool.devices
    ]
    world.background.do(driver.change(pool.next_generation(tuple(bigger))))
    world.in_phase("waiting", "Running")
    status = world.devices("waiting", lambda status: status["ready"] == "1/1")
    assert _condition(status, "Allocatable") is None


@pytest.mark.parametrize("place", ["1.7.2"])
def test_a_kubevirt_that_reads_no_metadata_gets_claims_without_a_path(in_world: InWorld, place: str) -> None:
    world = in_world(place)
    status = world.devices("too-old", lambda status: status["devices"][0].get("pciAddress"))
    (device,) = status["devices"]
    assert (device["integrationPath"], device["pciAddress"]) == ("none", "0000:65:00.0")
    assert (status["ready"], device["state"], device["reason"]) == ("0/1", "Error", "NoIntegrationPath")
    assert _condition(status, "DevicesResolved") == ("False", "NoIntegrationPath", f"gpus/gpu1: {device['message']}")
    told = world.eventually(lambda: world.events("too-old"))
    assert told == [("Warning", "NoIntegrationPath", f"gpus/gpu1: {device['message']}")]
    assert world.table("virtualmachineinstancedevices", "too-old")["Path"] == "none"
    (warning,) = world.warnings["too-old"]
    assert warning.startswith(
        'spec.domain.devices.gpus[0].requestName: [no-integration-path] request "gpu": no device that it may get, such '
    )


def _publish_size(world: World, device: str, size: str) -> None:
    driver = world.drivers["gpu.intel.com"]
    (pool,) = driver.pools
    resized = [
        replace(each, attributes={**each.attributes, "size": size}) if each.name == device else each
        for each in pool.devices
    ]
    world.background.do(driver.change(pool.next_generation(tuple(resized))))


@pytest.mark.parametrize("place", ["1.8.3"])
def test_a_driver_that_comes_late_and_writes_metadata_is_told_to_clash(in_world: InWorld, place: str) -> None:
    """When the pod was made nothing said which driver would serve it. After a restart it is known."""
    world = in_world(place)
    status = world.devices("late-driver", lambda status: status.get("podName"))
    assert status["integrationPaths"] == "metadata-shim"
    _publish_size(world, "card9", "big")
    status = world.devices("late-driver", lambda status: status["devices"][0].get("reason") == "MetadataClash")
    assert (status["ready"], status["devices"][0]["state"], status["devices"][0]["pciAddress"]) == (
        "0/1",
        "Error",
        "0000:03:00.3",
    )
    assert "no device that matches the request was known when the pod was made" in status["devices"][0]["message"]
    assert _condition(status, "DevicesHealthy") == ("Unknown", "DevicesNotResolved", "")
    told = world.eventually(lambda: [event for event in world.events("late-driver") if event[1] != "PodNotCreated"])
    assert told == [("Warning", "MetadataClash", f"gpus/gpu1: {status['devices'][0]['message']}")]
    vmi = world.get("virtualmachineinstances", "late-driver")
    assert vmi["status"]["phase"] == "Scheduling"
    world.delete("virtualmachineinstances", "late-driver")
    world.eventually(lambda: world.find("virtualmachineinstances", "late-driver") is None)
    world.create(
        "virtualmachineinstances",
        {"kind": "VirtualMachineInstance", "metadata": {"name": "late-driver"}, "spec": vmi["spec"]},
    )
    world.in_phase("late-driver", "Running")
    assert world.devices("late-driver", lambda status: status["ready"] == "1/1")["integrationPaths"] == "native"


@pytest.mark.parametrize("place", ["1.8.3"])
def test_a_vms_pod_that_was_made_before_its_driver_was_known_is_replaced(in_world: InWorld, place: str) -> None:
    """By the operator, with its own account: the VM starts without anybody's doing (K-12.10)."""
    world = in_world(place)
    name = "replaced"
    gpu = {"name": "gpu1", "claimName": "gpu", "requestName": "gpu"}
    spec = {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}],
        "domain": {"devices": {"gpus": [gpu]}},
    }
    vm = {
        "kind": "VirtualMachine",
        "metadata": {"name": name},
        "spec": {"runStrategy": "Always", "template": {"spec": spec}},
    }
    world.create("virtualmachines", vm)
    first = world.devices(name, lambda status: status.get("podName"))
    assert first["integrationPaths"] == "metadata-shim"
    _publish_size(world, "card10", "huge")
    second = world.devices(name, lambda status: status["ready"] == "1/1")
    assert (second["integrationPaths"], second["podUID"] != first["podUID"]) == ("native", True)
    world.in_phase(name, "Running")
    (message,) = [
        event["message"]
        for event in world.all("events", "?fieldSelector=reason%3DPodReplaced")
        if event["involvedObject"]["name"] == name
    ]
    assert message == (
        f"pod {first['podName']} is deleted, so that KubeVirt makes another: it was made before the driver of "
        "gpus/gpu1 was known, which mounts a metadata file of its own"
    )


RACES: Final = {"card30": 0.0, "card31": 1.0, "card32": 1.9, "card33": 3.0}
"""Device -> seconds after which its driver publishes it for a VM's pod, which the webhook makes wait for two."""


@pytest.mark.parametrize("place", ["1.8.3"])
def test_a_driver_that_publishes_around_the_end_of_the_wait_serves_each_vm(in_world: InWorld, place: str) -> None:
    """Whichever comes first, the pod or the device: at most one pod of a VM is replaced (K-12.10)."""
    world = in_world(place)
    names = {device: f"raced-{device}" for device in RACES}
    for device, seconds in RACES.items():
        gpu = {"name": "gpu1", "claimName": "gpu", "requestName": "gpu"}
        spec: Json = {
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": names[device]}],
            "domain": {"devices": {"gpus": [gpu]}},
        }
        vm = {"runStrategy": "Always", "template": {"spec": spec}}
        world.create("virtualmachines", {"kind": "VirtualMachine", "metadata": {"name": names[device]}, "spec": vm})
        time.sleep(seconds)
        _publish_size(world, device, device)
    for name in names.values():
        assert world.devices(name, lambda status: status["ready"] == "1/1")["integrationPaths"] == "native"
        world.in_phase(name, "Running")
    replaced = [
        event["involvedObject"]["name"]
        for event in world.all("events", "?fieldSelector=reason%3DPodReplaced")
        if event["involvedObject"]["name"] in names.values()
    ]
    assert sorted(replaced) == sorted(set(replaced)), "once each"
    assert names["card33"] in replaced, "its pod was there a second before"


@pytest.mark.parametrize("place", ["1.8.3", "1.9.0"])
@pytest.mark.parametrize("origin", ["template", "claim"])
def test_a_vm_that_comes_before_its_template_or_claim_starts_when_that_comes(
    in_world: InWorld, place: str, origin: str
) -> None:
    """Its driver writes metadata in the one case and none in the other: the pod is made as each needs it, once."""
    world = in_world(place)
    name, path = f"{origin}-later", "native" if origin == "template" else "metadata-shim"
    kind, plural = (
        ("ResourceClaimTemplate", "resourceclaimtemplates")
        if origin == "template"
        else ("ResourceClaim", "resourceclaims")
    )
    source = "resourceClaimTemplateName" if origin == "template" else "resourceClaimName"
    gpu = {"name": "gpu1", "claimName": "gpu", "requestName": "gpu"}
    spec: Json = {"resourceClaims": [{"name": "gpu", source: name}], "domain": {"devices": {"gpus": [gpu]}}}
    world.create(
        "virtualmachineinstances", {"kind": "VirtualMachineInstance", "metadata": {"name": name}, "spec": spec}
    )
    status = world.devices(name, lambda status: status["devices"][0]["reason"] == "PodNotCreated")
    missing = (
        f'{kind} "{name}", which resourceClaims entry "gpu" of the VM names, '
        f"does not exist in namespace {world.namespace}"
    )
    denied = (
        "failed to create virtual machine pod: admission webhook "
        f'"launcher-pods.virt-dra.io" denied the request: {missing}'
    )
    assert f"KubeVirt can't create the launcher pod (FailedCreate): {denied}" in status["devices"][0]["message"]
    assert (status["ready"], status["devices"][0]["state"], status.get("integrationPaths")) == ("0/1", "Error", None)
    told = world.all("events", f"?fieldSelector=involvedObject.name%3D{name}")
    assert any(event["reason"] == "FailedCreate" and missing in event["message"] for event in told)
    world.eventually(
        lambda: "virt-dra.io/pod-retry" in world.get("virtualmachineinstances", name)["metadata"].get("annotations", {})
    )
    requests: Json = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": f"e2e-{name}"}}]}}
    body = {"kind": kind, "metadata": {"name": name}, "spec": {"spec": requests} if origin == "template" else requests}
    world.create(plural, body)
    world.in_phase(name, "Running")
    status = world.devices(name, lambda status: status["ready"] == "1/1")
    assert status["integrationPaths"] == path
    vmi = world.eventually(
        lambda: world.get("virtualmachineinstances", name),
        lambda vmi: "virt-dra.io/pod-retry" not in vmi["metadata"].get("annotations", {}),
    )
    pod = world.launcher_pod(vmi)
    assert not any("pod-retry" in key for key in pod["metadata"]["annotations"])


def test_of_a_vmi_that_has_finished_nothing_is_ready(world: World) -> None:
    world.in_phase("host-device", "Running")
    before = world.devices("host-device", lambda status: status["ready"] == "1/1")
    pod = world.launcher_pod(world.get("virtualmachineinstances", "host-device"))
    path = f"{world.path('pods', pod['metadata']['name'])}/status"
    world.plane.merge(path, {"status": {"phase": "Succeeded"}})
    world.in_phase("host-device", "Succeeded")
    status = world.devices("host-device", lambda status: status["ready"] == "0/1")
    assert status["integrationPaths"] == before["integrationPaths"] == "metadata-shim"
    assert (status["devices"][0]["state"], status["devices"][0]["pciAddress"]) == (
        "Released",
        before["devices"][0]["pciAddress"],
    )
    assert _condition(status, "DevicesResolved") == (
        "False", "VMIFinished", "the VMI has finished (Succeeded) and released its devices; this is their last status",
    )  # fmt: skip


def test_what_others_write_is_put_right(world: World) -> None:
    """KubeVirt undoes a foreign status, we undo a foreign annotation; labels and annotations of others stay."""
    before = world.get("virtualmachineinstances", "native")["metadata"]["annotations"]["virt-dra.io/device-status"]
    forged = {"virt-dra.io/device-status": '{"gpuStatuses":[]}', "example.com/mine": "stays"}
    world.patch(
        "virtualmachineinstances", "native", {"metadata": {"annotations": forged}, "status": {"phase": "Failed"}}
    )

    def annotations() -> dict[str, str]:
        annotations: dict[str, str] = world.get("virtualmachineinstances", "native")["metadata"]["annotations"]
        return annotations

    after = world.eventually(annotations, lambda found: found["virt-dra.io/device-status"] == before)
    assert after["example.com/mine"] == "stays"
    assert json.loads(before)["gpuStatuses"][0]["name"] == "gpu1"
    world.in_phase("native", "Running")


def test_metrics_count_what_is_there(world: World) -> None:
    """Of the operator: devices and paths, and no right that it lacks; of the webhook: reviews."""
    listed = [each["status"] for each in world.all("virtualmachineinstancedevices")]
    resolved = sum(device["state"] == "Resolved" for status in listed for device in status.get("devices", ()))
    shimmed = sum("metadata-shim" in status.get("integrationPaths", "").split(",") for status in listed)
    metrics = world.running.operator.metrics()
    assert (metrics['virt_dra_devices{state="Resolved"}'], metrics['virt_dra_vmis{path="metadata-shim"}']) == (
        resolved,
        shimmed,
    )
    assert metrics["virt_dra_leader"] == 1
    assert metrics["virt_dra_allocation_to_status_seconds_count"] >= 1
    assert not any(
        "failed" in name for name, value in metrics.items() if name.startswith("virt_dra_reconciles_total") and value
    )
    refused = {
        name: value
        for name, value in metrics.items()
        if name.startswith("virt_dra_api_requests_total") and 'code="403"' in name
    }
    assert refused == {}, "a right is missing"
    assert world.running.operator.healthy()
    reviews = {name: value for name, value in world.running.webhook.metrics().items() if "review" in name and value}
    assert reviews


AFTER_EVENTS = (
    "virt_dra_watch_restarts",
    "virt_dra_webhook_failures",
    "virt_dra_webhook_refused_connections",
    "virt_dra_keeper_releases_total",
)
"""Counters whose series begin with the first failure, or release."""
OTHERS = ("virt_dra_driver_", "virt_dra_extender_", "virt_dra_report_")
"""Metrics of processes that don't run here; tests/manifests asks their registries."""


def _stopped_vm_that_keeps_a_device(world: World) -> None:
    """As the keeper leaves it, for its metrics."""
    vm = world.create(
        "virtualmachines",
        {
            "kind": "VirtualMachine",
            "metadata": {"name": "kept"},
            "spec": {
                "runStrategy": "Halted",
                "template": {
                    "metadata": {"annotations": {"virt-dra.io/keep-devices": "true"}},
                    "spec": {
                        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
                        "domain": {"devices": {"gpus": [{"name": "g", "claimName": "gpu", "requestName": "gpu"}]}},
                    },
                },
            },
        },
    )
    owner = {"name": "kept", "uid": vm["metadata"]["uid"]}
    request = {"name": "gpu", "exactly": {"deviceClassName": "kept.example.com"}}
    claim = world.create(
        "resourceclaims",
        {
            "kind": "ResourceClaim",
            "metadata": {
                "name": "kept-gpu",
                "labels": {"virt-dra.io/kept": "true"},
                "ownerReferences": [
                    {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "controller": True, **owner}
                ],
            },
            "spec": {"devices": {"requests": [request]}},
        },
    )
    result = {"request": "gpu", "driver": "kept.example.com", "pool": "p", "device": "d"}
    claim["status"] = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"apiGroup": "kubevirt.io", "resource": "virtualmachines", **owner}],
    }
    world.plane.request("PUT", f"{world.path('resourceclaims', 'kept-gpu')}/status", claim)


@pytest.mark.go
def test_prometheus_answers_every_query_of_the_dashboard_and_evaluates_every_rule(world: World, tmp_path: Path) -> None:
    objects = {obj["kind"]: obj for obj in build(packaged(), MONITORING)}
    panels = json.loads(objects["ConfigMap"]["data"]["dashboard.json"])["panels"]
    queries = [target["expr"].replace("$__rate_interval", "1m") for panel in panels for target in panel["targets"]]
    ports = {name: getattr(world.running, name).plain_port for name in ("operator", "webhook")}
    _stopped_vm_that_keeps_a_device(world)
    with (
        keeper(world.plane, None, "--no-election", "-n", world.namespace) as keeping,
        prometheus(
            tmp_path, ports | {"keeper": keeping.plain_port}, objects["PrometheusRule"]["spec"], world.eventually
        ) as running,
    ):
        # A rate is one of two samples.
        for name in ("virt_dra_leader", "virt_dra_webhook_ready", "virt_dra_keeper_unused_device_seconds_total"):
            counted = partial(running.values, f"min(count_over_time({name}[1h]))")
            world.eventually(counted, lambda counts: counts >= [2])
        unanswered = [query for query in queries if not running.values(query)]
        assert [query for query in unanswered if not any(name in query for name in (*AFTER_EVENTS, *OTHERS))] == []
        assert running.values('virt_dra_leader{job="operator"}') == running.values("sum(virt_dra_webhook_ready)") == [1]
        assert running.values('sum(virt_dra_keeper_devices{state="unused"})') == [1]
        rules = world.eventually(running.rules, lambda rules: all(rule["health"] != "unknown" for rule in rules))
    assert [(rule["name"], rule["health"]) for rule in rules if rule["health"] != "ok"] == []


def test_what_is_told_goes_with_its_vmi(world: World) -> None:
    world.in_phase("metadata-shim", "Running")
    world.delete("virtualmachineinstances", "metadata-shim")
    for plural in ("virtualmachineinstances", "virtualmachineinstancedevices"):
        world.eventually(lambda plural=plural: world.find(plural, "metadata-shim") is None)  # type: ignore[misc] # mypy sees no type for a default
