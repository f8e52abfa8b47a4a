"""The table of kinds that are read is true: roles permit what it says and no more, and informers and filters follow
it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from tests.controllers.operator.ambient import ambient
from tests.controllers.operator.inline_explanations import InlineExplanations
from virt_dra.allocator import DEFAULT
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import NEWEST, Gates
from virt_dra.api.meta import TypedObject
from virt_dra.api.wire import Json
from virt_dra.cluster.kinds import resource_of
from virt_dra.cluster.port import Forbidden, Listed, WatchEvent
from virt_dra.controllers.keeping.loop import KeeperSettings, KeepingLoop
from virt_dra.controllers.operator.instance_loop import InstanceLoop, LoopSettings
from virt_dra.controllers.standalone.pod import StandaloneOptions
from virt_dra.controllers.standalone.reconcile import StandaloneSettings
from virt_dra.doctor.gather import gather
from virt_dra.extender.advising_process import AdvisorSettings
from virt_dra.extender.following import FollowedCluster
from virt_dra.installation.kustomize import build
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE, Choices, packaged, planned
from virt_dra.live.world import LiveWorld
from virt_dra.model.kinds import READ, ReadKinds
from virt_dra.operator.keeper_metrics import KeeperMetrics
from virt_dra.operator.metrics import OperatorMetrics
from virt_dra.report_server.following import Following, FollowSettings, Rendered

Grant = tuple[str, str, str]
"""Verb, API group and resource."""
_OF_OBJECTS = frozenset(
    {"", "resource.k8s.io", "kubevirt.io", "virt-dra.io", "instancetype.kubevirt.io", "apps", "storage.k8s.io"}
)


def reading(objects: Iterable[Json], *roles: str) -> set[Grant]:
    """What the ClusterRoles permit to read of kinds that a model may have."""
    return {
        (verb, group, resource)
        for role in objects
        if role["kind"] == "ClusterRole" and role["metadata"]["name"] in roles
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if verb in ("get", "list", "watch") and group in _OF_OBJECTS
    }


def needed(kinds: ReadKinds, *verbs: str) -> set[Grant]:
    resources = [resource_of(kind) for kind in kinds.all]
    return {(verb, resource.group, resource.plural) for resource in resources for verb in verbs}


@pytest.mark.parametrize(
    ("capability", "overlay", "roles"),
    [
        ("webhook", BESIDE_KUBEVIRT, ["virt-dra-webhook"]),
        ("webhook", STANDALONE, ["virt-dra-webhook"]),
        ("operator beside-kubevirt", BESIDE_KUBEVIRT, ["virt-dra-operator", "virt-dra-operator-beside-kubevirt"]),
        ("operator standalone", STANDALONE, ["virt-dra-operator", "virt-dra-operator-standalone"]),
    ],
)
def test_accounts_of_an_installation_may_read_what_they_read_and_nothing_else(
    capability: str, overlay: Any, roles: list[str]
) -> None:
    assert reading(planned(Choices(overlay), packaged()), *roles) == needed(READ[capability], "list", "watch")


@pytest.mark.parametrize(
    ("capability", "base", "role", "verbs"),
    [
        ("extender", "extender", "virt-dra-extender", ["list", "watch"]),
        ("report-server", "report", "virt-dra-report", ["list", "watch"]),
        ("report-server", "report", "virt-dra-report-viewer", ["list"]),
    ],
)
def test_accounts_of_what_is_applied_alone_may_read_what_they_read_and_nothing_else(
    capability: str, base: str, role: str, verbs: list[str]
) -> None:
    assert reading(build(packaged(), base), role) == needed(READ[capability], *verbs)


def test_the_keeper_may_also_read_a_vm_and_its_instance_once_more() -> None:
    granted = reading(build(packaged(), "keeper"), "virt-dra-keeper")
    once_more = needed(ReadKinds(required=(VirtualMachine, VirtualMachineInstance)), "get")
    assert granted == needed(READ["keeper"], "list", "watch") | once_more


class _Asked:
    """A cluster that never answers, and notes which kinds are asked for."""

    def __init__(self) -> None:
        self.kinds: set[type[TypedObject]] = set()

    async def list(self, kind: type[TypedObject], namespace: str = "", **options: str) -> Listed[Any]:
        self.kinds.add(kind)
        await asyncio.Event().wait()
        raise AssertionError

    async def get(self, kind: type[TypedObject], name: str, namespace: str = "") -> Any:
        raise AssertionError

    def watch(self, kind: type[TypedObject], *options: Any, **more: Any) -> AsyncIterator[WatchEvent[Any]]:
        raise AssertionError


async def _entered(following: AbstractAsyncContextManager[None]) -> None:
    async with following:
        await asyncio.Event().wait()


def _operator(cluster: Any, standalone: StandaloneSettings | None) -> Coroutine[Any, Any, None]:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    settings = LoopSettings(standalone=standalone)
    return InstanceLoop(
        cluster, settings, ambient(lambda: now), OperatorMetrics(), InlineExplanations()
    ).run_informers()


def _keeper(cluster: Any) -> Coroutine[Any, Any, None]:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return KeepingLoop(cluster, KeeperSettings(), ambient(lambda: now), KeeperMetrics()).run_informers()


def _rendered(*of: object, **options: object) -> Rendered:
    raise AssertionError


@pytest.mark.parametrize(
    ("capability", "following"),
    [
        ("webhook", lambda cluster: _entered(LiveWorld(cluster).following())),
        ("operator beside-kubevirt", lambda cluster: _operator(cluster, None)),
        (
            "operator standalone",
            lambda cluster: _operator(
                cluster, StandaloneSettings(Gates.for_version(NEWEST), StandaloneOptions("launcher"))
            ),
        ),
        ("keeper", _keeper),
        (
            "extender",
            lambda cluster: _entered(FollowedCluster(cluster, AdvisorSettings("packing", DEFAULT)).following()),
        ),
        ("report-server", lambda cluster: Following(cluster, FollowSettings(_rendered), lambda message: None).run()),
    ],
)
async def test_informers_follow_the_kinds_of_the_table(
    capability: str, following: Callable[[Any], Coroutine[Any, Any, None]]
) -> None:
    cluster = _Asked()
    task = asyncio.create_task(following(cluster))
    async with asyncio.timeout(60):
        while cluster.kinds != set(READ[capability].all):
            assert cluster.kinds <= set(READ[capability].all)
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


_CHOOSY: dict[str, Any] = {
    "spec": {"configuration": {"mediatedDevicesConfiguration": {"nodeMediatedDeviceTypes": [{}]}}}
}


class _ForbiddingAll:
    """A cluster that refuses everything but a KubeVirt object for which nodes matter, and notes the kinds that doctor
    lists."""

    def __init__(self) -> None:
        self.listed: set[tuple[str, str]] = set()

    async def list_raw(self, api_version: str, kind: str, *scope: str, **options: str) -> Any:
        self.listed.add((api_version, kind))
        if kind == "KubeVirt":
            return [_CHOOSY]
        raise Forbidden("no")

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def refused(*arguments: object, **options: object) -> Any:
            raise Forbidden("no")

        return refused


async def test_doctor_lists_the_kinds_of_the_table_beside_what_is_installed() -> None:
    cluster = _ForbiddingAll()
    await gather(cast("Any", cluster), "default")
    installed = {("apps/v1", "Deployment"), ("apps/v1", "DaemonSet"), ("v1", "Pod")}
    assert cluster.listed - installed == {(kind.API_VERSION, kind.KIND) for kind in READ["doctor"].all}


def test_one_readable_kind_of_several_is_one_that_is_read() -> None:
    assert [name for name, kinds in READ.items() if not set(kinds.one_of) <= set(kinds.all)] == []
