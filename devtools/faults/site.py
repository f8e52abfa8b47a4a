"""A cluster with one of our overlays and agents, whose operator is the scenario's to start and to end."""

from __future__ import annotations

import asyncio
import http.client
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from devtools.agents.kubevirt import FakeKubeVirt
from devtools.agents.kubevirt_installation import kubevirt_installed
from devtools.cluster import processes
from devtools.cluster.control_plane import ControlPlane, RequestError
from devtools.cluster.processes import Component
from devtools.deployed.overlay import Installed, installed
from devtools.deployed.worlds import Background
from devtools.faults.ledger import Audit, Ledger
from virt_dra.api.integration.standalone import DEVICE_STATUS_FILE, INFO_DIRECTORY, READY_FILE, RUN_DIRECTORY
from virt_dra.api.kubevirt_versions import GPUS_WITH_DRA, HOST_DEVICES, HOST_DEVICES_WITH_DRA, Gates, KubeVirtVersion
from virt_dra.cluster.kube.cluster import connect
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.installation.plan import BESIDE_KUBEVIRT, Overlay
from virt_dra.simulator.agents.containers import RunningContainer
from virt_dra.simulator.agents.driver import Driver
from virt_dra.simulator.agents.hardware import HardwarePool, pci_devices
from virt_dra.simulator.agents.kubelet import Kubelet

Json = dict[str, Any]
T = TypeVar("T")

DRIVER: Final = "gpu.example.com"
"""Writes no metadata files: the path is metadata-shim."""
CLASS: Final = "faults"
PATIENCE: Final = 120.0
IDENTITY: Final = "virt-dra-operator-0"
"""Of a pod whose container is started anew: it need not wait for its own Lease."""
_POLL: Final = 0.1


