"""The tests' own KubeVirt, on the embedded cluster and on a real API server with webhooks and pruning schemas."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from devtools.agents.kubevirt import VM_FINALIZER, FakeKubeVirt
from devtools.agents.kubevirt_admission import FINALIZER, KubeVirtAdmission, patch_between
from devtools.agents.kubevirt_installation import kubevirt_installed
from devtools.agents.kubevirt_webhooks import EmbeddedBesideKubeVirt
from devtools.agents.worlds import embedded_world, eventually, real_world
from devtools.cluster.control_plane import ControlPlane
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import GPUS_WITH_DRA, HOST_DEVICES, HOST_DEVICES_WITH_DRA, Gates, KubeVirtVersion
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaimTemplate
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import Cluster, Invalid, NotFound
from virt_dra.simulator.agents.driver import Driver
from virt_dra.simulator.agents.hardware import HardwarePool, mdev_devices, pci_devices
from virt_dra.simulator.agents.kubelet import Kubelet

V1_9 = KubeVirtVersion.parse("1.9.0")


def gates_of(version: str) -> Gates:
    return Gates.for_version(
        KubeVirtVersion.parse(version), dict.fromkeys((GPUS_WITH_DRA, HOST_DEVICES_WITH_DRA, HOST_DEVICES), True)
    )


@dataclass
class Beside:
    """``cluster``: as somebody beside KubeVirt sees it; ``own``: as KubeVirt does."""

    cluster: Cluster
    own: Cluster
    namespace: str
    kubevirt: FakeKubeVirt
    driver: Driver

    async def vmi(self, name: str = "vm") -> VirtualMachineInstance:
        return await self.cluster.get(VirtualMachineInstance, name, self.namespace)

    async def in_phase(self, phase: str, name: str = "vm") -> VirtualMachineInstance:
        return await eventually(lambda: self.vmi(name), lambda vmi: vmi.status.phase == phase)


Start = Callable[[str, Path], AbstractAsyncContextManager[Beside]]


@pytest.fixture(params=["memory", pytest.param("kube", marks=pytest.mark.control_plane)])
def start(request: pytest.FixtureRequest) -> Start:
    control_plane: ControlPlane | None = request.getfixturevalue("control_plane") if request.param == "kube" else None
    return lambda version, folder: beside(control_plane, version, folder)


@asynccontextmanager
async def beside(control_plane: ControlPlane | None, version: str, folder: Path) -> AsyncIterator[Beside]:
    """KubeVirt runs, and a node has three PCI devices and one mdev of a driver that writes metadata files."""
    gates = gates_of(version)
    async with AsyncExitStack() as stack:
        if control_plane is None:
            memory, namespace = await stack.enter_async_context(embedded_world())
            assert isinstance(memory, MemoryCluster)
            cluster: Cluster = EmbeddedBesideKubeVirt(memory, KubeVirtAdmission(gates))
            own: Cluster = EmbeddedBesideKubeVirt(memory, KubeVirtAdmission(gates), KubeVirtAdmission(gates).account())
        else:
            cluster, namespace = await stack.enter_async_context(real_world(control_plane))
            own = await stack.enter_async_context(kubevirt_installed(control_plane, gates))
        node, name = f"node-{namespace}", f"{namespace}.example.com"
        driver = Driver(cluster, (HardwarePool(name, node, (*pci_devices(3), *mdev_devices(1)), node=node),))
        kubelet = Kubelet(cluster, (node,), (driver,), folder)
        await cluster.create(
            DeviceClass.from_wire(
                selecting(name, f'device.driver == "{name}" && device.attributes["{name}"].?mdevUUID')
            )
        )
        stack.push_async_callback(cluster.delete, DeviceClass, name)
        await kubelet.register()
        stack.push_async_callback(kubelet.unregister)
        await driver.publish()
        stack.push_async_callback(driver.withdraw)
        await stack.enter_async_context(kubelet.running())
        kubevirt = FakeKubeVirt(own, kubelet, gates)
        await stack.enter_async_context(kubevirt.running())
        for template, expression in (("pci", "!has"), ("mdev", "has")):
            selector = {"cel": {"expression": f'{expression}(device.attributes["{name}"].mdevUUID)'}}
            request = {"name": "gpu", "exactly": {"deviceClassName": name, "selectors": [selector]}}
            metadata = {"name": template, "namespace": namespace}
            wire = {"metadata": metadata, "spec": {"spec": {"devices": {"requests": [request]}}}}
            await cluster.create(ResourceClaimTemplate.from_wire(wire))
        yield Beside(cluster, own, namespace, kubevirt, driver)


def selecting(name: str, expression: str) -> Json:
    driver = expression.partition(" && ")[0]
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": driver}}]}}


def vmi(namespace: str, name: str = "vm", template: str = "pci", **changes: object) -> Json:
    gpu = {"name": "gpu1", "claimName": "gpu", "requestName": "gpu"}
    return {
        "metadata": {"name": name, "namespace": namespace, "annotations": {"example.com/kept": "yes"}},
        "spec": {
            "domain": {"devices": {"gpus": [gpu]}},
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
        },
        **changes,
    }


def machine(namespace: str, **spec: object) -> VirtualMachine:
    template = vmi(namespace)
    del template["metadata"]
    wire = {
        "metadata": {"name": "vm", "namespace": namespace},
        "spec": {"runStrategy": "Always", "template": template, **spec},
    }
    return VirtualMachine.from_wire(wire)


async def test_vms_get_their_devices_from_the_drivers_metadata_files(start: Start, tmp_path: Path) -> None:
    async with start("1.9.0", tmp_path) as here:
        node = f"node-{here.namespace}"
        for name, element in (("pci", '<address domain="0x0000"'), ("mdev", '<address uuid="')):
            wanted = VirtualMachineInstance.from_wire(vmi(here.namespace, name, template=name))
            await here.cluster.create(wanted)
            running = await here.in_phase("Running", name)
            stamps = [stamp["phase"] for stamp in (running.status.model_extra or {})["phaseTransitionTimestamps"]]
            assert (running.status.node_name, stamps[0], stamps[-1]) == (node, "Pending", "Running")
            assert element in here.kubevirt.domains[here.namespace, name].domain_xml
            pods = (
                await here.cluster.list(Pod, here.namespace, labels=f"kubevirt.io/created-by={running.metadata.uid}")
            ).items
            assert [pod.metadata.annotations["example.com/kept"] for pod in pods] == ["yes"]
            assert running.status.active_pods == {pods[0].metadata.uid: node}
        for name in ("pci", "mdev"):
            await here.cluster.delete(VirtualMachineInstance, name, here.namespace)
        await eventually(lambda: all_gone(here))


async def all_gone(here: Beside) -> bool:
    vmis = await here.cluster.list(VirtualMachineInstance, here.namespace)
    return not vmis.items and not (await here.cluster.list(Pod, here.namespace)).items


async def test_1_8_0_does_not_find_what_drivers_write_and_keeps_trying(start: Start, tmp_path: Path) -> None:
    async with start("1.8.0", tmp_path) as here:
        await here.cluster.create(VirtualMachineInstance.from_wire(vmi(here.namespace)))
        await here.in_phase("Scheduled")
        await eventually(lambda: tries(here), lambda count: count > 2)
        told = [c for c in (await here.vmi()).status.conditions if c["type"] == "Synchronized"]
        assert [(c["status"], c["reason"]) for c in told] == [("False", "Synchronizing with the Domain failed.")]
        failure = (
            "failed to create DRA GPU host-devices: GPU gpu1 has no mdevUUID or "
            "pciBusID in metadata for claim gpu request gpu"
        )
        assert told[0]["message"] == f'server error. command SyncVMI failed: "{failure}"'


async def tries(here: Beside) -> int:
    return here.kubevirt.syncs.get((here.namespace, "vm"), 0)


def is_ready(vmi: VirtualMachineInstance) -> bool:
    return any((condition["type"], condition["status"]) == ("Ready", "True") for condition in vmi.status.conditions)


async def test_what_outsiders_write(start: Start, tmp_path: Path) -> None:
    """K-9.2 to K-9.6, K-1.9, K-2."""

    async with start("1.9.0", tmp_path) as here:
        given = vmi(
            here.namespace,
            status={"phase": "Running", "reason": "kept", "deviceStatus": {"gpuStatuses": [{"name": "gpu1"}]}},
        )
        given["spec"]["domain"]["devices"]["gpus"][0]["color"] = "red"
        given["spec"]["domain"]["clock"] = {"anything": 1}
        made = await here.cluster.create(VirtualMachineInstance.from_wire(given))
        assert (made.status.phase, made.status.reason, made.status.device_status) == ("Pending", "kept", None)
        assert FINALIZER in made.metadata.finalizers
        assert made.metadata.annotations["kubevirt.io/pci-topology-version"] == "v3"
        wire = made.to_wire()
        assert "color" not in wire["spec"]["domain"]["devices"]["gpus"][0]
        assert wire["spec"]["domain"]["clock"] == {"anything": 1}
        running = await eventually(
            here.vmi, is_ready
        )  # KubeVirt's last word, so that what follows differs by nobody else's

        for status in ({"phase": "Failed"}, {"deviceStatus": {"gpuStatuses": [{"name": "gpu1"}]}, "conditions": []}):
            changed = await patched(here.cluster, here.namespace, {"status": status})
            assert changed.status == running.status
        changed = await patched(
            here.cluster, here.namespace, {"metadata": {"annotations": {"virt-dra.io/device-status": "{}"}}}
        )
        assert changed.metadata.annotations["virt-dra.io/device-status"] == "{}"
        for merge, message in (
            ({"spec": {"hostname": "other"}}, "update of VMI object is restricted"),
            (
                {"metadata": {"labels": {"kubevirt.io/nodeName": "elsewhere"}}},
                "modification of the following reserved kubevirt.io/ labels on a VMI object is prohibited",
            ),
        ):
            with pytest.raises(Invalid) as refused:
                await patched(here.cluster, here.namespace, merge)
            name = "virtualmachineinstances-update-validator.kubevirt.io"
            assert str(refused.value) == f'admission webhook "{name}" denied the request: {message}'
            assert [cause.reason for cause in refused.value.causes] == ["FieldValueNotSupported"]
        with pytest.raises(NotFound):
            await here.cluster.patch(
                VirtualMachineInstance,
                "vm",
                here.namespace,
                merge={"status": {"phase": "Failed"}},
                subresource="status",
            )
        written = await patched(here.own, here.namespace, {"status": {"reason": "KubeVirt's own"}})
        assert written.status.reason == "KubeVirt's own"
        await bad_ones_are_denied(here)


async def patched(cluster: Cluster, namespace: str, merge: Json) -> VirtualMachineInstance:
    return await cluster.patch(VirtualMachineInstance, "vm", namespace, merge=merge)


async def bad_ones_are_denied(here: Beside) -> None:
    """VMIs and VMs, in KubeVirt's words."""
    bad = vmi(here.namespace, "bad")
    del bad["spec"]["resourceClaims"]
    message = (
        "vmi.spec.resourceClaims must specify all claims used in vmi.spec.domain.devices.gpus "
        "and vmi.spec.domain.devices.hostDevices"
    )
    with pytest.raises(Invalid) as refused:
        await here.cluster.create(VirtualMachineInstance.from_wire(bad))
    name = "virtualmachineinstances-create-validator.kubevirt.io"
    assert str(refused.value) == f'admission webhook "{name}" denied the request: {message}'
    assert [(cause.field, cause.message) for cause in refused.value.causes] == [("spec.resourceClaims", message)]
    vm = machine(here.namespace)
    template = vm.spec.template.with_(spec=VirtualMachineInstance.from_wire(bad).spec)
    with pytest.raises(Invalid) as denied:
        await here.cluster.create(vm.with_(spec=vm.spec.with_(template=template)))
    assert (
        str(denied.value) == f'admission webhook "virtualmachine-validator.kubevirt.io" denied the request: {message}'
    )


