"""Texts of tenants, drivers and guests stay texts: in JSON, XML, logs, metrics, Events and conditions; and none grows
without end."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree
from prometheus_client.parser import text_string_to_metric_families

from devtools.webhooks.hostile_reviews import TEXTS, hostile_reviews
from devtools.webhooks.serving import serving
from launcher import AddressSources, LauncherError, convert
from tests.controllers.changed_objects import changed
from tests.controllers.listed_sources import ListedSources
from tests.controllers.published_world import BASE, NOW
from tests.controllers.standalone.world import SETTINGS
from tests.sampling import sample
from tests.security.test_namespaces import RECORD
from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.attribute_keys import PCI_ADDRESS
from virt_dra.api.integration.paths import INTEGRATION_ANNOTATION
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.api.wire import Json
from virt_dra.controllers.beside_kubevirt import reconcile as beside_kubevirt
from virt_dra.controllers.devices import inputs as device_inputs
from virt_dra.controllers.events import Event
from virt_dra.controllers.standalone import reconcile as standalone
from virt_dra.controllers.standalone.pod import standalone_pod
from virt_dra.controllers.writes import Create, PatchAnnotations, PatchStatus, Write
from virt_dra.operator.metrics import OperatorMetrics
from webhooks.server.app import ServerLimits
from webhooks.server.log import JsonFormatter

TEXT = st.text(max_size=40) | st.sampled_from([text for text in TEXTS if text]) | st.just("x" * 4_200)
WORLD: Json = {
    **BASE,
    "rules": [
        {
            "metadata": {"name": "r"},
            "spec": {"deviceSelector": {}, "taint": {"key": "k", "value": "v", "effect": "NoExecute"}},
        }
    ],
}
PLACES = (
    "vmi.spec.domain.devices.gpus.0.name",
    "vmi.spec.domain.devices.gpus.0.requestName",
    "vmi.spec.domain.devices.gpus.0.claimName",
    "vmi.spec.networks.0.name",
    "vmi.status.reason",
    "pod.spec.nodeName",
    "pod.spec.resourceClaims.0.name",
    "pod.spec.resourceClaims.0.resourceClaimName",
    "pod.spec.containers.0.resources.claims.0.name",
    "pod.status.reason",
    "pod.status.message",
    "pod.status.resourceClaimStatuses.0.resourceClaimName",
    "pod.status.containerStatuses.0.allocatedResourcesStatus.0.resources.0.message",
    "claims.0.metadata.name",
    "claims.0.status.allocation.devices.results.0.request",
    "claims.0.status.allocation.devices.results.0.driver",
    "claims.0.status.allocation.devices.results.0.pool",
    "claims.0.status.allocation.devices.results.0.device",
    "claims.0.status.reservedFor.0.name",
    "slices.0.spec.driver",
    "slices.0.spec.pool.name",
    "slices.0.spec.devices.0.name",
    "slices.0.spec.devices.0.attributes.model",
    "slices.0.spec.devices.0.attributes.address",
    "rules.0.spec.taint.value",
    "rules.0.spec.taint.key",
)
"""Where somebody else's text stands in what an operator reads."""
HEALTH: Json = {
    "name": "compute",
    "allocatedResourcesStatus": [
        {"name": "claim:gpus/gpu", "resources": [{"resourceID": "x", "health": "Unhealthy", "message": "m"}]}
    ],
}
REASON = re.compile("[A-Z][A-Za-z]{1,60}")
LONGEST = 4096


