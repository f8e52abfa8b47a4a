"""Removes an installation from a cluster: reads what is there, and applies the plan of
:mod:`virt_dra.installation.removal`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from virt_dra.api.kubevirt_v1 import API_VERSION as KUBEVIRT
from virt_dra.api.wire import Json
from virt_dra.cluster.port import NotFound
from virt_dra.installation.apply import ChangeReport, WaitDeadline, object_of, ours, pods_in, remove
from virt_dra.installation.plan import WORKLOADS, ObjectKey, possible_namespaces
from virt_dra.installation.removal import VMI_ANNOTATIONS, Removal, namespaces_of, removal
from virt_dra.installation.survey import OURS, VMIS, Objects, list_or_none

LEASE: Final = "virt-dra-operator"


class SeveralNamespaces(Exception):
    """virt-dra has objects in several namespaces, of which the user must choose one."""

    def __init__(self, namespaces: Sequence[str]) -> None:
        super().__init__(
            f"virt-dra has objects in the namespaces {', '.join(namespaces)}: choose one with --own-namespace"
        )


async def planned_removal(cluster: Objects, namespace: str | None, *, delete_vms: bool) -> Removal:
    """The plan for a cluster. ``namespace``: None for where virt-dra is. Raises :class:`SeveralNamespaces`, the port's
    exceptions."""
    if namespace is None:
        deployments = await cluster.list_raw("apps/v1", "Deployment", labels=OURS)
        namespaces = namespaces_of(deployments, await cluster.list_raw("v1", "Namespace", labels=OURS))
        if len(namespaces) > 1:
            raise SeveralNamespaces(namespaces)
        namespace = namespaces[0] if namespaces else "virt-dra"
    there = await ours(cluster, namespace)
    stored: dict[str, tuple[Json, ...]] = {}
    for crd in (obj for obj in there if obj["kind"] == "CustomResourceDefinition"):
        version = next(served["name"] for served in crd["spec"]["versions"] if served["storage"])
        stored[crd["metadata"]["name"]] = await list_or_none(
            cluster, f"{crd['spec']['group']}/{version}", crd["spec"]["names"]["kind"]
        )
    if VMIS not in stored:  # KubeVirt's
        stored[VMIS] = await list_or_none(cluster, KUBEVIRT, "VirtualMachineInstance")
    return removal(namespace, there, stored, delete_vms=delete_vms)


async def apply_removal(cluster: Objects, plan: Removal, report: ChangeReport, deadline: WaitDeadline) -> None:
    """Carry out the plan. Raises NotReady if an object remains at the deadline."""
    kinds = [key.kind for key in plan.keys]
    workload_ends = max((index for index, kind in enumerate(kinds) if kind in WORKLOADS), default=-1) + 1
    for key in plan.keys[:workload_ends]:
        await remove(cluster, key, report)

    async def running() -> list[str]:
        pods = await pods_in(cluster, possible_namespaces(plan.namespace))
        return [f"{ObjectKey.from_object(pod, 'Pod')} is still running" for pod in pods]

    if workload_ends:
        await deadline.until(running, report.emit)
    # Only now, because a running operator would write it again.
    for key in plan.annotated:
        with suppress(NotFound):  # the VM has been stopped meanwhile
            removed = {"metadata": {"annotations": dict.fromkeys(VMI_ANNOTATIONS)}}
            await cluster.patch_raw(KUBEVIRT, key.kind, key.name, key.namespace, merge=removed)
    # The namespace comes after the CRDs: it is emptied kind by kind, and a kind that is being deleted delays that.
    rest = (*plan.keys[workload_ends:], ObjectKey("Lease", plan.namespace, LEASE))
    for kind_is_namespace in (False, True):
        for key in rest:
            if (key.kind == "Namespace") is kind_is_namespace:
                await remove(cluster, key, report)

        async def terminating() -> list[str]:
            objects = [(key, await object_of(cluster, key)) for _, key in report.done]
            return [f"{key} is being deleted" for key, obj in objects if obj is not None]

        await deadline.until(terminating, report.emit)
