"""CRDs under KubeVirt's names with what installing checks: they exist, and they aren't ours."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def crd(kind: str, plural: str, group: str = "kubevirt.io", version: str = "v1") -> Json:
    """Takes every object."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}],
        },
    }


KUBEVIRT_CRDS = (
    crd("KubeVirt", "kubevirts"),
    crd("VirtualMachine", "virtualmachines"),
    crd("VirtualMachineInstance", "virtualmachineinstances"),
)
