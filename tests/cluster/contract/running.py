"""How a contract test is run: against every implementation of the port, in a namespace of its own, through the port
alone.

A further implementation joins by an entry in :data:`IMPLEMENTATIONS`; it may be slow and eventually consistent where
Kubernetes is. ``kube`` is the control plane of the test run, with its controllers.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

import pytest

from devtools.cluster.control_plane import ControlPlane
from virt_dra.api.core_v1 import Container, Namespace, Pod, PodSpec
from virt_dra.api.meta import ObjectMeta, ObjectT, TypedObject
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.api.resource_v1 import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceTaintRule,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourcePoolStatusRequest,
    ResourceSlice,
    ResourceSliceSpec,
)
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import ApiError, Cluster, NotFound, WatchEvent

P = ParamSpec("P")
E = TypeVar("E", bound=ApiError)

PATIENCE = 60.0
"""Seconds until something that must happen eventually counts as not happening."""
RUN_LABEL = "contract.example.com/run"
WIDGET = unknown_kind("contract.example.com/v1", "Widget")
"""A custom resource with a status subresource and no schema to speak of."""
WIDGETS: Mapping[str, object] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.contract.example.com"},
    "spec": {
        "group": "contract.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
CLUSTER_SCOPED: tuple[type[TypedObject], ...] = (DeviceClass, ResourceSlice, DeviceTaintRule, ResourcePoolStatusRequest)


@asynccontextmanager
async def memory(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    yield MemoryCluster.deterministic(namespaces_must_exist=True, graceful_deletion=True)


@asynccontextmanager
async def kube(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    # Imported here, since the client's package takes a third of a second.
    from virt_dra.cluster.kube.cluster import connect
    from virt_dra.cluster.kube.limits import ClientLimits

    plane: ControlPlane = request.getfixturevalue("control_plane")
    plane.start_controllers()
    async with connect(str(plane.kubeconfig), limits=ClientLimits(qps=0)) as cluster:
        if plane.server not in _PREPARED:
            await cluster.apply(WIDGETS, field_manager="contract")
            await eventually(partial(_served, cluster))
            _PREPARED.add(plane.server)
        yield cluster


async def _served(cluster: Cluster) -> None:
    try:
        await cluster.list(WIDGET)
    except NotFound as error:
        raise AssertionError(str(error)) from error


_PREPARED: set[str] = set()
"""Servers that serve widgets."""


IMPLEMENTATIONS: Mapping[str, Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Cluster]]] = {
    "memory": memory,
    "kube": kube,
}


def contract(test: Callable[Concatenate[Cluster, str, P], Awaitable[None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Makes ``async def test_x(cluster, namespace, …)`` a test over all implementations. Further parameters are
    pytest's."""

    async def run(implementation: str, request: pytest.FixtureRequest, **values: object) -> None:
        async with IMPLEMENTATIONS[implementation](request) as cluster:
            namespace = (await cluster.create(Namespace(metadata=ObjectMeta(generate_name="contract-")))).name
            try:
                await test(cluster, namespace, **values)  # type: ignore[call-arg, arg-type]  # pytest passes what the signature names
            finally:
                await _clean_up(cluster, namespace)

    run.__name__, run.__doc__, run.__module__ = getattr(test, "__name__", "run"), test.__doc__, test.__module__
    own = list(inspect.signature(test).parameters.values())[2:]
    first = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("implementation", "request")]
    run.__signature__ = inspect.Signature([*first, *own])  # type: ignore[attr-defined]  # what pytest asks for
    run.__dict__.update(pytestmark=list(getattr(test, "pytestmark", ())))
    marks = {"kube": [pytest.mark.control_plane]}
    return pytest.mark.parametrize(
        "implementation", [pytest.param(name, marks=marks.get(name, ())) for name in IMPLEMENTATIONS]
    )(run)


