"""The workloads of the allocator's bench: deterministic clusters and pods as `virt-dra allocate --workload` takes them.

A workload is made for a number of pods, so that a slow peer can be measured on the first pods of the same workload.
Every device is as a driver publishes it: UUID, product, versions, topology, memory.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

GPU = "gpu.example.com"
NIC = "nic.example.com"
SWITCH = "fabric.example.com"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
PCI_BUS_ID = "resource.kubernetes.io/pciBusID"

DEFAULT_FEATURES = {
    "AdminAccess": True,
    "ConsumableCapacity": True,
    "DeviceBindingAndStatus": True,
    "DeviceTaints": True,
    "PartitionableDevices": True,
    "PrioritizedList": True,
}
"""What Kubernetes 1.37 has on without being asked."""


@dataclass(frozen=True)
class Workload:
    """One row of the bench. ``make``: takes the number of pods, and of nodes if they are to be fewer. ``pods``: of the
    whole workload; ``peer_pods``: how many the reference is measured on, by mode.

    ``goals``: how many times the reference's speed is wanted, by mode ("1" or "auto").
    """

    name: str
    title: str
    make: Callable[..., Json]
    pods: int
    goals: Mapping[str, float]
    peer_pods: Mapping[str, int]
    large: bool = False
    """Whether memory and the slowest pods have goals too."""


def wire(kind: str, name: str, spec: Json, namespace: str | None = None) -> Json:
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def nodes(count: int) -> list[Json]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"node-{i:05d}",
                "labels": {
                    "kubernetes.io/hostname": f"node-{i:05d}",
                    "kubernetes.io/arch": "amd64",
                    "kubernetes.io/os": "linux",
                    "topology.kubernetes.io/region": "region-1",
                    "topology.kubernetes.io/zone": f"zone-{i % 3}",
                },
            },
        }
        for i in range(count)
    ]


def device_class(name: str, driver: str, *expressions: str) -> Json:
    selectors = [f'device.driver == "{driver}"', *expressions]
    return wire("DeviceClass", name, {"selectors": [{"cel": {"expression": expression}} for expression in selectors]})


def resource_slice(
    driver: str, node: str, devices: Sequence[Json], *, part: str = "", slices: int = 1, **spec: Any
) -> Json:
    """A slice of the node's pool, which is named as the node."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": slices}
    more: Json = {"devices": list(devices)} if devices else {}
    return wire(
        "ResourceSlice", f"{node}-{driver}{part}", {"driver": driver, "nodeName": node, "pool": pool, **more, **spec}
    )


def exact(name: str, class_name: str, *expressions: str, count: int = 1, **more: Any) -> Json:
    return {"name": name, "exactly": _wanted(class_name, expressions, count, more)}


def alternative(name: str, class_name: str, *expressions: str, count: int = 1) -> Json:
    return {"name": name, **_wanted(class_name, expressions, count, {})}


def _wanted(class_name: str, expressions: Iterable[str], count: int, more: Json) -> Json:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    wanted: Json = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count, **more}
    return {**wanted, "selectors": selectors} if selectors else wanted


def claim(name: str, requests: Sequence[Json], constraints: Sequence[Json] = ()) -> Json:
    devices: Json = {"requests": list(requests)}
    if constraints:
        devices["constraints"] = list(constraints)
    return wire("ResourceClaim", name, {"devices": devices}, "default")


def gpu(
    rng: random.Random, index: int, per_root: int, product: str = "Example H100 80GB HBM3", memory: str = "80Gi"
) -> Json:
    """One GPU of a node; ``per_root`` neighbours share a PCIe root and a NUMA node."""
    root = index // per_root
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "uuid": {"string": f"GPU-{uuid.UUID(int=rng.getrandbits(128), version=4)}"},
            "type": {"string": "gpu"},
            "productName": {"string": product},
            "architecture": {"string": "Hopper"},
            "driverVersion": {"version": "570.86.15"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "index": {"int": index},
            "numa": {"int": root},
            "mig": {"bool": False},
            PCIE_ROOT: {"string": f"pci0000:{root:02x}"},
            PCI_BUS_ID: {"string": f"0000:{root:02x}:{index:02x}.0"},
        },
        "capacity": {"memory": {"value": memory}, "multiprocessors": {"value": "132"}},
    }


GPU_CLASS = device_class("gpu", GPU, f'device.attributes["{GPU}"].type == "gpu"')
SUITABLE = f'device.attributes["{GPU}"].driverVersion.compareTo(semver("550.0.0")) >= 0'
LARGE = f'device.capacity["{GPU}"].memory.compareTo(quantity("40Gi")) >= 0'


