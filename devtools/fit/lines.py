"""Random VMs that ask for devices by a line of profiles, and the same VMs as ``render-profile`` writes them out."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from devtools.fit import clusters
from devtools.fit.case import ASKER, NAMESPACE, FitCase, Json
from devtools.fit.clusters import PlainMix
from devtools.upstream.allocator.problems import attributes
from devtools.upstream.allocator.problems.claims import CLASSES
from devtools.upstream.allocator.problems.mix import Mix
from virt_dra.api.profiles.manifests import rendered
from virt_dra.api.validation.rules import DEFAULT_RULES

_PROFILES: Final = ("p0", "p1")
_ATTRIBUTES: Final = ("pcieRoot", "numaNode", "a.example.com/numa", "common.io/root")


def lined_case(seed: int) -> FitCase:
    """A cluster with profiles, and an asker that asks for some of them."""
    mix = PlainMix.drawn(Random(seed))
    cluster = clusters.cluster(mix)
    profiles = [_profile(mix, name) for name in _PROFILES]
    items = [_item(mix, number) for number in range(mix.choice((1, 1, 2)))]
    return FitCase((*cluster, *profiles, _asker(mix, ", ".join(items))))


def rendered_case(case: FitCase) -> FitCase | None:
    """The same question without lines; None where the line is refused."""
    written = rendered(case.sourced, NAMESPACE, DEFAULT_RULES)
    return None if written.refused else replace(case, raw=tuple(obj.to_wire() for obj in written.objects))


def _item(mix: Mix, number: int) -> str:
    profile = mix.choice(_PROFILES) if mix.chance(0.95) else "nobodys"
    copies = mix.choice(("", "", "", " x 2"))
    return f"item-{number}={profile}{copies}"


def _profile(mix: Mix, name: str) -> Json:
    devices = [_device(mix, f"d{number}") for number in range(mix.choice((1, 2, 2, 3)))]
    spec: Json = {"devices": devices}
    if mix.chance(0.5):
        spec["align"] = [{"attribute": mix.choice(_ATTRIBUTES)}]
    if mix.chance(0.1):
        spec["namespaceSelector"] = {"matchLabels": {"team": "nobody"}}
    metadata = {"name": name}
    return {"apiVersion": "virt-dra.io/v1alpha1", "kind": "DeviceProfile", "metadata": metadata, "spec": spec}


def _device(mix: Mix, name: str) -> Json:
    device: Json = {"name": name, "type": mix.choice(("GPU", "HostDevice")), "deviceClassName": mix.choice(CLASSES)}
    if mix.chance(0.2):
        device["count"] = 2
    if mix.chance(0.3):
        device["selectors"] = [attributes.selector(mix)]
    return device


def _asker(mix: Mix, line: str) -> Json:
    metadata = {"name": ASKER, "namespace": NAMESPACE}
    annotations = {"virt-dra.io/devices": line}
    spec = {"domain": {"devices": {}, "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}}
    if mix.chance(0.5):
        vmi = {**metadata, "annotations": annotations}
        return {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": vmi, "spec": spec}
    template = {"metadata": {"annotations": annotations}, "spec": spec}
    vm = {"runStrategy": "Always", "template": template}
    return {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": metadata, "spec": vm}