@dataclass
class Site:
    """``started``: how often each pod's launcher was started standalone, by VMI. Methods may be called from any one
    thread."""

    plane: ControlPlane
    background: Background
    namespace: str
    overlay: Overlay
    running: Installed
    account: Path
    kubelet: Kubelet
    ledger: Ledger
    audit_log: Path
    kubevirt: FakeKubeVirt | None
    started: dict[str, list[str]] = field(default_factory=dict)
    vms: list[str] = field(default_factory=list)
    named: Counter[str] = field(default_factory=Counter)
    """How often a scenario named its VMs with a prefix."""
    patience: float = PATIENCE
    """Seconds for an API server to answer a user who tries again and again."""

    def names(self, prefix: str, count: int) -> list[str]:
        """New ones each time, so that a scenario can be repeated."""
        self.named[prefix] += 1
        return [f"{prefix}-{self.named[prefix]}-{number:03d}" for number in range(count)]

    # --- components ---

    def operator(
        self, *options: str, kubeconfig: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> Component:
        """One with the rights of its ServiceAccount. Use it as a context manager."""
        own = (*self.running.arguments("operator")[1:], "--own-namespace", "virt-dra", "--log-level", "info")
        return processes.operator(self.plane, kubeconfig or self.account, *own, *options, environment=environment)

    def keeper(self, *options: str, environment: Mapping[str, str] | None = None) -> Component:
        """One with the rights of its ServiceAccount, where ``--keeper`` is among the options of the installation."""
        account = self.plane.kubeconfig_of_service_account("virt-dra", "virt-dra-keeper")
        own = (*self.running.arguments("keeper")[1:], "--own-namespace", "virt-dra")
        return processes.keeper(self.plane, account, *own, *options, environment=environment)

    def audit(self) -> Audit:
        return Audit.from_now(self.audit_log)

    # --- VMs ---

    def create(self, name: str) -> None:
        """A VM with one device, tried until it is there, as a user would in an outage. Standalone a VirtualMachine,
        else a VMI."""
        gpus = [{"name": "gpu1", "claimName": "gpu", "requestName": "gpu"}]
        entry = {"name": "gpu", "resourceClaimTemplateName": "gpu"}
        spec: Json = {"resourceClaims": [entry], "domain": {"memory": {"guest": "1Gi"}, "devices": {"gpus": gpus}}}
        head: Json = {"apiVersion": "kubevirt.io/v1", "metadata": {"name": name}}
        if self.overlay == BESIDE_KUBEVIRT:
            path, body = "virtualmachineinstances", {**head, "kind": "VirtualMachineInstance", "spec": spec}
        else:
            template = {"metadata": {"labels": {"example.com/vm": name}}, "spec": spec}
            path = "virtualmachines"
            body = {**head, "kind": "VirtualMachine", "spec": {"runStrategy": "Always", "template": template}}
        self.persistently(lambda: self.plane.request("POST", self.path(path), body), there_is_fine=True)
        self.vms.append(name)

    def path(self, plural: str) -> str:
        group = "/apis/virt-dra.io/v1alpha1" if plural.endswith("devices") else "/apis/kubevirt.io/v1"
        return f"{'/api/v1' if plural in ('pods', 'events') else group}/namespaces/{self.namespace}/{plural}"

    def list(self, plural: str) -> dict[str, Json]:
        """By name."""
        listed = self.persistently(lambda: self.plane.request("GET", self.path(plural)))
        return {item["metadata"]["name"]: item for item in listed["items"]}

    def persistently(self, ask: Callable[[], Json], *, there_is_fine: bool = False) -> Json:
        """An answer, whatever outage there is meanwhile."""
        end = time.monotonic() + self.patience
        while True:
            try:
                return ask()
            except RequestError as error:
                if error.status == 409 and there_is_fine:
                    return {}
                if error.status < 500 and error.status != 429:
                    raise
                problem: Exception = error
            except (OSError, http.client.HTTPException) as error:
                problem = error
            if time.monotonic() > end:
                raise AssertionError(f"the API server doesn't answer: {problem}")
            time.sleep(_POLL)

    # --- what is to come of them ---

    def missing(self, names: Iterable[str]) -> dict[str, str]:
        """What each VM still lacks."""
        vmis = self.list("virtualmachineinstances")
        devices = self.list("virtualmachineinstancedevices") if self.overlay == BESIDE_KUBEVIRT else {}
        lacking = {}
        for name in names:
            phase = vmis.get(name, {}).get("status", {}).get("phase")
            if phase != "Running":
                lacking[name] = f"phase {phase}"
            elif self.overlay == BESIDE_KUBEVIRT and devices.get(name, {}).get("status", {}).get("ready") != "1/1":
                lacking[name] = f"devices {devices.get(name, {}).get('status')}"
            elif self.address(vmis[name]) is None:
                lacking[name] = "no address"
        return lacking

    def address(self, vmi: Json) -> str | None:
        """As it is published on the VMI: beside KubeVirt in our annotation, standalone in its status."""
        if self.overlay == BESIDE_KUBEVIRT:
            text: str = vmi["metadata"].get("annotations", {}).get("virt-dra.io/device-status", "")
            return text.partition('"pciAddress":"')[2].partition('"')[0] or None
        statuses = vmi["status"].get("deviceStatus", {}).get("gpuStatuses", [])
        address: str | None = (
            statuses[0]["deviceResourceClaimStatus"]["attributes"].get("pciAddress") if statuses else None
        )
        return address

    def until_all_run(
        self, names: Iterable[str], tend: Callable[[], None] = lambda: None, seconds: float = PATIENCE
    ) -> float:
        """Seconds until every VM runs with its device published. ``tend`` is called meanwhile."""
        began, wanted = time.monotonic(), list(names)
        while lacking := self.missing(wanted):
            tend()
            if time.monotonic() - began > seconds:
                raise AssertionError(
                    f"{len(lacking)} of {len(wanted)} VMs don't run after {seconds:.0f} "
                    f"s: {dict(list(lacking.items())[:5])}"
                )
            time.sleep(_POLL)
        return time.monotonic() - began

    def verify(self, names: Iterable[str]) -> None:
        """Of every VM one of each object was ever made, nothing was taken back, and each has a device of its own, which
        is its domain's."""
        wanted = set(names)
        kinds = [
            "VirtualMachineInstance",
            "Pod",
            *(["VirtualMachineInstanceDevices"] if self.overlay == BESIDE_KUBEVIRT else []),
        ]
        for kind in kinds:
            numbers = self.ledger.of_kind(kind)
            assert {name: numbers.get(name) for name in wanted} == dict.fromkeys(wanted, 1), kind
        pods = self.list("pods")
        owners = {name: pod["metadata"]["ownerReferences"][0]["name"] for name, pod in pods.items()}
        claims = self.ledger.of_kind("ResourceClaim")
        assert {owners[pod]: claims.get(pod) for pod in pods if owners[pod] in wanted} == dict.fromkeys(wanted, 1)
        assert self.ledger.taken_back == [], self.ledger.taken_back[:5]
        # WriteRefused counts refusals, of which an API server that starts may make several.
        events = self.ledger.events().items()
        twice = {
            (vm, reason): count
            for (vm, reason), count in events
            if vm in wanted and count > 1 and reason != "WriteRefused"
        }
        assert twice == {}, twice
        addresses = {
            name: self.address(vmi) for name, vmi in self.list("virtualmachineinstances").items() if name in wanted
        }
        assert None not in addresses.values()
        assert len(set(addresses.values())) == len(wanted), "two VMs have the same device"
        if self.kubevirt is not None:
            for name, address in addresses.items():
                _, bus, slot = str(address).partition(".")[0].split(":")
                domain = self.kubevirt.domains[self.namespace, name].domain_xml
                assert f'bus="0x{bus}" slot="0x{slot}"' in domain, f"{name}: {address} isn't in {domain}"
        else:
            assert {name: len(self.started[name]) for name in wanted} == dict.fromkeys(wanted, 1)

    # --- agents ---

    async def launcher(self, container: RunningContainer) -> int:
        """Standalone, what ``virt-dra-launcher`` does as far as others see it: waits for its devices, then says that it
        is ready."""
        while not container.text(f"{INFO_DIRECTORY}/{DEVICE_STATUS_FILE}"):
            await asyncio.sleep(0.05)
        vmi = next(owner.name for owner in container.pod.metadata.owner_references)
        self.started.setdefault(vmi, []).append(container.pod.metadata.uid)
        ready = container.path(f"{RUN_DIRECTORY}/{READY_FILE}")
        ready.parent.mkdir(parents=True, exist_ok=True)
        ready.touch()
        await asyncio.Event().wait()
        return 0


@contextmanager
def site(
    plane: ControlPlane, audit_log: Path, overlay: Overlay, folder: Path, devices: int, *options: str
) -> Iterator[Site]:
    """A node with so many devices, and the overlay without its operator. One at a time. ``options``: of ``virt-dra
    install``."""
    plane.start_scheduler()
    plane.start_controllers()
    gates = Gates.for_version(
        KubeVirtVersion.parse("1.9.0"), dict.fromkeys((GPUS_WITH_DRA, HOST_DEVICES_WITH_DRA, HOST_DEVICES), True)
    )
    with ExitStack() as stack:
        background = Background()
        stack.callback(background.close)
        stack.callback(lambda: background.do(_end_the_rest()))
        own = (
            stack.enter_context(background.entered(kubevirt_installed(plane, gates)))
            if overlay == BESIDE_KUBEVIRT
            else None
        )
        running = stack.enter_context(installed(plane, overlay, *options))
        running.operator.terminate()
        namespace = plane.create_namespace("faults-")
        stack.callback(plane.delete_namespace, namespace)
        _offer(plane, namespace, stack)

        cluster = stack.enter_context(background.entered(connect(str(plane.kubeconfig), limits=ClientLimits(qps=0))))
        ledger = background.do(_made(lambda: Ledger(cluster, namespace)))
        stack.enter_context(background.entered(ledger.kept()))
        node = f"node-{namespace}"
        driver = Driver(
            cluster,
            (HardwarePool(DRIVER, node, pci_devices(devices, bus=0x20), node=node, per_slice=50),),
            metadata=False,
        )
        account = plane.kubeconfig_of_service_account("virt-dra", "virt-dra-operator")
        kubelet = background.do(_made(lambda: Kubelet(cluster, (node,), (driver,), folder)))
        here = Site(plane, background, namespace, overlay, running, account, kubelet, ledger, audit_log, None)
        kubelet.programs["compute"] = here.launcher if own is None else _runs
        background.do(kubelet.register())
        stack.callback(lambda: background.do(kubelet.unregister()))
        background.do(driver.publish())
        stack.callback(lambda: background.do(driver.withdraw()))
        stack.enter_context(background.entered(kubelet.running()))
        if own is not None:
            here.kubevirt = FakeKubeVirt(own, kubelet, gates)
            stack.enter_context(background.entered(here.kubevirt.running()))
        yield here


async def _made(make: Callable[[], T]) -> T:
    """What must be made on the event loop."""
    return make()


async def _end_the_rest() -> None:
    """What containers still run."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


async def _runs(container: RunningContainer) -> int:
    await asyncio.Event().wait()
    return 0


def _offer(plane: ControlPlane, namespace: str, stack: ExitStack) -> None:
    """A class of our devices, and a template that asks for one of them."""
    classes = "/apis/resource.k8s.io/v1/deviceclasses"
    selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
    plane.request("POST", classes, {"metadata": {"name": CLASS}, "spec": {"selectors": selectors}})
    stack.callback(plane.request, "DELETE", f"{classes}/{CLASS}")
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS}}
    template = {"metadata": {"name": "gpu"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    plane.request("POST", f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates", template)


def moments(seed: int) -> random.Random:
    """Where a scenario's chance comes from."""
    return random.Random(seed)