def _gpu_slices(count: int, per_node: int, per_root: int, **attributes: Callable[[int, int], Json]) -> list[Json]:
    rng = random.Random(1)
    slices = []
    for node in range(count):
        devices = [gpu(rng, index, per_root) for index in range(per_node)]
        for index, device in enumerate(devices):
            device["attributes"] |= {name: value(node, index) for name, value in attributes.items()}
        slices.append(resource_slice(GPU, f"node-{node:05d}", devices))
    return slices


def _workload(count: int, slices: list[Json], classes: list[Json], pods: int, **more: Any) -> Json:
    return {
        "features": DEFAULT_FEATURES,
        "nodes": nodes(count),
        "classes": classes,
        "slices": slices,
        "pods": pods,
        **more,
    }


def one_device(pods: int, count: int = 500) -> Json:
    """500 nodes of 10 GPUs; a pod wants one."""
    wanted = claim("gpu", [exact("gpu", "gpu", SUITABLE, LARGE)])
    return _workload(count, _gpu_slices(count, 10, 5), [GPU_CLASS], pods, claims_per_pod=[wanted])


def first_available(pods: int, count: int = 500) -> Json:
    """500 nodes of 1 H200, 3 H100 and 6 A100; a pod wants the best that is left."""
    rng = random.Random(2)
    products = [
        ("Example H200 141GB HBM3e", "141Gi"),
        *[("Example H100 80GB HBM3", "80Gi")] * 3,
        *[("Example A100-SXM4-40GB", "40Gi")] * 6,
    ]
    slices = [
        resource_slice(GPU, f"node-{node:05d}", [gpu(rng, i, 5, *product) for i, product in enumerate(products)])
        for node in range(count)
    ]
    names = [
        f'device.attributes["{GPU}"].productName.startsWith("Example {name}")' for name in ("H200", "H100", "A100")
    ]
    wanted = claim(
        "gpu",
        [{"name": "gpu", "firstAvailable": [alternative(f"choice-{i}", "gpu", name) for i, name in enumerate(names)]}],
    )
    return _workload(count, slices, [GPU_CLASS], pods, claims_per_pod=[wanted])


def match_attribute(pods: int, count: int = 500) -> Json:
    """500 nodes of 10 GPUs on 2 PCIe roots; a pod has five requests that must share a root."""
    requests = [exact(f"gpu-{i}", "gpu", SUITABLE) for i in range(5)]
    wanted = claim("gpus", requests, [{"matchAttribute": PCIE_ROOT}])
    return _workload(count, _gpu_slices(count, 10, 5), [GPU_CLASS], pods, claims_per_pod=[wanted])


def distinct_attribute(pods: int, count: int = 500) -> Json:
    """500 nodes of 10 GPUs on 5 boards; a pod has five requests that must be on different boards."""
    slices = _gpu_slices(count, 10, 5, board=lambda node, index: {"string": f"board-{node}-{index // 2}"})
    requests = [exact(f"gpu-{i}", "gpu", SUITABLE) for i in range(5)]
    wanted = claim("gpus", requests, [{"distinctAttribute": f"{GPU}/board"}])
    return _workload(count, slices, [GPU_CLASS], pods, claims_per_pod=[wanted])


PROFILES = {
    "7g.80gb": (7, 8, 1),
    "4g.40gb": (4, 4, 1),
    "3g.40gb": (3, 4, 2),
    "2g.20gb": (2, 2, 3),
    "1g.10gb": (1, 1, 7),
}
"""Partition profile -> compute slices, memory slices, how often a GPU offers it."""


