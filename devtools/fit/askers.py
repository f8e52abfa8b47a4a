"""Random VMs and pods that want a node, with the claims and templates that they name."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from devtools.fit import clusters
from devtools.fit.case import ASKER, NAMESPACE, FitCase, Json, of_kind
from devtools.fit.clusters import APPS, ZONES, JudgedMix, PlainMix
from devtools.fit.variations import varied
from devtools.upstream.allocator.problems.claims import claim
from devtools.upstream.allocator.problems.mix import Mix

_TRIES: Final = 20
_MISSING_PARTS: Final = {"nothing": 12.0, "pods": 1.0, "nodes": 1.0, "allocatable": 1.0, "resource": 0.5}
"""What a dump may lack."""


def fit_case(seed: int) -> FitCase:
    """The case of a seed; of some clusters not everything is known."""
    mix = PlainMix.drawn(Random(seed))
    return varied(seed, _with_gaps(mix, _case(mix)))


def judged_case(seed: int) -> FitCase:
    """One that kube-scheduler can judge."""
    return varied(seed, _case(JudgedMix.drawn(Random(seed))), judged=True)


def _case(mix: Mix) -> FitCase:
    cluster = clusters.cluster(mix)
    asker = _asker(mix, cluster)
    return FitCase((*cluster, *asker))


def _with_gaps(mix: Mix, case: FitCase) -> FitCase:
    match mix.pick(_MISSING_PARTS):
        case "pods":
            if not case.asks_as_vm or not of_kind(case.raw, "Pod"):
                return case
            kept = tuple(raw for raw in case.raw if raw["kind"] not in ("Pod", "VirtualMachineInstance"))
            asker = tuple(raw for raw in case.raw if raw["kind"] == "VirtualMachineInstance" and _is_asker(raw))
            return FitCase((*kept, *asker))
        case "nodes":
            return FitCase(tuple(raw for raw in case.raw if raw["kind"] != "Node"), gaps=True)
        case "allocatable":
            silent = mix.choice(of_kind(case.raw, "Node"))
            return FitCase(tuple(_silent(raw) if raw is silent else raw for raw in case.raw), gaps=True)
        case "resource":
            for node in of_kind(case.raw, "Node"):
                del node["status"]["allocatable"][clusters.EXTENDED]
            return FitCase(case.raw, gaps=True)
    return case


def _is_asker(raw: Json) -> bool:
    name: str = raw["metadata"]["name"]
    return name == ASKER


def _silent(node: Json) -> Json:
    return {key: value for key, value in node.items() if key != "status"}


def _asker(mix: Mix, cluster: list[Json]) -> list[Json]:
    """The asker, preceded by the claims and templates that it names."""
    named: list[Json] = []
    claims: dict[str, Json] = {}
    entries: list[Json] = []
    for number in range(mix.pick({0: 3, 1: 6, 2: 2})):
        asked = claims[f"asked-{number}"] = _claim(mix, f"asked-{number}")
        if mix.chance(0.7):
            named.append(_template(asked))
            entries.append({"name": f"entry-{number}", "resourceClaimTemplateName": f"asked-{number}"})
        else:
            named.append(asked)
            entries.append({"name": f"entry-{number}", "resourceClaimName": f"asked-{number}"})
    shared = [raw for raw in of_kind(cluster, "ResourceClaim") if "reservedFor" in raw["status"] and mix.chance(0.03)]
    for raw in shared[:1]:  # its devices are the asker's, too, wherever they are
        raw["status"]["allocation"] = {**raw["status"]["allocation"], "nodeSelector": _on_node(mix, cluster)}
        entries.append({"name": "held", "resourceClaimName": raw["metadata"]["name"]})
    asker = _pod(mix, entries) if mix.chance(0.4) else _vm(mix, entries, claims)
    return [*named, asker]


def _on_node(mix: Mix, cluster: list[Json]) -> Json:
    name = mix.choice(of_kind(cluster, "Node"))["metadata"]["name"]
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def _claim(mix: Mix, name: str) -> Json:
    """One that an API server stores."""
    for _ in range(_TRIES):
        raw = claim(mix, name)
        raw = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **raw}
        raw["metadata"] = {"name": name, "namespace": NAMESPACE}
        if clusters.accepted(raw):
            return raw
    raw["spec"] = {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "c0"}}]}}
    return raw


def _template(claim_: Json) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": claim_["metadata"],
        "spec": {"spec": claim_["spec"]},
    }


# --- what it wants of its node ------------------------------------------------------------------------------------


def _wishes(mix: Mix, app: str) -> Json:
    """nodeSelector, affinity, tolerations and topology spread, of a VM as of a pod."""
    wishes: Json = {}
    if mix.chance(0.2):
        wishes["nodeSelector"] = mix.choice(({"zone": mix.choice(ZONES)}, {"gpu": "yes"}))
    affinity = clusters.relations(mix, 0.3).get("affinity", {})
    if mix.chance(0.2):
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_term(mix)]}
        }
    if affinity:
        wishes["affinity"] = affinity
    if mix.chance(0.5):
        wishes["tolerations"] = [_toleration(mix) for _ in range(mix.choice((1, 1, 2)))]
    if mix.chance(0.45):
        wishes["topologySpreadConstraints"] = [_spread(mix, app)]
    return wishes


def _term(mix: Mix) -> Json:
    expressions: tuple[Json, ...] = (
        {"key": "zone", "operator": "In", "values": ["z1", "z2"]},
        {"key": "zone", "operator": "NotIn", "values": ["z1"]},
        {"key": "gpu", "operator": "Exists"},
        {"key": "gpu", "operator": "DoesNotExist"},
        {"key": "rank", "operator": "Gt", "values": ["3"]},
        {"key": "rank", "operator": "Lt", "values": ["7"]},
    )
    return {"matchExpressions": [dict(mix.choice(expressions)) for _ in range(mix.choice((1, 1, 2)))]}


def _toleration(mix: Mix) -> Json:
    toleration: Json = mix.choice(
        (
            {"operator": "Exists"},
            {"key": "k", "operator": "Exists"},
            {"key": "k", "operator": "Equal", "value": "v"},
            {"key": "k", "value": "w"},
            {"key": "size", "operator": "Exists"},
            {"key": "size", "operator": "Gt", "value": "3"},
            {"key": "size", "operator": "Gt", "value": "8"},
            {"key": "size", "operator": "Lt", "value": "8"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
        )
    )
    effect = mix.pick({"": 3, "NoSchedule": 3, "NoExecute": 1})
    return {**toleration, **({"effect": effect} if effect else {})}


def _spread(mix: Mix, app: str) -> Json:
    return {
        "maxSkew": mix.choice((1, 1, 1, 2)),
        "topologyKey": mix.choice(("kubernetes.io/hostname", "zone")),
        "whenUnsatisfiable": mix.pick({"DoNotSchedule": 5, "ScheduleAnyway": 1}),
        "labelSelector": {"matchLabels": {"app": app if mix.chance(0.8) else mix.choice(APPS)}},
    }


def _pod(mix: Mix, entries: list[Json]) -> Json:
    app = mix.choice(APPS)
    container: Json = {
        "name": "compute",
        "image": "i",
        "resources": clusters.resources(mix, "64" if mix.chance(0.08) else ""),
    }
    if entries:
        container["resources"]["claims"] = [{"name": entry["name"]} for entry in entries]
    if mix.chance(0.7):
        container["ports"] = [clusters.host_port(mix)]
    spec: Json = {"containers": [container], **_wishes(mix, app)}
    if entries:
        spec["resourceClaims"] = entries
    metadata = {"name": ASKER, "namespace": NAMESPACE, "uid": f"uid-of-{ASKER}", "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def _vm(mix: Mix, entries: list[Json], claims: Mapping[str, Json]) -> Json:
    app = mix.choice(APPS)
    devices: dict[str, list[Json]] = {"gpus": [], "hostDevices": []}
    for entry in entries:
        name = entry.get("resourceClaimTemplateName") or entry["resourceClaimName"]
        asked = claims[name]["spec"]["devices"]["requests"] if name in claims else [{"name": "r"}]
        for request in asked:
            kind = mix.choice(("gpus", "hostDevices"))
            devices[kind].append(
                {
                    "name": f"{entry['name']}-{request['name']}",
                    "claimName": entry["name"],
                    "requestName": request["name"],
                }
            )
    cpu = mix.pick({"100m": 2.0, "1": 4.0, "2": 3.0, "64": 1.0})
    requests = {"cpu": cpu, "memory": mix.choice(("64Mi", "1Gi", "3Gi"))}
    spec = {
        "domain": {
            "devices": {key: value for key, value in devices.items() if value},
            "resources": {"requests": requests},
        },
        **_wishes(mix, app),
    }
    if entries:
        spec["resourceClaims"] = entries
    metadata = {"name": ASKER, "namespace": NAMESPACE, "labels": {"app": app}}
    vmi = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": metadata, "spec": spec}
    if mix.chance(0.7):
        return vmi
    template = {"metadata": {"labels": metadata["labels"]}, "spec": spec}
    return {
        **vmi,
        "kind": "VirtualMachine",
        "spec": {"runStrategy": "Always", "template": template},
    }