async def test_a_vm_has_a_vmi_as_long_as_it_is_to_run(start: Start, tmp_path: Path) -> None:
    async with start("1.9.0", tmp_path) as here:
        await here.cluster.create(machine(here.namespace))
        first = await here.in_phase("Running")
        (pod,) = (await here.cluster.list(Pod, here.namespace)).items
        await here.cluster.delete(Pod, pod.name, pod.namespace)
        second = await eventually(
            here.vmi, lambda vmi: vmi.metadata.uid != first.metadata.uid and vmi.status.phase == "Running"
        )
        assert second.metadata.controller_owner == first.metadata.controller_owner
        await here.cluster.patch(VirtualMachine, "vm", here.namespace, merge={"spec": {"runStrategy": "Halted"}})
        await eventually(lambda: all_gone(here))
        await here.cluster.patch(VirtualMachine, "vm", here.namespace, merge={"spec": {"runStrategy": "Always"}})
        await here.in_phase("Running")
        await here.cluster.delete(VirtualMachine, "vm", here.namespace)
        await eventually(lambda: all_gone(here))


async def test_a_deleted_vm_goes_after_its_vmi(start: Start, tmp_path: Path) -> None:
    """By KubeVirt's own hand (K-12.11): the garbage collector isn't waited for."""
    async with start("1.9.0", tmp_path) as here:
        await here.cluster.create(machine(here.namespace))
        vmi = await here.in_phase("Running")
        held = {"metadata": {"finalizers": [*vmi.metadata.finalizers, "tests.example.com/held"]}}
        await here.own.patch(VirtualMachineInstance, "vm", here.namespace, merge=held)
        await here.cluster.delete(VirtualMachine, "vm", here.namespace)
        vmi = await eventually(here.vmi, lambda vmi: vmi.metadata.finalizers == ("tests.example.com/held",))
        vm = await here.cluster.get(VirtualMachine, "vm", here.namespace)
        assert vmi.metadata.deletion_timestamp is not None
        assert vm.metadata.deletion_timestamp is not None
        assert vm.metadata.finalizers == (VM_FINALIZER,)
        await here.own.patch(VirtualMachineInstance, "vm", here.namespace, merge={"metadata": {"finalizers": []}})
        await eventually(lambda: all_gone(here))
        await eventually(lambda: here.cluster.list(VirtualMachine, here.namespace), lambda left: left.items == ())