def _partitions(rng: random.Random, index: int) -> list[Json]:
    """What one partitionable GPU can be cut into: each partition consumes from the GPU's counters."""
    parent = f"GPU-{uuid.UUID(int=rng.getrandbits(128), version=4)}"
    return [
        {
            "name": f"gpu-{index}-{profile.replace('.', '-')}-{place}",
            "attributes": {
                "uuid": {"string": f"MIG-{uuid.UUID(int=rng.getrandbits(128), version=4)}"},
                "parentUUID": {"string": parent},
                "type": {"string": "mig"},
                "profile": {"string": profile},
                "productName": {"string": "Example H100 80GB HBM3"},
                "driverVersion": {"version": "570.86.15"},
                "numa": {"int": index // 2},
                PCIE_ROOT: {"string": f"pci0000:{index // 2:02x}"},
            },
            "capacity": {"memory": {"value": f"{memory * 10}Gi"}, "multiprocessors": {"value": str(compute * 18)}},
            "consumesCounters": [
                {
                    "counterSet": f"gpu-{index}-counters",
                    "counters": {"compute": {"value": str(compute)}, "memory": {"value": f"{memory * 10}Gi"}},
                }
            ],
        }
        for profile, (compute, memory, times) in PROFILES.items()
        for place in range(times)
    ]


def _partitionable_slices(count: int) -> list[Json]:
    rng = random.Random(3)
    slices = []
    for node in range(count):
        name = f"node-{node:05d}"
        counters = [
            {"name": f"gpu-{index}-counters", "counters": {"compute": {"value": "7"}, "memory": {"value": "80Gi"}}}
            for index in range(4)
        ]
        devices = [device for index in range(4) for device in _partitions(rng, index)]
        slices.append(resource_slice(GPU, name, [], part="-0", slices=2, sharedCounters=counters))
        slices.append(resource_slice(GPU, name, devices, part="-1", slices=2))
    return slices


MIG_CLASS = device_class("mig", GPU, f'device.attributes["{GPU}"].type == "mig"')


def _profile(name: str) -> str:
    return f'device.attributes["{GPU}"].profile == "{name}"'


def partitionable(pods: int, count: int = 500) -> Json:
    """500 nodes of 4 GPUs in 14 possible partitions each; pods want one of five profiles."""
    variants = [[claim("partition", [exact("partition", "mig", _profile(name))])] for name in PROFILES]
    sequence = random.Random(4).choices(range(len(variants)), weights=(1, 2, 2, 3, 6), k=97)
    return _workload(
        count, _partitionable_slices(count), [MIG_CLASS], pods, pod_variants=variants, pod_sequence=sequence
    )


def partitionable_backtracking(pods: int, count: int = 500) -> Json:
    """The same GPUs; half the pods want three partitions of one GPU, so a GPU in use is found out only at the second or
    third of them."""
    small = [claim("partition", [exact("partition", "mig", _profile("1g.10gb"))])]
    requests = [exact(f"part-{i}", "mig", _profile(name)) for i, name in enumerate(("1g.10gb", "2g.20gb", "4g.40gb"))]
    three = [claim("partitions", requests, [{"matchAttribute": f"{GPU}/parentUUID"}])]
    return _workload(
        count, _partitionable_slices(count), [MIG_CLASS], pods, pod_variants=[small, three], pod_sequence=[0, 1]
    )


def shared_cards(pods: int, count: int = 250) -> Json:
    """250 nodes of 4 network cards that are shared by bandwidth; pods want 5 to 40 Gbit/s of one."""
    rng = random.Random(5)
    policy = {"default": "1G", "validRange": {"min": "1G", "max": "100G", "step": "1G"}}
    slices = []
    for node in range(count):
        devices = [
            {
                "name": f"nic-{index}",
                "allowMultipleAllocations": True,
                "attributes": {
                    "uuid": {"string": str(uuid.UUID(int=rng.getrandbits(128), version=4))},
                    "model": {"string": "Example CX-7"},
                    "linkSpeedGbps": {"int": 100},
                    "firmware": {"version": "28.39.1002"},
                    "numa": {"int": index // 2},
                    "rdma": {"bool": index % 2 == 0},
                    PCIE_ROOT: {"string": f"pci0000:{index // 2:02x}"},
                },
                "capacity": {"bandwidth": {"value": "100G", "requestPolicy": policy}},
            }
            for index in range(4)
        ]
        slices.append(resource_slice(NIC, f"node-{node:05d}", devices))
    suitable = (
        f'device.attributes["{NIC}"].linkSpeedGbps >= 100 && device.attributes["{NIC}"].model.startsWith("Example")'
    )
    variants = [
        [claim("nic", [exact("nic", "nic", suitable, capacity={"requests": {"bandwidth": width}})])]
        for width in ("5G", "10G", "12500M", "25G", "40G")
    ]
    sequence = random.Random(6).choices(range(len(variants)), weights=(4, 4, 3, 2, 1), k=89)
    return _workload(count, slices, [device_class("nic", NIC)], pods, pod_variants=variants, pod_sequence=sequence)


def list_attributes(pods: int, count: int = 100) -> Json:
    """100 nodes of 64 ports, each with a list of 47 paths; a pod has 32 requests that must have a path in common."""
    slices = []
    for node in range(count):
        devices = [
            {
                "name": f"port-{index}",
                "attributes": {
                    "type": {"string": "port"},
                    "paths": {
                        "strings": [f"path-{node}-{index % 2}-{k}" for k in range(16)]
                        + [f"path-{node}-{index % 2}-{16 + (index // 2 + k) % 48}" for k in range(31)]
                    },
                },
            }
            for index in range(64)
        ]
        slices.append(resource_slice(SWITCH, f"node-{node:05d}", devices))
    requests = [exact(f"port-{i}", "port", f'device.attributes["{SWITCH}"].type == "port"') for i in range(32)]
    wanted = claim("ports", requests, [{"matchAttribute": f"{SWITCH}/paths"}])
    made = _workload(count, slices, [device_class("port", SWITCH)], pods, claims_per_pod=[wanted])
    return {**made, "features": {**DEFAULT_FEATURES, "ListTypeAttributes": True}}


SIZES = (1, 2, 3, 4, 5, 6, 7, 8)
SIZE_WEIGHTS = (30, 20, 10, 20, 5, 5, 2, 8)


def _size_sequence() -> list[int]:
    return random.Random(7).choices(range(len(SIZES)), weights=SIZE_WEIGHTS, k=997)


def large_cluster(pods: int, count: int = 5000) -> Json:
    """5,000 nodes of 8 GPUs; pods want 1 to 8."""
    variants = [[claim("gpus", [exact("gpus", "gpu", SUITABLE, LARGE, count=size)])] for size in SIZES]
    return _workload(
        count, _gpu_slices(count, 8, 4), [GPU_CLASS], pods, pod_variants=variants, pod_sequence=_size_sequence()
    )


def large_cluster_match(pods: int, count: int = 5000) -> Json:
    """5,000 nodes of 8 GPUs on 2 PCIe roots; up to 4 must share a root, more the fabric of a node."""
    slices = _gpu_slices(count, 8, 4, fabric=lambda node, index: {"string": f"fabric-{node:05d}"})
    variants = [
        [
            claim(
                "gpus",
                [exact("gpus", "gpu", SUITABLE, LARGE, count=size)],
                [{"matchAttribute": PCIE_ROOT if size <= 4 else f"{GPU}/fabric"}],
            )
        ]
        for size in SIZES
    ]
    return _workload(count, slices, [GPU_CLASS], pods, pod_variants=variants, pod_sequence=_size_sequence())


def full_cluster(count: int) -> Json:
    """``count`` nodes of 8 GPUs, all in use by a claim per node; one pod wants one GPU."""
    slices = _gpu_slices(count, 8, 4)
    allocated = []
    for node in range(count):
        results = [
            {"request": "gpus", "driver": GPU, "pool": f"node-{node:05d}", "device": f"gpu-{i}"} for i in range(8)
        ]
        held = claim(f"held-{node}", [exact("gpus", "gpu", count=8)])
        allocated.append({**held, "status": {"allocation": {"devices": {"results": results}}}})
    wanted = claim("gpu", [exact("gpu", "gpu", SUITABLE, LARGE)])
    return _workload(count, slices, [GPU_CLASS], 1, claims_per_pod=[wanted], allocated=allocated)


def unsuitable_cluster(count: int) -> Json:
    """``count`` nodes of 8 free GPUs; one pod wants a larger one."""
    too_large = f'device.capacity["{GPU}"].memory.compareTo(quantity("100Gi")) >= 0'
    wanted = claim("gpu", [exact("gpu", "gpu", SUITABLE, too_large)])
    return _workload(count, _gpu_slices(count, 8, 4), [GPU_CLASS], 1, claims_per_pod=[wanted])


_BOTH, _ALL = {"1": 5.0, "auto": 20.0}, {"1": 2.0, "auto": 10.0}

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("one-device", "500 nodes × 10, one device", one_device, 5000, _BOTH, {"auto": 2000}),
        Workload(
            "first-available", "500 nodes × 10, firstAvailable of 3", first_available, 5000, _BOTH, {"auto": 2000}
        ),
        Workload("match", "500 nodes × 10, 5 requests, matchAttribute", match_attribute, 1000, _BOTH, {"auto": 500}),
        Workload(
            "distinct", "500 nodes × 10, 5 requests, distinctAttribute", distinct_attribute, 1000, _BOTH, {"auto": 400}
        ),
        Workload("partitionable", "500 nodes × 4 GPUs of 14 partitions", partitionable, 5000, _ALL, {"auto": 1000}),
        Workload(
            "backtracking", "the same, 3 partitions of one GPU", partitionable_backtracking, 2000, _ALL, {"auto": 300}
        ),
        Workload("shared-cards", "250 nodes × 4 cards by bandwidth", shared_cards, 5000, {"1": 3.0, "auto": 10.0}, {}),
        Workload("lists", "100 nodes × 64 × 47 values, 32 requests", list_attributes, 200, {"1": 10.0}, {}),
        Workload("large", "5,000 nodes × 8 GPUs, 1 to 8 each", large_cluster, 10_000, {"1": 20.0}, {}, large=True),
        Workload(
            "large-match",
            "5,000 nodes × 8 GPUs, matchAttribute",
            large_cluster_match,
            10_000,
            {"1": 20.0},
            {},
            large=True,
        ),
    )
}
