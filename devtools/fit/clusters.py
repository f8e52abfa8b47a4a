"""Random clusters as dumps have them: nodes, devices, running pods and VMs, and claims that hold devices."""

from __future__ import annotations

from typing import ClassVar, Final

from devtools.fit.case import NAMESPACE, Json
from devtools.upstream.allocator.problems.claims import CLASSES, device_class
from devtools.upstream.allocator.problems.mix import ALPHA, Mix
from devtools.upstream.allocator.problems.slices import slices
from devtools.upstream.allocator.problems.used import used
from virt_dra.api.feature_gates import PLAIN
from virt_dra.api.reading.documents import Document, DocumentSource, Sourced, read_document
from virt_dra.cel.validation import compiled_rules
from virt_dra.cluster.memory.rules import KindRules

APPS: Final = ("a", "b")
ZONES: Final = ("z1", "z2", "z3")
HOST_PORTS: Final = (80, 443)
EXTENDED: Final = "example.com/card"
_KUBEVIRT_DEVICES: Final = ("kvm", "tun", "vhost-net")
_TIME: Final = "2026-11-20T10:00:00Z"
_RULES: Final = KindRules(compiled_rules(PLAIN), strict=True)
_TAINTS: Final = (("k", "v"), ("k", "w"), ("k", ""), ("size", "5"), ("size", "12"), ("size", "big"))


class PlainMix(Mix):
    """A mix without the concepts whose feature gates a plain cluster has off, and without configuration, which drivers
    read."""

    left_out: ClassVar[frozenset[str]] = frozenset({*ALPHA.values(), "config"})

    def has(self, concept: str, strong: float, weak: float) -> bool:
        return concept not in self.left_out and super().has(concept, strong, weak)


class JudgedMix(PlainMix):
    """A mix that also lacks what Kubernetes' allocator is wrong about: admin access (AC-7), mode All (AC-8, AC-9), both
    forms of a capacity's name (AC-13), and pools that contradict themselves (AC-4, AC-15, AC-16)."""

    left_out = PlainMix.left_out | {"admin_access", "all_mode", "capacity_requests", "pool_problems"}


def accepted(raw: Json) -> bool:
    """Whether an API server would store the object."""
    document = read_document(Document(raw, DocumentSource("cluster.yaml", 1)))
    return isinstance(document, Sourced) and not _RULES.on_create(_RULES.defaulted(document.object, _TIME))


def cluster(mix: Mix) -> list[Json]:
    """Everything but the asker and what only it names."""
    nodes = [_node(mix, f"n{number}") for number in range(1, mix.choice((1, 2, 3, 3, 4, 6)) + 1)]
    names = [node["metadata"]["name"] for node in nodes]
    published = _published(mix, names)
    pods: list[Json] = []
    for number in range(mix.choice((0, 1, 2, 4, 6, 8))):
        pods.append(_running(mix, f"running-{number}", mix.choice(names)))
    claims = _held(mix, published, pods)
    vms = [_vmi_of(pod) for pod in pods if mix.chance(0.3)]
    return [*_surroundings(), *_classes(mix), *nodes, *published, *pods, *claims, *vms]


def _surroundings() -> list[Json]:
    gates = ["GPUsWithDRA", "HostDevicesWithDRA", "HostDevices"]
    labels = {"kubernetes.io/metadata.name": NAMESPACE, "resource.kubernetes.io/admin-access": "true"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}},
        {
            "apiVersion": "kubevirt.io/v1",
            "kind": "KubeVirt",
            "metadata": {"name": "kubevirt", "namespace": "kubevirt"},
            "spec": {"configuration": {"developerConfiguration": {"featureGates": gates}}},
        },
    ]


def _classes(mix: Mix) -> list[Json]:
    classes = [_class(mix, name) for name in CLASSES]
    return [raw for raw in classes if accepted(raw) and not mix.chance(0.02)]


def _class(mix: Mix, name: str) -> Json:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", **device_class(mix, name, 2)}


# --- nodes --------------------------------------------------------------------------------------------------------