# --- the pure parts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "account", ["kubevirt-apiserver", "kubevirt-controller", "kubevirt-handler", "kubevirt-synchronization-controller"]
)
def test_kubevirts_own_accounts_write_status(account: str) -> None:
    admission = KubeVirtAdmission(Gates.for_version(V1_9))
    user = f"system:serviceaccount:kubevirt:{account}"
    new, old = {"status": {"phase": "Running"}}, {"status": {"phase": "Scheduled"}}
    assert admission.mutated("UPDATE", user, new, old, "") == new
    for outsider in (
        "system:serviceaccount:kubevirt:kubevirt-operator",
        f"system:serviceaccount:other:{account}",
        "kubernetes-admin",
    ):
        assert admission.mutated("UPDATE", outsider, new, old, "") == old
        assert admission.mutated("UPDATE", outsider, new, {}, "") == {}


@pytest.mark.parametrize("version", ["1.7.4", "1.8.4", "1.9.0", "main"])
def test_a_mutator_writes_empty_names(version: str) -> None:
    kubevirt = KubeVirtAdmission(Gates.for_version(KubeVirtVersion.parse(version)))
    devices = {"gpus": [{"deviceName": "example.com/gpu"}]}
    spec = {"resourceClaims": [{"resourceClaimTemplateName": "t"}], "domain": {"devices": devices}}
    vmi = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "v"}, "spec": spec}
    written = kubevirt.mutated("CREATE", "someone", vmi, None, "2026-01-01T00:00:00Z")["spec"]
    assert written["domain"]["devices"]["gpus"] == [{"name": "", "deviceName": "example.com/gpu"}]
    assert written["resourceClaims"] == [{"name": "", "resourceClaimTemplateName": "t"}]


def test_a_patch_is_what_has_changed() -> None:
    before = {"metadata": {"finalizers": ["a"]}, "status": {"x": 1}}
    after = {"metadata": {"finalizers": ["a", "b"], "annotations": {"k": "v"}}}
    assert patch_between(before, after) == (
        {"op": "add", "path": "/metadata/finalizers", "value": ["a", "b"]},
        {"op": "add", "path": "/metadata/annotations", "value": {"k": "v"}},
        {"op": "remove", "path": "/status"},
    )
    assert patch_between(after, after) == ()
