"""Reasons why virt-dra can't be installed on a cluster. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from virt_dra.installation.plan import (
    BESIDE_KUBEVIRT,
    MONITORING,
    MONITORING_API,
    STANDALONE,
    Choices,
    ObjectKey,
    is_ours,
)
from virt_dra.installation.survey import KUBEVIRTS, OURS, Survey

TOO_OLD_FOR_THE_KEEPER: Final = (
    "Kubernetes {}'s claim controller leaves pods that have ended among the users of a claim that a VM keeps, and the "
    "policy virt-dra-keeper-consumers doesn't let the keeper remove them, so that nothing is ever released "
    "(1.36 and newer remove them)"
)
_RELEASE: Final = re.compile(r"v?1\.(\d{1,4})")
_REMOVES_ENDED_PODS: Final = 36


def leaves_ended_pods(version: str) -> bool:
    """True of Kubernetes 1.34 and 1.35 (P-4). ``version``: such as v1.35.2."""
    release = _RELEASE.match(version)
    return release is not None and int(release[1]) < _REMOVES_ENDED_PODS


def refusals(seen: Survey, choices: Choices) -> tuple[str, ...]:
    """Every reason, each with its remedy; empty if virt-dra can be installed."""
    return (*_wrong_cluster(seen, choices), *_wrong_place(seen, choices))


def _wrong_cluster(seen: Survey, choices: Choices) -> Iterable[str]:
    if "resource.k8s.io/v1" not in seen.api_versions:
        yield "the cluster doesn't serve resource.k8s.io/v1: virt-dra needs Kubernetes 1.34 or newer"
    if choices.cert_manager and "cert-manager.io/v1" not in seen.api_versions:
        yield "the cluster doesn't serve cert-manager.io/v1: install cert-manager, or leave out --cert-manager"
    if MONITORING in choices.parts and MONITORING_API not in seen.api_versions:
        yield f"the cluster doesn't serve {MONITORING_API}: install the Prometheus operator, or leave out --monitoring"
    if "keeper" in choices.parts and leaves_ended_pods(seen.version):
        yield f"{TOO_OLD_FOR_THE_KEEPER.format(seen.version)}: upgrade, or leave out --keeper"
    foreign = sorted(name for name, crd in seen.crds.items() if not is_ours(crd))
    own = sorted(name for name, crd in seen.crds.items() if is_ours(crd))
    if choices.overlay == STANDALONE and foreign:
        yield (
            f"KubeVirt is on this cluster ({', '.join(foreign)}), and the overlay standalone would replace its CRDs: "
            f"use --overlay {BESIDE_KUBEVIRT}"
        )
    if choices.overlay == BESIDE_KUBEVIRT and KUBEVIRTS not in seen.crds:
        but = ", but virt-dra's own CRDs of VirtualMachines are (remove them with: virt-dra uninstall --delete-vms)"
        yield (
            f"KubeVirt is not on this cluster (there is no {KUBEVIRTS}){but if own else ''}: install KubeVirt first, "
            f"or use --overlay {STANDALONE}"
        )
    elif choices.overlay == BESIDE_KUBEVIRT and own:
        yield (
            f"{', '.join(own)} are virt-dra's own (overlay standalone), not KubeVirt's: "
            "remove them with: virt-dra uninstall --delete-vms"
        )


def _wrong_place(seen: Survey, choices: Choices) -> Iterable[str]:
    elsewhere = sorted({deployment["metadata"]["namespace"] for deployment in seen.deployments} - {choices.namespace})
    if elsewhere:
        yield (
            f"virt-dra is already installed in the namespace {', '.join(elsewhere)}, and a cluster can have only one: "
            f"use --own-namespace {elsewhere[0]}, or remove it there first with: virt-dra uninstall"
        )
    for key, obj in seen.there.items():
        if key.kind != "Namespace" and not is_ours(obj) and not (elsewhere and not key.namespace):
            yield f"{key} exists and isn't virt-dra's (it lacks the label {OURS}): rename or remove it"


def keeps_namespace(seen: Survey, key: ObjectKey) -> bool:
    """True if the namespace exists and isn't ours: then it is used as it is, and stays when virt-dra is removed."""
    there = seen.there.get(key)
    return there is not None and not is_ours(there)