def _node(mix: Mix, name: str) -> Json:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": mix.pick({"amd64": 20, "arm64": 1}),
        "kubevirt.io/schedulable": mix.pick({"true": 20, "false": 1}),
        "zone": mix.choice(ZONES),
        "rank": str(mix.randint(0, 9)),
    }
    if mix.chance(0.3):
        labels["gpu"] = "yes"
    spec: Json = {}
    if mix.chance(0.1):
        spec["unschedulable"] = True
    if mix.chance(0.2):
        taints = [_taint(mix) for _ in range(mix.choice((1, 1, 2)))]
        spec["taints"] = list({(taint["key"], taint["effect"]): taint for taint in taints}.values())
    allocatable = {
        "cpu": mix.choice(("2", "4", "3500m", "16")),
        "memory": mix.choice(("2Gi", "4Gi", "16Gi", "64Gi")),
        "pods": mix.pick({"110": 8, "3": 1, "1": 1, "0": 0.3}),
        "ephemeral-storage": "100Gi",
        **{f"devices.kubevirt.io/{device}": mix.pick({"1000": 30, "0": 1}) for device in _KUBEVIRT_DEVICES},
        EXTENDED: mix.choice(("0", "1", "2")),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def _taint(mix: Mix) -> Json:
    key, value = mix.choice(_TAINTS)
    return {"key": key, "value": value, "effect": mix.pick({"NoSchedule": 4, "NoExecute": 2, "PreferNoSchedule": 1})}


# --- devices ------------------------------------------------------------------------------------------------------


def _published(mix: Mix, nodes: list[str]) -> list[Json]:
    """Pools of the allocator's problems, those of a node once more on others."""
    pools: dict[tuple[str, str], list[Json]] = {}
    for raw in slices(mix):
        spec = raw["spec"]
        pools.setdefault((spec["driver"], spec["pool"]["name"]), []).append(raw)
    copies: list[Json] = []
    for of_pool in pools.values():
        for node in mix.sample(nodes, mix.randint(1, len(nodes))):
            moved = [_moved(mix, raw, node, nodes) for raw in of_pool]
            if all(map(accepted, moved)):
                copies += moved
            if not any(raw["spec"].get("nodeName") for raw in of_pool):
                break
    return copies


def _moved(mix: Mix, raw: Json, node: str, nodes: list[str]) -> Json:
    """The slice as that of a pool of this node."""
    spec = {**raw["spec"], "pool": {**raw["spec"]["pool"], "name": f"{raw['spec']['pool']['name']}-{node}"}}
    if "devices" in spec and mix.chance(0.9):
        spec["devices"] = [_with_address(number, device) for number, device in enumerate(spec["devices"])]
    if spec.get("nodeName"):
        spec["nodeName"] = node if spec["nodeName"] == "n1" else mix.choice(nodes)
    if spec.get("perDeviceNodeSelection") and "devices" in spec:
        spec["devices"] = [
            {**device, "nodeName": mix.choice(nodes)} if device.get("nodeName") else device
            for device in spec["devices"]
        ]
    metadata = {"name": f"{raw['metadata']['name']}-{node}"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def _with_address(number: int, device: Json) -> Json:
    """A device that a launcher can pass to its VM."""
    address = {"string": f"0000:{number:02x}:00.0"}
    return {**device, "attributes": {**device.get("attributes", {}), "resource.kubernetes.io/pciBusID": address}}


# --- what runs ----------------------------------------------------------------------------------------------------


def _running(mix: Mix, name: str, node: str) -> Json:
    container: Json = {"name": "compute", "image": "i", "resources": resources(mix)}
    if mix.chance(0.6):
        container["ports"] = [host_port(mix)]
    spec: Json = {"nodeName": node, "containers": [container], **relations(mix, 0.25)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-of-{name}",
            "labels": {"app": mix.choice(APPS)},
            "creationTimestamp": _TIME,
        },
        "spec": spec,
        "status": {"phase": mix.pick({"Running": 12, "Pending": 1, "Succeeded": 1}), "startTime": _TIME},
    }


def resources(mix: Mix, cpu: str = "") -> Json:
    """Of a container, which mostly requests some. ``cpu``: as much of it."""
    requests: Json = {}
    if mix.chance(0.85):
        requests |= {"cpu": mix.choice(("100m", "500m", "1", "2")), "memory": mix.choice(("64Mi", "1Gi", "3Gi"))}
    if cpu:
        requests["cpu"] = cpu
    if mix.chance(0.1):
        return {"requests": {**requests, EXTENDED: "1"}, "limits": {EXTENDED: "1"}}
    return {"requests": requests}


def host_port(mix: Mix) -> Json:
    port: Json = {"containerPort": 1, "hostPort": mix.choice(HOST_PORTS), "protocol": mix.choice(("TCP", "TCP", "UDP"))}
    if mix.chance(0.3):
        port["hostIP"] = mix.choice(("127.0.0.1", "10.0.0.1"))
    port["containerPort"] = port["hostPort"]
    return port


def relations(mix: Mix, probability: float) -> Json:
    """Required affinity to other pods, or against them."""
    affinity: Json = {}
    for kind in ("podAffinity", "podAntiAffinity"):
        if mix.chance(probability / 2):
            affinity[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [_relation(mix)]}
    return {"affinity": affinity} if affinity else {}


def _relation(mix: Mix) -> Json:
    return {
        "labelSelector": {"matchLabels": {"app": mix.choice(APPS)}},
        "topologyKey": mix.choice(("kubernetes.io/hostname", "zone")),
    }


def _held(mix: Mix, published: list[Json], pods: list[Json]) -> list[Json]:
    """Claims that hold devices, some of them of running pods."""
    allocated, _ = used(mix, published)
    claims = [_claim_that_holds(mix, f"held-{number}", raw) for number, raw in enumerate(allocated)]
    running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
    for claim in claims:
        if running and mix.chance(0.6):
            pod = mix.choice(running)
            name, meta = claim["metadata"]["name"], pod["metadata"]
            claim["status"]["reservedFor"] = [{"resource": "pods", "name": meta["name"], "uid": meta["uid"]}]
            pod["spec"].setdefault("resourceClaims", []).append({"name": name, "resourceClaimName": name})
    return claims


def _claim_that_holds(mix: Mix, name: str, raw: Json) -> Json:
    allocation = raw["status"]["allocation"]
    if mix.chance(0.5):
        allocation = {**allocation, "allocationTimestamp": _TIME}
    request = {"name": "r", "exactly": {"deviceClassName": mix.choice(CLASSES)}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-of-{name}", "creationTimestamp": _TIME},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": allocation},
    }


def _vmi_of(pod: Json) -> Json:
    """A VM to which the running pod belongs from now on."""
    meta = pod["metadata"]
    name, uid = f"vm-of-{meta['name']}", f"uid-of-vm-of-{meta['name']}"
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": name, "uid": uid}
    meta["ownerReferences"] = [{**owner, "controller": True}]
    meta["labels"]["kubevirt.io"] = "virt-launcher"
    node = pod["spec"]["nodeName"]
    status = {"phase": "Running", "nodeName": node, "activePods": {meta["uid"]: node}}
    if pod["status"]["phase"] == "Succeeded":
        status = {"phase": "Succeeded", "nodeName": node}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": uid},
        "spec": {"domain": {"devices": {}, "resources": {"requests": {"memory": "64Mi"}}}},
        "status": status,
    }
