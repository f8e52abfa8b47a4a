"""Whether a VM's claims could be served at all: the scheduler and the allocator, asked on a cluster in which nobody uses a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from virt_dra.allocator import Snapshot
from virt_dra.api.core_v1 import Node, Pod, PodResourceClaimStatus
from virt_dra.api.defaults import apply_defaults
from virt_dra.api.go_text import quoted
from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceSlice,
)
from virt_dra.controllers import launcher_pods
from virt_dra.controllers.claims import generated_claim
from virt_dra.controllers.virtual_machines import instance_of
from virt_dra.scheduling.placement import ClusterView, Unplaced, place
from virt_dra.simulator.embedded import labelled, stand_ins
from webhooks.lint.world import Configuration, Subject

O = TypeVar("O", bound=TypedObject)  # noqa: E741 - the object type, as in cluster.port

NO_STATUS = ResourceClaimStatus()
NOW = "1970-01-01T00:00:00Z"
UID = "00000000-0000-4000-8000-000000000000"


class Fitting:
    """Implements :data:`webhooks.lint.world.Fits` over the objects of an input or of a cluster. Nothing is done until it is first asked."""

    def __init__(self, objects: Sequence[TypedObject], configuration: Configuration) -> None:
        self._objects = objects
        self._configuration = configuration

    def __call__(self, subject: Subject, namespace: str) -> str | None:
        """Why no node could serve the VM; None where one could, or where something else is wrong that others say better."""
        pod = self._pod(subject, namespace)
        claims = self._claims(pod) if pod is not None else None
        if pod is None or claims is None or not (claims or any(isinstance(each, Node) for each in self._objects)):
            return None
        names = tuple(PodResourceClaimStatus(name=entry, resource_claim_name=claim.name) for entry, claim in claims)
        held = {claim.key: claim.status.allocation for _, claim in claims if claim.status.allocation is not None}
        snapshot = self._snapshot.with_allocation(*held.values())
        view = ClusterView(self._nodes, {claim.key: claim for _, claim in claims}, snapshot)
        outcome = place(pod.with_(status=pod.status.with_(resource_claim_statuses=names)), view)
        return _why(outcome) if isinstance(outcome, Unplaced) else None

    @cached_property
    def _snapshot(self) -> Snapshot:
        of = self._of_kind
        return Snapshot.build(of(ResourceSlice), of(DeviceClass), (), of(DeviceTaintRule))

    @cached_property
    def _nodes(self) -> tuple[Node, ...]:
        there = (*self._objects, *stand_ins(self._objects, None))
        return tuple(sorted((labelled(each) for each in there if isinstance(each, Node)), key=lambda node: node.name))

    def _of_kind(self, kind: type[O]) -> list[O]:
        """As an API server would have stored them."""
        return [defaulted for each in self._objects if isinstance(each, kind) and isinstance(defaulted := apply_defaults(each, NOW), kind)]

    @cached_property
    def _templates(self) -> Mapping[str, ResourceClaimTemplate]:
        return {each.key: each for each in self._of_kind(ResourceClaimTemplate)}

    @cached_property
    def _direct(self) -> Mapping[str, ResourceClaim]:
        """Nobody uses them; those that are allocated keep their devices, which can't be chosen again."""
        return {
            each.key: each.with_(status=ResourceClaimStatus(allocation=each.status.allocation) if each.status.allocation else NO_STATUS)
            for each in self._of_kind(ResourceClaim)
        }

    def _pod(self, subject: Subject, namespace: str) -> Pod | None:
        subject = subject.with_(metadata=subject.metadata.with_(namespace=namespace, uid=UID))
        vmi = instance_of(subject) if isinstance(subject, VirtualMachine) else subject
        pod = launcher_pods.render(vmi, self._configuration.gates, self._configuration.permitted)
        if not isinstance(pod, Pod):
            return None
        return pod.with_(metadata=pod.metadata.with_(name="virt-launcher", namespace=namespace, uid=UID))

    def _claims(self, pod: Pod) -> list[tuple[str, ResourceClaim]] | None:
        """By entry: those that are named, and those that would be generated; None where one can't be had."""
        found: list[tuple[str, ResourceClaim]] = []
        for number, entry in enumerate(pod.spec.resource_claims):
            if entry.resource_claim_template_name is not None:
                template = self._templates.get(f"{pod.namespace}/{entry.resource_claim_template_name}")
                if template is None:
                    return None
                made = generated_claim(pod, entry.name, template)
                found.append((entry.name, made.with_(metadata=made.metadata.with_(name=f"generated-{number}", uid=f"generated-{number}"))))
            else:
                claim = self._direct.get(f"{pod.namespace}/{entry.resource_claim_name}")
                if claim is None:
                    return None
                found.append((entry.name, claim.with_(metadata=claim.metadata.without("deletion_timestamp"))))
        return found


def _why(outcome: Unplaced) -> str:
    """``0/2 nodes can allocate: …``, and the request at which the first of the nodes gives up."""
    first = next((node.explanation for node in outcome.nodes if node.explanation is not None), None)
    blocking = first.blocking if first is not None else None
    if first is None or blocking is None:
        return outcome.message
    return (
        f"{outcome.message}; on {first.node} request {quoted(blocking.request)} gets {blocking.placed} of {blocking.wanted} devices at best"
    )
