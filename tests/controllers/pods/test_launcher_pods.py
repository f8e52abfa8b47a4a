"""The launcher pod: its device part (cases as data), the whole pod, the patch, and the controller that creates it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cluster.memory.admit_all import AdmitAll
from tests.sampling import sample
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import PermittedHostDevices, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import NEWEST, Gates, KubeVirtVersion
from virt_dra.api.quantity import Quantity
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.controllers.pods import launcher_pods
from virt_dra.controllers.pods.launcher_pods import CannotRender, CreatePod, LauncherOptions, patch_into, render
from virt_dra.controllers.pods.launcher_resources import Fragment, RenderError, fragment, memory_overhead

GATES = Gates.for_version(NEWEST)
CASES = yaml.safe_load((Path(__file__).parent / "cases" / "launcher_fragments.yaml").read_text())
KNOWN_KEYS = {
    "name",
    "gates",
    "kubevirt",
    "permitted",
    "spec",
    "resourceClaims",
    "claims",
    "counts",
    "limits",
    "requests",
    "error",
}


def _vmi(spec: Json | None = None, **metadata: object) -> VirtualMachineInstance:
    return VirtualMachineInstance.from_wire(
        {"metadata": {"name": "vm", "namespace": "ns", "uid": "u1", **metadata}, "spec": spec or {}}
    )


def _gates(case: Json) -> Gates:
    version = KubeVirtVersion.parse(str(case["kubevirt"])) if "kubevirt" in case else NEWEST
    return Gates.for_version(version, case.get("gates"))


def _claim(text: str) -> Json:
    name, _, request = text.partition("/")
    return {"name": name, "request": request} if request else {"name": name}


def _texts(counts: Json) -> Json:
    return {name: str(count) for name, count in counts.items()}


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_fragment(case: Json) -> None:
    assert case.keys() <= KNOWN_KEYS
    permitted = PermittedHostDevices.from_wire(case["permitted"]) if "permitted" in case else None
    patch = fragment(_vmi(case["spec"]), _gates(case), permitted)
    if "error" in case:
        assert patch == RenderError(*case["error"])
        return
    assert isinstance(patch, Fragment)
    counts: Json = case.get("counts", {})
    limits: Json = case.get("limits", counts)
    requests: Json = case.get("requests", counts)
    assert {
        "resourceClaims": [claim.to_wire() for claim in patch.resource_claims],
        "claims": [claim.to_wire() for claim in patch.claims],
        "limits": {name: str(quantity) for name, quantity in patch.limits.items()},
        "requests": {name: str(quantity) for name, quantity in patch.requests.items()},
    } == {
        "resourceClaims": case.get("resourceClaims", []),
        "claims": [_claim(text) for text in case.get("claims", [])],
        "limits": _texts(limits),
        "requests": _texts(requests),
    }


def _rendered(vmi: VirtualMachineInstance, gates: Gates = GATES, options: LauncherOptions | None = None) -> Json:
    pod = render(vmi, gates, options=options or LauncherOptions())
    assert isinstance(pod, Pod)
    return pod.to_wire()


def test_the_whole_pod() -> None:
    vmi = _vmi(
        {
            "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
            "architecture": "arm64",
            "nodeSelector": {"zone": "a"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
            "domain": {
                "cpu": {"cores": 2, "threads": 2},
                "memory": {"guest": "2Gi"},
                "devices": {"gpus": [{"name": "g", "claimName": "c", "requestName": "r"}]},
            },
        },
        labels={"app": "x", "kubevirt.io": "mine"},
        annotations={
            "note": "kept",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "kubevirt.io/latest-observed-api-version": "v1",
        },
    )
    # 220Mi processes + 8Mi I/O thread + 4 x 8Mi vCPUs + 32Mi graphics + 128Mi UEFI + 1Gi passed-through devices
    assert _rendered(vmi) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "virt-launcher-vm-",
            "namespace": "ns",
            "labels": {
                "app": "x",
                "kubevirt.io": "virt-launcher",
                "kubevirt.io/created-by": "u1",
                "vm.kubevirt.io/name": "vm",
                "vmi.kubevirt.io/id": "vm",
            },
            "annotations": {
                "kubevirt.io/domain": "vm",
                "note": "kept",
                "kubectl.kubernetes.io/default-container": "compute",
                "kubevirt.io/memory-overhead-bytes": str(1444 * 1024 * 1024),
            },
            "ownerReferences": [
                {
                    "apiVersion": "kubevirt.io/v1",
                    "kind": "VirtualMachineInstance",
                    "name": "vm",
                    "uid": "u1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "compute",
                    "image": "virt-launcher",
                    "command": [
                        *("/usr/bin/virt-launcher-monitor", "--name", "vm", "--uid", "u1", "--namespace", "ns"),
                        "--run-as-nonroot",
                    ],
                    "env": [
                        {
                            "name": "POD_NAME",
                            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
                        }
                    ],
                    "resources": {
                        "limits": {
                            "devices.kubevirt.io/kvm": "1",
                            "devices.kubevirt.io/tun": "1",
                            "devices.kubevirt.io/vhost-net": "1",
                        },
                        "requests": {
                            "cpu": "400m",
                            "memory": "3492Mi",
                            "devices.kubevirt.io/kvm": "1",
                            "devices.kubevirt.io/tun": "1",
                            "devices.kubevirt.io/vhost-net": "1",
                        },
                        "claims": [{"name": "c", "request": "r"}],
                    },
                    "securityContext": {
                        "runAsUser": 107,
                        "runAsGroup": 107,
                        "runAsNonRoot": True,
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
                    },
                }
            ],
            "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
            "restartPolicy": "Never",
            "readinessGates": [{"conditionType": "kubevirt.io/virtual-machine-unpaused"}],
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "nodeSelector": {"zone": "a", "kubevirt.io/schedulable": "true", "kubernetes.io/arch": "arm64"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
            "hostname": "vm",
        },
    }


def test_options_say_what_the_cluster_is_like() -> None:
    options = LauncherOptions(image="img", non_root=False, require_kubevirt_nodes=False, hypervisor_devices=False)
    spec = _rendered(_vmi({"nodeSelector": {"zone": "a"}}), options=options)["spec"]
    compute = spec["containers"][0]
    assert spec["nodeSelector"] == {"zone": "a"}
    assert compute["image"] == "img"
    assert compute["securityContext"] == {
        "runAsUser": 0,
        "privileged": False,
        "capabilities": {"add": ["NET_BIND_SERVICE", "SYS_NICE"]},
    }
    assert compute["resources"] == {"limits": {}, "requests": {"memory": "268Mi", "cpu": "100m"}}


@pytest.mark.parametrize(
    ("domain", "mebibytes"),
    [
        pytest.param({}, 268, id="no devices"),
        pytest.param({"devices": {"autoattachGraphicsDevice": False}}, 236, id="no graphics"),
        pytest.param(
            {"devices": {"gpus": [{"name": "a", "deviceName": "x/y"}, {"name": "b", "deviceName": "x/y"}]}},
            1292,
            id="GPUs, once",
        ),
        pytest.param(
            {"devices": {"hostDevices": [{"name": "a", "claimName": "c"}]}}, 1292, id="a host device from a claim"
        ),
        pytest.param({"devices": {"interfaces": [{"name": "a", "sriov": {}}]}}, 1292, id="an SR-IOV interface"),
        pytest.param({"devices": {"interfaces": [{"name": "a", "bridge": {}}]}}, 268, id="a bridge"),
        pytest.param({"memory": {"reservedOverhead": {"addedOverhead": "100Mi"}}}, 368, id="added overhead"),
        pytest.param({"resources": {"requests": {"memory": "1Gi"}}}, 270, id="page tables of requested memory"),
        pytest.param({"cpu": {"sockets": 3, "cores": 2}}, 308, id="vCPUs"),
        pytest.param({"resources": {"requests": {"cpu": "3"}}}, 284, id="requested CPUs as vCPUs"),
        pytest.param({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3500m"}}}, 292, id="limited CPUs"),
        pytest.param({"cpu": {"cores": 1}, "resources": {"requests": {"cpu": "3"}}}, 268, id="vCPUs before requests"),
        pytest.param({"cpu": {"cores": 2, "dedicatedCpuPlacement": True}}, 376, id="dedicated CPUs"),
        pytest.param(
            {"cpu": {"cores": 1}, "resources": {"limits": {"memory": "1Gi", "cpu": "2"}, "requests": {"cpu": "2"}}},
            368,
            id="guaranteed, as memory has a limit only",
        ),
        pytest.param(
            {"cpu": {"cores": 1}, "resources": {"limits": {"memory": "1Gi", "cpu": "2"}}},
            268,
            id="not guaranteed without a request of CPUs",
        ),
        pytest.param({"devices": {"tpm": {}}}, 321, id="TPM"),
        pytest.param({"devices": {"tpm": {"enabled": False}}}, 268, id="a TPM that is off"),
        pytest.param({"launchSecurity": {"sev": {}}}, 524, id="SEV"),
        pytest.param({"launchSecurity": {"snp": {}}}, 524, id="SEV-SNP"),
        pytest.param({"launchSecurity": {"tdx": {}}}, 268, id="TDX"),
    ],
)
def test_memory_overhead(domain: Json, mebibytes: int) -> None:
    assert _rendered(_vmi({"domain": domain}))["metadata"]["annotations"]["kubevirt.io/memory-overhead-bytes"] == str(
        mebibytes * 1024 * 1024
    )


@pytest.mark.parametrize(
    ("spec", "mebibytes"),
    [
        pytest.param({"livenessProbe": {"exec": {"command": ["true"]}}}, 378, id="a program as a probe"),
        pytest.param(
            {"livenessProbe": {"exec": {"command": ["true"]}}, "readinessProbe": {"exec": {"command": ["true"]}}},
            388,
            id="two programs as probes",
        ),
        pytest.param({"readinessProbe": {"tcpSocket": {"port": 22}}}, 268, id="a port as a probe"),
        pytest.param({"volumes": [{"name": "m", "downwardMetrics": {}}]}, 269, id="metrics of the host"),
    ],
)
def test_memory_overhead_of_probes_and_volumes(spec: Json, mebibytes: int) -> None:
    """K-4.9."""
    assert memory_overhead(VirtualMachineInstance.from_wire(_vmi(spec)), Gates.for_version(NEWEST)) == Quantity(
        f"{mebibytes}Mi"
    )


def test_memory_overhead_by_release() -> None:
    """K-4.9: QEMU takes more in main; since 1.8 a VMI may reserve some itself."""
    vmi = VirtualMachineInstance.from_wire(
        _vmi({"domain": {"memory": {"reservedOverhead": {"addedOverhead": "100Mi"}}}})
    )
    overheads = {
        release: str(memory_overhead(vmi, Gates.for_version(KubeVirtVersion.parse(release))))
        for release in ("1.7", "1.8", "1.9", "main")
    }
    assert overheads == {"1.7": "268Mi", "1.8": "368Mi", "1.9": "368Mi", "main": "388Mi"}


def test_before_1_9_the_overhead_is_not_told() -> None:
    annotations = _rendered(_vmi(), Gates.for_version(KubeVirtVersion.parse("1.8")))["metadata"]["annotations"]
    assert annotations == {"kubevirt.io/domain": "vm", "kubectl.kubernetes.io/default-container": "compute"}


@pytest.mark.parametrize(
    ("domain", "limits", "requests"),
    [
        pytest.param(
            {"resources": {"requests": {"memory": "512Mi", "cpu": "2"}, "limits": {"memory": "1Gi"}}},
            {"memory": "1301Mi"},
            {"memory": "789Mi", "cpu": "2"},
            id="own requests and limits get the overhead",
        ),
        pytest.param(
            {"resources": {"overcommitGuestOverhead": True}, "memory": {"guest": "1Gi"}},
            {},
            {"memory": "1Gi", "cpu": "100m"},
            id="overcommitted overhead",
        ),
        pytest.param(
            {"memory": {"guest": "1Gi", "hugepages": {"pageSize": "2Mi"}}},
            {"hugepages-2Mi": "1Gi"},
            {"hugepages-2Mi": "1Gi", "memory": "268Mi", "cpu": "100m"},
            id="huge pages back the guest",
        ),
        pytest.param(
            {"memory": {"guest": "1Gi"}, "cpu": {"cores": 2, "dedicatedCpuPlacement": True}},
            {"memory": "1400Mi", "cpu": "2"},
            {"memory": "1400Mi", "cpu": "2"},
            id="dedicated CPUs",
        ),
        pytest.param(
            {
                "memory": {"guest": "1Gi"},
                "cpu": {"cores": 2, "dedicatedCpuPlacement": True, "isolateEmulatorThread": True},
            },
            {"memory": "1400Mi", "cpu": "3"},
            {"memory": "1400Mi", "cpu": "3"},
            id="dedicated CPUs, one for the emulator's threads",
        ),
    ],
)
def test_cpu_and_memory(domain: Json, limits: Json, requests: Json) -> None:
    pod = _rendered(_vmi({"domain": domain}), options=LauncherOptions(hypervisor_devices=False))
    assert pod["spec"]["containers"][0]["resources"] == {"limits": limits, "requests": requests}


@pytest.mark.parametrize(
    ("devices", "gates", "names"),
    [
        pytest.param({}, {}, ["kvm", "tun", "vhost-net"], id="the default interface"),
        pytest.param({"autoattachPodInterface": False}, {}, ["kvm"], id="no interface"),
        pytest.param({"interfaces": [{"name": "a", "model": "e1000"}]}, {}, ["kvm", "tun"], id="an emulated interface"),
        pytest.param({"interfaces": [{"name": "a", "sriov": {}}]}, {}, ["kvm", "tun", "vhost-net"], id="SR-IOV"),
        pytest.param({}, {"IOMMUFD": True}, ["kvm", "tun", "vhost-net", "iommufd"], id="IOMMUFD"),
    ],
)
def test_devices_of_every_launcher(devices: Json, gates: dict[str, bool], names: list[str]) -> None:
    resources = _rendered(_vmi({"domain": {"devices": devices}}), Gates.for_version(NEWEST, gates))["spec"][
        "containers"
    ][0]["resources"]
    wanted = {f"devices.kubevirt.io/{name}": "1" for name in names}
    assert resources["limits"] == wanted
    assert {name: count for name, count in resources["requests"].items() if "/" in name} == wanted


def test_long_names_become_unique_labels_and_short_host_names() -> None:
    name = "a" * 60 + ".b" + "c" * 10
    metadata = _rendered(_vmi(name=name))
    assert metadata["metadata"]["labels"]["vmi.kubevirt.io/id"] == "a" * 54 + "-b5d82e93"
    assert metadata["spec"]["hostname"] == "a" * 60
    assert _rendered(_vmi({"hostname": "own.domain"}))["spec"]["hostname"] == "own"


def test_a_service_account_volume_brings_the_token() -> None:
    volumes = [{"name": "sa", "serviceAccount": {"serviceAccountName": "x"}}]
    assert _rendered(_vmi({"volumes": volumes}))["spec"]["automountServiceAccountToken"] is True


SIDECARS = "hooks.kubevirt.io/hookSidecars"


def test_hook_sidecars_are_containers_without_devices() -> None:
    annotations = {SIDECARS: '[{"image": "a", "args": ["--x"], "pvc": {}}, {"image": "b"}]'}
    containers = _rendered(_vmi(annotations=annotations), Gates.for_version(NEWEST, {"Sidecar": True}))["spec"][
        "containers"
    ]
    assert containers[1:] == [
        {"name": "hook-sidecar-0", "image": "a", "args": ["--x"]},
        {"name": "hook-sidecar-1", "image": "b"},
    ]
    assert len(_rendered(_vmi(annotations=annotations))["spec"]["containers"]) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{",
            "the list of hook sidecars is not JSON: Expecting property name "
            "enclosed in double quotes: line 1 column 2 (char 1)",
        ),
        ('{"image": "a"}', "the list of hook sidecars must be a JSON list of objects"),
        ('["a"]', "the list of hook sidecars must be a JSON list of objects"),
        ('[{"image": 1}]', "the list of hook sidecars: image: must be a string, not an integer"),
    ],
)
def test_bad_lists_of_hook_sidecars_are_a_rendering_error(text: str, message: str) -> None:
    rendered = render(_vmi(annotations={SIDECARS: text}), Gates.for_version(NEWEST, {"Sidecar": True}))
    assert rendered == RenderError("BadHookSidecars", message, f"metadata.annotations[{SIDECARS}]")


def test_a_malformed_affinity_is_a_rendering_error() -> None:
    rendered = render(_vmi({"affinity": {"nodeAffinity": []}}), GATES)
    assert rendered == RenderError("BadAffinity", "nodeAffinity: must be an object, not a list", "spec.affinity")


# --- patching ---

GPUS: Json = {
    "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
    "domain": {
        "devices": {
            "gpus": [
                {"name": "g", "claimName": "c", "requestName": "r"},
                {"name": "h", "claimName": "c", "requestName": "s"},
            ],
            "hostDevices": [{"name": "p", "deviceName": "x/y"}],
        }
    },
}


def _pod(*containers: Json, **spec: object) -> Pod:
    return Pod.from_wire({"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}})


def _operations(pod: Pod, spec: Json) -> list[Json]:
    patched = patch_into(pod, _vmi(spec), GATES)
    assert not isinstance(patched, RenderError)
    return list(patched)


async def _apply(pod: Pod, operations: Sequence[Json]) -> Pod:
    """By way of a cluster, whose JSON patch has its own tests."""

    async def patched() -> Pod:
        cluster = MemoryCluster.deterministic(admission=AdmitAll())
        await cluster.create(pod)
        return await cluster.patch(Pod, pod.name, "default", operations=operations)

    return await patched()


def test_a_bare_pod_gets_everything() -> None:
    assert _operations(_pod({"name": "sidecar"}, {"name": "compute"}), GPUS) == [
        {"op": "add", "path": "/spec/resourceClaims", "value": [{"name": "c", "resourceClaimTemplateName": "t"}]},
        {
            "op": "add",
            "path": "/spec/containers/1/resources",
            "value": {
                "claims": [{"name": "c", "request": "r"}, {"name": "c", "request": "s"}],
                "limits": {"x/y": "1"},
                "requests": {"x/y": "1"},
            },
        },
    ]


def test_what_others_put_there_stays() -> None:
    resources = {
        "claims": [{"name": "own"}, {"name": "c", "request": "r"}],
        "limits": {"x/y": "3", "cpu": "1"},
        "requests": {"cpu": "1"},
    }
    claims = [{"name": "own", "resourceClaimName": "o"}, {"name": "c", "resourceClaimTemplateName": "stale"}]
    assert _operations(_pod({"name": "compute", "resources": resources}, resourceClaims=claims), GPUS) == [
        {
            "op": "add",
            "path": "/spec/resourceClaims",
            "value": [{"name": "own", "resourceClaimName": "o"}, {"name": "c", "resourceClaimTemplateName": "t"}],
        },
        {
            "op": "add",
            "path": "/spec/containers/0/resources/claims",
            "value": [{"name": "own"}, {"name": "c", "request": "r"}, {"name": "c", "request": "s"}],
        },
        {"op": "add", "path": "/spec/containers/0/resources/requests", "value": {"x/y": "1", "cpu": "1"}},
    ]


def test_a_whole_claim_covers_its_requests_and_replaces_them() -> None:
    whole = {
        "name": "compute",
        "resources": {"claims": [{"name": "c"}], "limits": {"x/y": "1"}, "requests": {"x/y": "1"}},
    }
    assert _operations(_pod(whole, resourceClaims=GPUS["resourceClaims"]), GPUS) == []
    compute = {"name": "compute", "resources": {"claims": [{"name": "c", "request": "r"}]}}
    assert _operations(_pod(compute), {"domain": {"devices": {"gpus": [{"name": "g", "claimName": "c"}]}}}) == [
        {"op": "add", "path": "/spec/containers/0/resources/claims", "value": [{"name": "c"}]}
    ]


def test_ten_thousand_claims_are_patched_in_time() -> None:
    names = [f"c{number}" for number in range(10_000)]
    gpus = [{"name": name, "claimName": name, "requestName": "r"} for name in names]
    claims = [{"name": name, "resourceClaimName": "o"} for name in names]
    pod = _pod(
        {"name": "compute", "resources": {"claims": [{"name": name, "request": "r"} for name in names]}},
        resourceClaims=claims,
    )
    began = time.process_time()
    assert _operations(pod, {"resourceClaims": claims, "domain": {"devices": {"gpus": gpus}}}) == []
    assert time.process_time() - began < 3, "seconds of the processor"


def test_patching_is_refused_with_the_rendering_error_or_without_compute() -> None:
    vmi = _vmi({"domain": {"devices": {"gpus": [{"name": "g", "deviceName": "x/y"}]}}})
    patched = patch_into(_pod({"name": "compute"}), vmi, GATES, PermittedHostDevices())
    assert isinstance(patched, RenderError)
    assert patched.reason == "NotPermitted"
    text = "the pod has no container named compute, so it is no launcher pod"
    assert patch_into(_pod({"name": "c"}), vmi, GATES) == RenderError("NoComputeContainer", text, "spec.containers")


_names = st.sampled_from(["a", "b"])
_references = st.fixed_dictionaries({"name": _names}, optional={"request": _names})
_resources = st.fixed_dictionaries(
    {},
    optional={
        "claims": st.lists(_references, max_size=3),
        "limits": st.dictionaries(st.sampled_from(["x/y", "cpu"]), st.just("2")),
        "requests": st.dictionaries(st.sampled_from(["x/y", "cpu"]), st.just("2")),
    },
)
_devices = st.fixed_dictionaries(
    {"name": _names}, optional={"deviceName": st.just("x/y"), "claimName": _names, "requestName": _names}
)
_vmi_specs = st.builds(
    lambda claims, gpus, host_devices: {
        "resourceClaims": [{"name": name, "resourceClaimName": "o"} for name in claims],
        "domain": {"devices": {"gpus": gpus, "hostDevices": host_devices}},
    },
    st.lists(_names, unique=True),
    st.lists(_devices, max_size=3),
    st.lists(_devices, max_size=3),
)


@settings(max_examples=sample(60), deadline=None)
@given(_vmi_specs, st.none() | _resources)
async def test_patching_twice_changes_nothing_more(spec: Json, resources: Json | None) -> None:
    pod = _pod({"name": "compute"} if resources is None else {"name": "compute", "resources": resources})
    patched = await _apply(pod, _operations(pod, spec))
    assert _operations(patched, spec) == []
    wanted = fragment(_vmi(spec), GATES)
    assert isinstance(wanted, Fragment)
    assert set(wanted.limits) <= set(patched.spec.containers[0].resources.limits)


@settings(max_examples=sample(60), deadline=None)
@given(_vmi_specs)
def test_a_rendered_pod_needs_no_patch(spec: Json) -> None:
    pod = render(_vmi(spec), GATES)
    assert isinstance(pod, Pod)
    assert _operations(pod, spec) == []


# --- the controller ---


async def _pass(
    cluster: MemoryCluster, permitted: PermittedHostDevices | None = None
) -> tuple[tuple[launcher_pods.LauncherPodAction, ...], tuple[Pod, ...]]:
    actions = launcher_pods.plan(await launcher_pods.gather(cluster, GATES, permitted_host_devices=permitted))
    return actions, await launcher_pods.apply(cluster, actions)


async def test_each_vmi_gets_one_pod_and_only_one() -> None:
    cluster = MemoryCluster.deterministic()
    vmi = await cluster.create(_vmi(uid="", name="a"))
    _, (pod,) = await _pass(cluster)
    assert pod.name.startswith("virt-launcher-a-")
    owner = pod.metadata.controller_owner
    assert owner is not None
    assert (owner.uid, pod.metadata.labels["kubevirt.io/created-by"]) == (vmi.metadata.uid, vmi.metadata.uid)
    assert await _pass(cluster) == ((), ())
    await cluster.update_status(pod.with_(status=pod.status.with_(phase="Failed")))
    assert await _pass(cluster) == ((), ())


def test_finished_and_deleted_vmis_get_no_pod_and_provisioning_pods_do_not_count() -> None:
    finished = VirtualMachineInstance.from_wire(
        {"metadata": {"name": "f", "uid": "f"}, "status": {"phase": "Succeeded"}}
    )
    deleted = VirtualMachineInstance.from_wire(
        {"metadata": {"name": "d", "uid": "d", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    )
    waiting = _vmi()
    pod = render(waiting, GATES)
    assert isinstance(pod, Pod)
    temporary = pod.with_(metadata=pod.metadata.with_(annotations={"kubevirt.io/ephemeral-provisioning": "true"}))
    actions = launcher_pods.plan(launcher_pods.LauncherPodInputs((finished, deleted, waiting), (temporary,), GATES))
    assert actions == (CreatePod(waiting, pod),)


async def test_what_cannot_be_rendered_is_told_and_not_written() -> None:
    cluster = MemoryCluster.deterministic()
    await cluster.create(_vmi({"domain": {"devices": {"gpus": [{"name": "g", "deviceName": "x/y"}]}}}, uid=""))
    (action,), pods = await _pass(cluster, PermittedHostDevices())
    assert isinstance(action, CannotRender)
    assert action.error.message == "GPU x/y is not permitted in permittedHostDevices configuration"
    assert pods == ()
    assert (await cluster.list(Pod)).items == ()
