"""What one random case in five has besides: a VM's size by its instancetype, affinity by names of nodes,
matchLabelKeys, selectors that fail on some devices, and taints of cordoned nodes.

They are put into the case once it is drawn, so that the other seeds stay the cases that tests name.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Final

from devtools.fit.case import ASKER, NAMESPACE, FitCase, Json, of_kind

_EVERY, _VARIED = 5, 1
_NODES: Final = ("n1", "n2", "n3", "gone")
_REVISIONS: Final = ("1", "2")
_CORDONED: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_FAILING: Final = 'device.attributes["a.example.com"].kind == "x"'
"""Most devices have the attribute."""


def varied(seed: int, case: FitCase, *, judged: bool = False) -> FitCase:
    """The case of a seed, one in five with variations. ``judged``: without matchLabelKeys, which an API server writes
    into selectors once and refuses then."""
    if seed % _EVERY != _VARIED:
        return case
    random = Random(seed)
    raw = [deepcopy(obj) for obj in case.raw]
    for node in of_kind(raw, "Node"):
        if node["spec"].get("unschedulable"):
            node["spec"].setdefault("taints", []).append(dict(_CORDONED))
    asker = next(obj for obj in raw if obj["metadata"]["name"] == ASKER)
    spec = _spec_of(asker)
    if random.random() < 0.3:
        spec.setdefault("affinity", {})["nodeAffinity"] = _by_name(random)
    if random.random() < 0.2:
        _select(raw)
    more = _sized(random, asker) if asker["kind"] != "Pod" and random.random() < 0.6 else []
    if asker["kind"] != "Pod" and not judged and random.random() < 0.6:
        _keyed(random, asker, spec, of_kind(raw, "Pod"))
    return replace(case, raw=(*more, *raw))


def _spec_of(asker: Json) -> Json:
    spec: Json = asker["spec"]["template"]["spec"] if asker["kind"] == "VirtualMachine" else asker["spec"]
    return spec


def _by_name(random: Random) -> Json:
    operator = random.choice(("In", "In", "NotIn"))
    field = {"key": "metadata.name", "operator": operator, "values": [random.choice(_NODES)]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}


def _select(raw: list[Json]) -> None:
    """The asker's requests with a selector that fails on devices without the attribute."""
    for obj in raw:
        if obj["kind"] == "ResourceClaimTemplate":
            _select_in(obj["spec"]["spec"])
        elif obj["kind"] == "ResourceClaim" and "status" not in obj:
            _select_in(obj["spec"])


def _select_in(claim_spec: Json) -> None:
    for request in claim_spec["devices"].get("requests", ()):
        if "exactly" in request:
            request["exactly"].setdefault("selectors", []).append({"cel": {"expression": _FAILING}})


def _sized(random: Random, vm: Json) -> list[Json]:
    """The instancetype of a VM, which from now on says how large it is; a VMI becomes a VM."""
    if vm["kind"] == "VirtualMachineInstance":
        template = {"metadata": {"labels": vm["metadata"]["labels"]}, "spec": vm["spec"]}
        vm |= {"kind": "VirtualMachine", "spec": {"runStrategy": "Always", "template": template}}
    spec = {"cpu": {"guest": random.choice((1, 2, 40, 700))}, "memory": {"guest": random.choice(("1Gi", "3Gi"))}}
    del vm["spec"]["template"]["spec"]["domain"]["resources"]
    vm["spec"]["instancetype"] = {"name": "size", "kind": "VirtualMachineInstancetype"}
    metadata = {"name": "size", "namespace": NAMESPACE}
    version = "instancetype.kubevirt.io/v1beta1"
    return [{"apiVersion": version, "kind": "VirtualMachineInstancetype", "metadata": metadata, "spec": spec}]


def _keyed(random: Random, asker: Json, spec: Json, pods: list[Json]) -> None:
    """Pods and asker with revisions, which the asker's selectors of other pods look at."""
    template = asker["spec"]["template"] if asker["kind"] == "VirtualMachine" else asker
    for labelled in (template, *pods):
        labelled["metadata"]["labels"]["rev"] = random.choice(_REVISIONS)
    for term in _terms(spec):
        term["matchLabelKeys"] = ["rev"]


def _terms(spec: Json) -> Iterator[Json]:
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from spec.get("affinity", {}).get(kind, {}).get("requiredDuringSchedulingIgnoredDuringExecution", ())
    yield from spec.get("topologySpreadConstraints", ())
