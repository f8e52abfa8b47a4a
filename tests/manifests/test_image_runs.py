"""The images run as the manifests say: in containerd, with each pod's security context, limits, volumes and probes."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from click.testing import CliRunner

from devtools.cluster.control_plane import ControlPlane, RequestError
from devtools.cluster.control_plane import require as require_control_plane
from devtools.containers.caching import require as require_images
from devtools.containers.containerd import Containerd
from devtools.containers.restrictions import Restrictions
from devtools.deployed.overlay import images, run
from devtools.deployed.webhook import post
from devtools.deployed.worlds import Background
from devtools.play.agents import CONTROLLERS, Site, Standing, standing
from devtools.play.command import FOR_PEOPLE
from devtools.play.contained import contained
from devtools.play.network import PodNetwork
from devtools.play.starting import ContainerdStarter
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.quantity import Quantity
from virt_dra.cli.main import cli
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE, Overlay
from virt_dra.simulator.agents.background import background

pytestmark = [pytest.mark.control_plane, pytest.mark.images, pytest.mark.root, pytest.mark.slow]

Json = dict[str, Any]
T = TypeVar("T")
ROOT = Path(__file__).parents[2]
NAMESPACE = "virt-dra"
WAIT_SECONDS = 90.0
OF_THE_RUNTIME = re.compile(r"/(proc|dev|sys|run|etc/hosts|etc/resolv\.conf)?(/.*)?")
"""Where containerd mounts something in every container."""


@dataclass(frozen=True)
class Deployed:
    """virt-dra as ``virt-dra install`` leaves it. ``said``: what that printed."""

    plane: ControlPlane
    network: PodNetwork
    containerd: Containerd
    starter: ContainerdStarter
    overlay: Overlay
    logs: Path
    said: str

    def pods(self, namespace: str = NAMESPACE) -> list[Json]:
        items: list[Json] = self.plane.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        return items

    def containers(self) -> Iterator[tuple[Json, Json, str, Restrictions]]:
        """Pod, container, what containerd calls it, and what it may do; of all pods of ours that are there."""
        for pod in self.pods():
            for container in pod["spec"]["containers"]:
                running = self.starter.running[NAMESPACE, pod["metadata"]["name"], container["name"]]
                yield pod, container, *running


@asynccontextmanager
async def _at_work(stands: AbstractAsyncContextManager[Standing]) -> AsyncIterator[None]:
    """Nodes, driver, kubelet and KubeVirt; then containers, whose processes have ended, are forgotten."""
    async with stands as agents, background(agents.run()):
        yield
    for _ in range(2):  # what is cancelled may begin something that ends it in peace
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


Runtime = tuple[Containerd, ContainerdStarter]


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    require_control_plane("kube-scheduler", "kube-controller-manager")
    with contained(require_images()) as started:
        yield started


@pytest.fixture(scope="module", params=[BESIDE_KUBEVIRT, STANDALONE])
def deployed(
    request: pytest.FixtureRequest, runtime: Runtime, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    containerd, starter = runtime
    overlay: Overlay = request.param
    folder, scratch = tmp_path_factory.mktemp("cluster"), tmp_path_factory.mktemp("scratch")
    version = KubeVirtVersion.parse("1.9") if overlay == BESIDE_KUBEVIRT else None
    with ExitStack() as stack:
        network = stack.enter_context(PodNetwork(scratch))
        plane = stack.enter_context(ControlPlane(service_accounts=True, arguments=network.server_arguments()))
        plane.start_scheduler()
        plane.start_controllers(*FOR_PEOPLE, *CONTROLLERS)
        loop = Background()
        stack.callback(loop.close)
        stack.callback(starter.close)
        site = Site(version, ("node-0",), 1, "gpu.example.com")
        stack.enter_context(loop.entered(_at_work(standing(plane, site, network, folder, scratch, starter))))
        # No hardware here: libvirt's own driver for tests takes any domain.
        uri = ("--operator-argument=--launcher-argument=--uri=test:///default",) if overlay == STANDALONE else ()
        options = ("--overlay", overlay, *images(overlay), *uri)
        said = run(
            plane, "install", *options, "--client-ca", str(plane.webhook_client_ca), "--timeout", str(WAIT_SECONDS)
        )
        yield Deployed(plane, network, containerd, starter, overlay, folder / "logs", said)


def until(look: Callable[[], T], seconds: float = WAIT_SECONDS) -> T:
    """What ``look`` answers as soon as it is something, where there is something to look at."""
    end = time.monotonic() + seconds
    last: object = None
    while time.monotonic() < end:
        try:
            if last := look():
                return last
        except RequestError as error:
            if error.status not in (404, 409, 500):
                raise
            last = error
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds:.0f} s; last: {last}")


def example(name: str) -> Json:
    (document,) = yaml.safe_load_all((ROOT / "examples" / "cluster" / name).read_text(encoding="utf-8"))
    return dict(document)


def file_of(pid: int, path: str) -> Path:
    """A file as a process sees it."""
    return Path(f"/proc/{pid}", "root", path)


def test_all_pods_start_and_their_probes_succeed(deployed: Deployed) -> None:
    assert (
        deployed.said.splitlines()[-1]
        == f"virt-dra ({deployed.overlay}) is installed in the namespace virt-dra and runs"
    )
    ready = sorted(
        (
            pod["metadata"]["labels"]["app.kubernetes.io/name"],
            [status["ready"] for status in pod["status"]["containerStatuses"]],
        )
        for pod in deployed.pods()
    )
    names = ["virt-dra-certificates", "virt-dra-operator", "virt-dra-operator", "virt-dra-webhook", "virt-dra-webhook"]
    assert ready == [(name, [True]) for name in names]


def test_every_process_of_a_container_is_confined_as_its_pod_says(deployed: Deployed) -> None:
    wanted = {"Uid": {"65532"}, "Gid": {"65532"}, "Groups": {"65532"}, "NoNewPrivs": {"1"}, "Seccomp": {"2"}}
    wanted |= {f"Cap{name}": {"0000000000000000"} for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")}
    seen = []
    for pod, container, identity, _ in deployed.containers():
        for pid in deployed.containerd.processes(identity):
            status = (
                line.partition(":") for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
            )
            masks = {name: set(value.split()) for name, _, value in status if name in wanted}
            assert masks == wanted, (pod["metadata"]["name"], pid)
            seen.append(container["name"])
    # The webhook has another process, which evaluates selectors.
    assert sorted(seen) == ["certificates", "operator", "operator", "webhook", "webhook", "webhook", "webhook"]


def test_a_container_has_its_images_files_read_only_and_its_pods_volumes(deployed: Deployed) -> None:
    for _, container, identity, _ in deployed.containers():
        lines = (
            Path(f"/proc/{deployed.containerd.processes(identity)[0]}/mountinfo")
            .read_text(encoding="utf-8")
            .splitlines()
        )
        mounts = {words[4]: words[5].split(",")[0] for line in lines if (words := line.split())}
        assert mounts["/"] == "ro"
        account = "/var/run/secrets/kubernetes.io/serviceaccount"
        volumes = {mount["mountPath"]: "ro" if mount.get("readOnly") else "rw" for mount in container["volumeMounts"]}
        others = {
            path: mode
            for path, mode in mounts.items()
            if not OF_THE_RUNTIME.fullmatch(path.replace("/var/run", "/run"))
        }
        # /var/run is /run, where the runtime has no file system of its own.
        assert others == {path: mode for path, mode in volumes.items() if path != account}
        assert mounts[account.replace("/var/run", "/run")] == "ro"


def test_limits_are_those_of_the_pod_and_leave_room(deployed: Deployed) -> None:
    for pod, container, identity, _ in deployed.containers():
        limit, peak = deployed.containerd.memory(identity)
        assert limit == Quantity(container["resources"]["limits"]["memory"]).value()
        assert peak < limit / 2, f"{container['name']} had {peak} of {limit} bytes"
        (size,) = (volume["emptyDir"]["sizeLimit"] for volume in pod["spec"]["volumes"] if volume["name"] == "tmp")
        root = file_of(deployed.containerd.processes(identity)[0], "tmp")
        written = sum(path.lstat().st_size for path in root.rglob("*"))
        assert written < Quantity(size).value() / 2, f"{container['name']} wrote {written} bytes to /tmp"


def test_the_webhook_answers_reviews(deployed: Deployed) -> None:
    plane = deployed.plane
    for plural, name in (
        ("deviceclasses", "device-class"),
        ("namespaces/default/resourceclaimtemplates", "claim-template"),
    ):
        assert post(plane, f"/apis/resource.k8s.io/v1/{plural}", example(f"{name}.yaml")).code == 201
    path = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines?dryRun=All"
    (warning,) = until(lambda: post(plane, path, example("wrong-request.yaml")).warnings)
    assert 'ResourceClaimTemplate \\"one-gpu\\" has no request \\"card\\"' in warning


def test_a_vm_gets_its_device(deployed: Deployed) -> None:
    plane, group = deployed.plane, "/apis/kubevirt.io/v1/namespaces/default"
    assert post(plane, f"{group}/virtualmachines", example("vm.yaml")).code == 201
    vmi = f"{group}/virtualmachineinstances/desktop"
    until(lambda: plane.request("GET", vmi).get("status", {}).get("phase") == "Running")
    if deployed.overlay == STANDALONE:
        (gpu,) = plane.request("GET", vmi)["status"]["deviceStatus"]["gpuStatuses"]
        assert gpu["deviceResourceClaimStatus"]["attributes"]["pciAddress"] == "0000:01:00.0"
        return
    devices = "/apis/virt-dra.io/v1alpha1/namespaces/default/virtualmachineinstancedevices/desktop"
    status = until(lambda: (status_ := plane.request("GET", devices)["status"])["ready"] == "1/1" and status_)
    assert [device["pciAddress"] for device in status["devices"]] == ["0000:01:00.0"]


@pytest.mark.parametrize("deployed", [STANDALONE], indirect=True)
def test_the_launcher_of_its_image_starts_the_domain_as_its_pod_says(deployed: Deployed) -> None:
    (pod,) = deployed.pods("default")
    identity, restrictions = deployed.starter.running["default", pod["metadata"]["name"], "compute"]
    assert (restrictions.user, restrictions.group, restrictions.new_privileges, restrictions.seccomp) == (
        107,
        107,
        False,
        True,
    )
    (pid,) = deployed.containerd.processes(identity)
    found = dict(
        re.findall(r"^(Uid|CapBnd|NoNewPrivs|Seccomp):\s+(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    )
    assert found == {"Uid": "107", "CapBnd": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2"}
    domain = file_of(pid, "run/virt-dra/domain.xml").read_text(encoding="utf-8")
    assert '<address domain="0x0000" bus="0x01" slot="0x00" function="0x0"/>' in domain
    assert not file_of(pid, "var/run/secrets").exists(), "a launcher has no token"


@pytest.mark.parametrize("deployed", [STANDALONE], indirect=True)
def test_the_launchers_image_has_libvirt_and_qemu(deployed: Deployed) -> None:
    (pod,) = deployed.pods("default")
    _, restrictions = deployed.starter.running["default", pod["metadata"]["name"], "compute"]
    said: dict[str, str] = {}
    for argv in (
        ("virt-dra-launcher", "--help"), ("libvirtd", "--version"), ("virsh", "--version"),
        ("qemu-system-x86_64", "--version"), ("python", "-c", "import libvirt; print('libvirt', libvirt.getVersion())"),
    ):  # fmt: skip
        command = deployed.containerd.command(f"asked-{len(said)}", "virt-dra-launcher", argv, restrictions)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        said[argv[0]] = done.stdout.strip().splitlines()[0]
    assert said["virt-dra-launcher"] == "Usage: virt-dra-launcher [OPTIONS]"
    assert re.fullmatch(r"libvirtd \(libvirt\) \d+\.\d+\.\d+", said["libvirtd"])
    assert said["virsh"] == said["libvirtd"].split()[-1]
    assert said["qemu-system-x86_64"].startswith("QEMU emulator version ")
    assert said["python"].startswith("libvirt ")


def test_the_image_has_all_that_its_commands_read(deployed: Deployed) -> None:
    _, _, _, restrictions = next(deployed.containers())
    for argv, said in (
        (("explain", "DeviceInUse"), "DeviceInUse"),
        (("install", "--dry-run", "--image", "i"), "kind: Deployment"),
    ):
        command = deployed.containerd.command(
            f"asked-{argv[0]}-{deployed.overlay}", "virt-dra", ("virt-dra", *argv), restrictions
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        assert said in done.stdout


def test_the_extender_runs_too(deployed: Deployed) -> None:
    files = [
        path
        for path in sorted((ROOT / "manifests" / "extender").glob("*.yaml"))
        if path.name not in ("kustomization.yaml",)
    ]
    objects = [obj for path in files for obj in yaml.safe_load_all(path.read_text(encoding="utf-8"))]
    plane = deployed.plane
    place = {
        "Namespace": "/api/v1/namespaces",
        "ServiceAccount": "/api/v1/namespaces/virt-dra-extender/serviceaccounts",
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    }
    for kind, path in place.items():
        for obj in (obj for obj in objects if obj["kind"] == kind):
            plane.request("POST", path, obj)
    (daemons,) = (obj for obj in objects if obj["kind"] == "DaemonSet")
    template = daemons["spec"]["template"]
    template["spec"]["nodeName"] = (
        "node-0"  # which the controller of DaemonSets, who doesn't run here, would choose by affinity
    )
    body = {"metadata": {"name": "extender", **template["metadata"]}, "spec": template["spec"]}
    pods = "/api/v1/namespaces/virt-dra-extender/pods"
    until(lambda: post(plane, pods, body).code == 201)  # its ServiceAccount's token controller may come later

    def address() -> str:
        """Its pod's, once it is ready."""
        status = plane.request("GET", f"{pods}/extender")["status"]
        statuses = status.get("containerStatuses") or [{"ready": False}]
        return str(status["podIP"]) if all(status["ready"] for status in statuses) else ""

    listening = deployed.network.loopback_of(until(address))
    identity, restrictions = deployed.starter.running["virt-dra-extender", "extender", "extender"]
    assert (restrictions.read_only, restrictions.new_privileges, restrictions.seccomp) == (True, False, True)
    assert len(deployed.containerd.processes(identity)) >= 2, "selectors are evaluated in a child"
    pod = {"metadata": {"name": "any", "namespace": "default", "uid": "u"}, "spec": {"containers": []}}
    question = json.dumps({"Pod": pod, "NodeNames": ["node-0"]}).encode()
    asked = urllib.request.Request(
        f"http://{listening}:8766/prioritize", question, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=30) as answer:
        assert [load["Host"] for load in json.loads(answer.read())] == ["node-0"]