def hostile_world(texts: dict[str, str], phase: str) -> ListedSources:
    """The base with texts in their places; attributes take them as their values, under keys that have them too."""
    changes: dict[str, Any] = {
        "pod.metadata.annotations": {INTEGRATION_ANNOTATION: json.dumps(RECORD)},
        "pod.status.containerStatuses": [HEALTH],
        "vmi.spec.networks": [{"name": "n", "resourceClaim": {"claimName": "gpus", "requestName": "gpu"}}],
        "vmi.spec.domain.devices.interfaces": [{"name": "n", "sriov": {}}],
        "vmi.status.phase": phase,
    }
    for place, text in texts.items():
        if place.endswith("model"):
            changes["slices.0.spec.devices.0.attributes"] = {
                "resource.kubernetes.io/pciBusID": {"string": "0000:01:00.0"}, text: {"string": text},
                "list": {"strings": [text]},
            }  # fmt: skip
        elif place.endswith("address"):
            changes["slices.0.spec.devices.0.attributes"] = {"resource.kubernetes.io/pciBusID": {"string": text}}
        else:
            changes[place] = text
    raw = changed(WORLD, changes)
    return ListedSources(
        [VirtualMachineInstance.from_wire(raw["vmi"])],
        [Pod.from_wire(raw["pod"])],
        [ResourceClaim.from_wire(claim) for claim in raw["claims"]],
        [ResourceSlice.from_wire(slice_) for slice_ in raw["slices"]],
        [DeviceTaintRule.from_wire(rule) for rule in raw["rules"]],
    )


def messages_in(value: object) -> Iterable[str]:
    """Every ``message`` and ``reason`` of what is written."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("message", "reason") and isinstance(inner, str):
                yield inner
            else:
                yield from messages_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from messages_in(inner)


def check_write(write: Write) -> None:
    if isinstance(write, PatchAnnotations):
        for key, value in write.annotations.items():
            assert re.fullmatch(r"([a-z]+\.)?virt-dra\.io/[A-Za-z0-9_.-]{1,63}", key)
            if value is not None:
                read = json.loads(value)
                assert json.dumps(read, separators=(",", ":"), sort_keys=True) == value, (
                    "nothing but JSON as we write it"
                )
                check_file(read)
    elif isinstance(write, PatchStatus):
        assert all(len(message) <= LONGEST for message in messages_in(write.changes))
    elif isinstance(write, Create) and isinstance(write.obj, VirtualMachineInstanceDevices):
        assert all(len(message) <= LONGEST for message in messages_in(write.obj.to_wire()))
        for device in write.obj.status.devices:
            assert device.pci_address is None or PCI_ADDRESS.fullmatch(device.pci_address)
            assert device.state == "Resolved" or (device.reason is not None and REASON.fullmatch(device.reason))


def check_file(read: Json) -> None:
    """A metadata file, or a deviceStatus: our members and no others."""
    if "requests" not in read:
        assert read.keys() <= {"gpuStatuses", "hostDeviceStatuses"}
        return
    assert read.keys() <= {"kind", "apiVersion", "metadata", "requests", "podClaimName"}
    (request,) = read["requests"]
    (device,) = request["devices"]
    assert request.keys() == {"name", "devices"}
    assert device.keys() == {"driver", "pool", "name", "attributes"}
    assert PCI_ADDRESS.fullmatch(device["attributes"]["resource.kubernetes.io/pciBusID"]["string"])


def check_event(event: Event) -> None:
    assert REASON.fullmatch(event.reason)
    assert len(event.message) <= 1024
    assert (event.kind, event.namespace, event.name) == ("VirtualMachineInstance", "lab", "fedora")


@given(
    st.dictionaries(st.sampled_from(PLACES), TEXT, min_size=1, max_size=3), st.sampled_from(["Scheduled", "Running"])
)
@settings(max_examples=sample(250), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_stands_in_objects_is_written_as_bounded_data(texts: dict[str, str], phase: str) -> None:
    sources = hostile_world(texts, phase)
    inputs = device_inputs.gather(sources, "lab/fedora", NOW)
    own = standalone.gather(sources, "lab/fedora", NOW, SETTINGS)
    assert inputs is not None
    assert own is not None
    beside, alone = beside_kubevirt.plan(inputs), standalone.plan(own)
    for write in (*beside.first, *beside.then, *alone.first, *alone.then):
        check_write(write)
    for event in (*beside.events, *alone.events):
        check_event(event)


def test_many_devices_with_long_names_make_no_long_message() -> None:
    gpus = [{"name": f"{number}" * 500, "claimName": "c" * 500, "requestName": "r" * 500} for number in range(200)]
    raw = changed(BASE, {"vmi.spec.domain.devices.gpus": gpus})
    sources = ListedSources([VirtualMachineInstance.from_wire(raw["vmi"])], [Pod.from_wire(raw["pod"])])
    inputs, own = (
        device_inputs.gather(sources, "lab/fedora", NOW),
        standalone.gather(sources, "lab/fedora", NOW, SETTINGS),
    )
    assert inputs is not None
    assert own is not None
    for write in (*beside_kubevirt.plan(inputs).then, *standalone.plan(own).then):
        check_write(write)


def shape(xml: str) -> list[tuple[str, tuple[str, ...]]]:
    """Elements and their attributes' names, in document order."""
    return [
        (str(element.tag), tuple(sorted(map(str, element.attrib)))) for element in etree.fromstring(xml.encode()).iter()
    ]