async def _clean_up(cluster: Cluster, namespace: str) -> None:
    for kind in CLUSTER_SCOPED:
        for obj in (await cluster.list(kind, labels=f"{RUN_LABEL}={namespace}")).items:
            await delete_whatever_finalizers(cluster, obj)
    await cluster.delete(Namespace, namespace)


async def delete_whatever_finalizers(cluster: Cluster, obj: TypedObject) -> None:
    try:
        if obj.metadata.finalizers:
            await cluster.patch(type(obj), obj.name, obj.namespace, merge={"metadata": {"finalizers": None}})
        await cluster.delete(type(obj), obj.name, obj.namespace)
    except NotFound:
        return  # it was marked for deletion, and the finalizer was all that kept it


# --- objects that every implementation accepts ----------------------------------------------------------------------


def pod(
    namespace: str, name: str = "", *, labels: Mapping[str, str] | None = None, meta: ObjectMeta | None = None
) -> Pod:
    """A pod that no scheduler touches."""
    base = meta or ObjectMeta()
    named = base.with_(name=name) if name else base
    return Pod(
        metadata=named.with_(namespace=namespace, labels=dict(labels or {})),
        spec=PodSpec.from_wire({
            "containers": [{"name": "compute", "image": "compute"}],
            "schedulerName": "nobody",
            "automountServiceAccountToken": False,
        }),
    )  # fmt: skip


def claim(
    namespace: str, name: str, *, meta: ObjectMeta | None = None, requests: tuple[DeviceRequest, ...] | None = None
) -> ResourceClaim:
    """A claim for one device of class ``gpu``."""
    asked = (
        (DeviceRequest(name="gpu", exactly=ExactDeviceRequest(device_class_name="gpu")),)
        if requests is None
        else requests
    )
    return ResourceClaim(
        metadata=(meta or ObjectMeta()).with_(name=name, namespace=namespace),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=asked)),
    )


def device_class(namespace: str, name: str) -> DeviceClass:
    """Cluster-scoped, so that its name and its label say to which run it belongs."""
    return DeviceClass(metadata=ObjectMeta(name=f"{namespace}-{name}", labels={RUN_LABEL: namespace}))


def resource_slice(namespace: str, name: str, *, node: str, driver: str = "gpu.example.com") -> ResourceSlice:
    pool = ResourcePool(name=f"{namespace}-{name}", generation=1, resource_slice_count=1)
    return ResourceSlice(
        metadata=ObjectMeta(name=f"{namespace}-{name}", labels={RUN_LABEL: namespace}),
        spec=ResourceSliceSpec(driver=driver, node_name=node, pool=pool),
    )


def container(name: str) -> Container:
    return Container(name=name, image=name)


# --- observing ------------------------------------------------------------------------------------------------------


async def refusal(expected: type[E], attempt: Awaitable[object]) -> E:
    """The error of exactly this class with which the cluster refuses."""
    with pytest.raises(expected) as caught:
        await attempt
    assert type(caught.value) is expected
    return caught.value


async def eventually(check: Callable[[], Awaitable[None]]) -> None:
    """Repeats a check until it asserts nothing wrong, for what a real cluster does in the background."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE
    while True:
        try:
            return await check()
        except (AssertionError, pytest.fail.Exception):  # the latter of an attempt that isn't refused yet
            if loop.time() > end:
                raise
            await asyncio.sleep(0.05)


async def events(stream: AsyncIterator[WatchEvent[ObjectT]], number: int) -> list[WatchEvent[ObjectT]]:
    """The next events of a watch, bookmarks left out."""
    events: list[WatchEvent[ObjectT]] = []
    async with asyncio.timeout(PATIENCE):
        while len(events) < number:
            event = await anext(stream)
            if event.type != "BOOKMARK":
                events.append(event)
    return events


def told(events: list[WatchEvent[ObjectT]], prefix: str = "") -> list[tuple[str, str]]:
    """Events in short: type and name, without the part of the name that tells runs apart."""
    return [(event.type, event.object.name.removeprefix(prefix)) for event in events]
