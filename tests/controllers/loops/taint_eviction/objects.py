"""Slices, claims, pods and rules in few words, all of the namespace lab."""

from __future__ import annotations

from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.simulator.virtual_time import BEGINNING

DRIVER = "gpu.example.com"
SPEC: Json = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
ADDED = "2026-11-22T12:00:00Z"
"""When every taint was added: the time at which virtual clocks begin."""
assert BEGINNING.isoformat() == "2026-11-22T12:00:00+00:00"


def taint(key: str = "bad", effect: str = "NoExecute", **more: Json | str) -> Json:
    return {"key": key, "effect": effect, "timeAdded": ADDED, **more}


def gpus(
    devices: dict[str, list[Json]], name: str = "slice", *, pool: str = "node-a", generation: int = 1
) -> ResourceSlice:
    """A slice whose devices are named, each with its taints."""
    listed = [{"name": device, **({"taints": taints} if taints else {})} for device, taints in devices.items()]
    spec = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
        "nodeName": "node-a",
        "devices": listed,
    }
    return ResourceSlice.from_wire({"metadata": {"name": name}, "spec": spec})


def rule(
    name: str = "rule", *, effect: str = "NoExecute", selector: Json | None = None, **spec: Json
) -> DeviceTaintRule:
    """A rule that selects all devices, unless it is given a selector."""
    wire = {
        "metadata": {"name": name},
        "spec": {"deviceSelector": {} if selector is None else selector, "taint": taint(effect=effect), **spec},
    }
    return DeviceTaintRule.from_wire(wire)


def result(device: str = "gpu-0", *, pool: str = "node-a", **more: Json | list[Json] | bool) -> Json:
    return {"request": "gpu", "driver": DRIVER, "pool": pool, "device": device, **more}


def toleration(seconds: int | None = None, *, effect: str = "NoExecute", key: str = "bad") -> Json:
    return {
        "key": key,
        "operator": "Exists",
        "effect": effect,
        **({} if seconds is None else {"tolerationSeconds": seconds}),
    }


def claim(name: str = "claim", *results: Json, reserved: tuple[Pod, ...] = ()) -> ResourceClaim:
    consumers = [{"resource": "pods", "name": pod.name, "uid": pod.metadata.uid} for pod in reserved]
    status = {"allocation": {"devices": {"results": list(results or (result(),))}}, "reservedFor": consumers}
    return ResourceClaim.from_wire({"metadata": {"name": name, "namespace": "lab"}, "spec": SPEC, "status": status})


def pod(
    name: str = "vm",
    *claims: str,
    node: str | None = "node-a",
    namespace: str = "lab",
    finalizers: tuple[str, ...] = (),
) -> Pod:
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims or ("claim",)]
    spec = {
        "containers": [{"name": "compute", "image": "launcher"}],
        "resourceClaims": entries,
        **({"nodeName": node} if node else {}),
    }
    return Pod.from_wire(
        {
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "finalizers": list(finalizers)},
            "spec": spec,
        }
    )