def domain_of(name: str, device: str, network: str) -> str:
    attributes = {"pciAddress": "0000:01:00.0"}
    file = {
        "apiVersion": "metadata.resource.k8s.io/v1alpha1",
        "requests": [
            {"name": "vf", "devices": [{"attributes": {"resource.kubernetes.io/pciBusID": {"string": "0000:3b:02.1"}}}]}
        ],
    }
    vmi = {
        "metadata": {"name": name, "namespace": "lab", "annotations": {"note": device}},
        "spec": {
            "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
            "networks": [{"name": network, "resourceClaim": {"claimName": "c", "requestName": "vf"}}],
            "domain": {
                "devices": {
                    "gpus": [{"name": device, "claimName": "c", "requestName": "r"}],
                    "interfaces": [{"name": network, "sriov": {}}],
                }
            },
        },
        "status": {
            "deviceStatus": {"gpuStatuses": [{"name": device, "deviceResourceClaimStatus": {"attributes": attributes}}]}
        },
    }
    path = "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/c/vf/d-metadata.json"
    return convert(vmi, AddressSources(files={path: json.dumps(file)})).domain_xml


PLAIN = shape(domain_of("fedora", "g", "n"))


@given(TEXT, TEXT, TEXT)
@settings(max_examples=sample(150), deadline=None)
def test_no_name_makes_an_element_or_an_attribute_of_the_domain(name: str, device: str, network: str) -> None:
    try:
        made = domain_of(name, device, network)
    except LauncherError:
        return
    # An alias of characters that libvirt drops isn't written (K-7.17).
    assert Counter(shape(made)) <= Counter(PLAIN), "no element or attribute that isn't there with plain names"


@given(TEXT, st.dictionaries(TEXT, TEXT | st.integers() | st.none(), max_size=4), TEXT)
@settings(deadline=None)
def test_a_line_of_the_log_is_one_object_with_our_members(message: str, fields: dict[str, Any], fault: str) -> None:
    record = logging.LogRecord("virt_dra", logging.WARNING, __file__, 1, "%s", (message,), None)
    record.__dict__["fields"] = fields
    try:
        raise ValueError(fault)
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert line.isascii()
    read = json.loads(line)
    assert (read["level"], read["logger"]) == ("warning", "virt_dra"), "no field takes the place of ours"
    assert all(len(value) <= 512 for value in read.values() if isinstance(value, str))


LABELS: dict[str, frozenset[str]] = {
    "webhook": frozenset({"vmi", "vm", "launcher-pod"}),
    "operation": frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"}),
    "allowed": frozenset({"true", "false"}),
    "result": frozenset({"loaded", "failed"}),
    "reason": frozenset({"too-many", "too-slow"}),
    "verified": frozenset({"true", "false"}),
    "mode": frozenset({"refuse", "limit", "tell"}),
}