def test_doctor_finds_everything_well(deployed: Deployed) -> None:
    result = CliRunner().invoke(cli, ["doctor", "-o", "json", "--kubeconfig", str(deployed.plane.kubeconfig)])
    findings = json.loads(result.stdout)
    assert [finding for finding in findings["findings"] if finding["level"] == "error"] == []


def test_a_pod_that_is_deleted_ends_in_peace_and_is_replaced(deployed: Deployed) -> None:
    identities = {pod["metadata"]["name"]: identity for pod, _, identity, _ in deployed.containers()}
    name = next(pod["metadata"]["name"] for pod in deployed.pods() if "operator" in pod["metadata"]["name"])
    deployed.plane.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")
    until(lambda: not deployed.containerd.processes(identities[name]), 30)
    log = (deployed.logs / f"{NAMESPACE}_{name}_operator.log").read_text(encoding="utf-8")
    messages = [json.loads(line)["message"] for line in log.splitlines()]
    # The Lease may be left to its end: the pod is gone here before its container is, and its token with it.
    assert ("stopping" in messages, messages[-1]) == (True, "stopped")
    until(lambda: len([pod for pod in deployed.pods() if pod["metadata"]["name"] not in identities]) == 1)


def test_no_log_has_a_trace_of_an_error(deployed: Deployed) -> None:
    logs = {path.name: path.read_text(encoding="utf-8") for path in deployed.logs.glob("virt-dra_*.log")}
    assert len(logs) >= 5
    assert {name: text for name, text in logs.items() if "Traceback" in text or '"level": "error"' in text} == {}
