"""Follows a cluster for the advisor: informers of what it gets, trimmed to what it reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from virt_dra.api.core_v1 import Container, Namespace, Node, NodeStatus, Pod, PodSpec, PodStatus
from virt_dra.api.integration.paths import POLICY_ANNOTATION
from virt_dra.api.meta import ObjectMeta, ObjectT, TypedObject
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimStatus, ResourceSlice
from virt_dra.cluster.watching.informer import Informer, InformerObserver, ListerWatcher, running
from virt_dra.extender.advising_process import AdvisingProcess, AdvisorSettings


class FollowedCluster:
    """Keeps the advising process up to date while :meth:`following`."""

    def __init__(
        self, cluster: ListerWatcher, settings: AdvisorSettings, observer: InformerObserver | None = None
    ) -> None:
        def informer(kind: type[ObjectT], **options: Any) -> Informer[ObjectT]:
            made = Informer(cluster, kind, observer=observer, **options)
            made.on_change(self._changed)
            return made

        self.informers: tuple[Informer[Any], ...] = (
            informer(Node, transform=_node),
            informer(ResourceSlice, transform=_bare),
            informer(DeviceClass, transform=_bare),
            informer(DeviceTaintRule, transform=_bare, optional=True),
            informer(ResourceClaim, transform=_claim),
            informer(Pod, transform=_pod),
            informer(Namespace, transform=_namespace),
        )
        self.process = AdvisingProcess(settings, self._everything)

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The kinds that haven't been read yet."""
        return tuple(informer.kind.KIND for informer in self.informers if not informer.has_synced)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follows while the body runs, which begins at once."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._follow())
            try:
                yield
            finally:
                task.cancel()

    async def _follow(self) -> None:
        async with running(*self.informers):
            await self.process.keep()

    def _changed(self, old: TypedObject | None, new: TypedObject | None) -> None:
        if new is None:
            if old is not None:
                self.process.remove(old)
        elif old is None or not _same(old, new):
            self.process.put(new)

    def _everything(self) -> Iterator[TypedObject]:
        for informer in self.informers:
            yield from informer.store.values()


def _same(old: TypedObject, new: TypedObject) -> bool:
    """True if the update touches only fields that the advisor doesn't read, such as a node's heartbeat."""
    return old.with_(metadata=old.metadata.without("resource_version")) == new.with_(
        metadata=new.metadata.without("resource_version")
    )


# --- what is kept of objects --------------------------------------------------------------------------------------


def _identity(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version)


def _bare(obj: ObjectT) -> ObjectT:
    return obj.with_(metadata=_identity(obj.metadata))


def _node(node: Node) -> Node:
    status = NodeStatus(allocatable=node.status.allocatable, declared_features=node.status.declared_features)
    return Node(metadata=_identity(node.metadata).with_(labels=node.metadata.labels), status=status)


def _claim(claim: ResourceClaim) -> ResourceClaim:
    status = (
        ResourceClaimStatus()
        if claim.status.allocation is None
        else ResourceClaimStatus(allocation=claim.status.allocation)
    )
    return ResourceClaim(metadata=_identity(claim.metadata), spec=claim.spec, status=status)


def _pod(pod: Pod) -> Pod:
    spec = PodSpec(
        containers=tuple([_container(container) for container in pod.spec.containers]),
        init_containers=tuple([_container(container) for container in pod.spec.init_containers]),
        resource_claims=pod.spec.resource_claims,
    )
    for field in ("node_name", "overhead", "resources"):
        if pod.spec.given(field):
            spec = spec.with_(**{field: getattr(pod.spec, field)})
    status = PodStatus(phase=pod.status.phase, resource_claim_statuses=pod.status.resource_claim_statuses)
    return Pod(metadata=_identity(pod.metadata), spec=spec, status=status)


def _container(container: Container) -> Container:
    kept = Container(name=container.name, resources=container.resources)
    return kept.with_(restart_policy=container.restart_policy) if container.restart_policy is not None else kept


def _namespace(namespace: Namespace) -> Namespace:
    named = {key: value for key, value in namespace.metadata.annotations.items() if key == POLICY_ANNOTATION}
    return Namespace(metadata=_identity(namespace.metadata).with_(annotations=named))