async def test_hostile_reviews_make_no_label_of_a_metric(tmp_path: Path) -> None:
    async def life() -> str:
        async with serving(tmp_path, limits=ServerLimits(seconds=30)) as served:
            for hostile in islice(hostile_reviews(7), 150):
                await served.ask(hostile.body, hostile.path)
            for path in ("/evil", "/validate-vmi/evil", '/validate-vmi"} 1'):
                await served.ask(b"{}", path)
            return served.server.metrics.exposition().decode()

    families = list(text_string_to_metric_families(await life()))
    seen = {
        (label, value) for family in families for sample in family.samples for label, value in sample.labels.items()
    }
    assert {label for label, _ in seen} > {"webhook", "operation", "allowed", "code"}
    for label, value in seen:
        if label in ("code", "le"):
            float(value)
        else:
            assert value in LABELS[label], f"{label}={value}"


def test_the_operators_metrics_have_labels_that_are_ours_only() -> None:
    exposed = list(text_string_to_metric_families(OperatorMetrics().exposition().decode()))
    names = {label for family in exposed for sample in family.samples for label in sample.labels}
    assert not names & {"namespace", "name", "vmi", "pod", "claim", "device", "driver", "pool", "node", "message"}


def test_what_would_take_back_the_pods_confinement_does_not_reach_it() -> None:
    loosening = {
        "container.apparmor.security.beta.kubernetes.io/compute": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/compute": "unconfined",
        "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
    }
    spec = {
        "schedulerName": "mine", "priorityClassName": "system-node-critical", "serviceAccountName": "admin",
        "hostNetwork": True,
        "volumes": [{"name": "root", "hostDisk": {"path": "/"}},
            {"name": "token", "serviceAccount": {"serviceAccountName": "admin"}}],
    }  # fmt: skip
    wire = {
        "metadata": {"name": "v", "namespace": "lab", "uid": "u", "annotations": {**loosening, "mine": "1"}},
        "spec": spec,
    }
    pod = standalone_pod(VirtualMachineInstance.from_wire(wire), SETTINGS.gates, SETTINGS.pods)
    assert isinstance(pod, Pod)
    assert sorted(pod.metadata.annotations) == [
        "kubectl.kubernetes.io/default-container", "kubevirt.io/domain", "kubevirt.io/memory-overhead-bytes", "mine",
        "virt-dra.io/vmi",
    ]  # fmt: skip
    raw = pod.to_wire()["spec"]
    assert raw.keys() == {
        "automountServiceAccountToken", "containers", "enableServiceLinks", "hostname", "nodeSelector", "restartPolicy",
        "securityContext", "terminationGracePeriodSeconds", "volumes",
    }  # fmt: skip
    assert (raw["automountServiceAccountToken"], raw["enableServiceLinks"], raw["nodeSelector"]) == (False, False, {})
    assert [volume["name"] for volume in raw["volumes"]] == ["virt-dra-info", "virt-dra-run"]
    assert [container["name"] for container in raw["containers"]] == ["compute"]


@given(TEXT | st.just("\x1b[2J" * 2_000))
@settings(max_examples=sample(60), deadline=None)
def test_what_a_guest_makes_of_its_launcher_is_a_bounded_text_about_its_own_vmi(message: str) -> None:
    raw = changed(BASE, {
        "vmi.status.phase": "Running",
        "pod.status.phase": "Failed",
        "pod.status.containerStatuses": [{"name": "compute",
            "state": {"terminated": {"exitCode": 1, "message": message}}}],
    })  # fmt: skip
    inputs = standalone.gather(
        ListedSources([VirtualMachineInstance.from_wire(raw["vmi"])], [Pod.from_wire(raw["pod"])]),
        "lab/fedora",
        NOW,
        SETTINGS,
    )
    assert inputs is not None
    plan = standalone.plan(inputs)
    assert plan.first == ()
    (write,) = plan.then
    assert isinstance(write, PatchStatus)
    assert write.changes.keys() <= {"phase", "reason", "conditions", "phaseTransitionTimestamps"}
    assert (write.obj.key, write.changes["phase"]) == ("lab/fedora", "Failed")
    check_write(write)
    for event in plan.events:
        check_event(event)
