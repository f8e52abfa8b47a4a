"""Informers on a real control plane: cut connections, an API server that restarts, a history that was compacted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.scripted_server import CuttingProxy, cutting_proxy
from tests.cluster.contract.running import claim, eventually, resource_slice
from tests.cluster.update_with_retry import update_with_retry
from virt_dra.api.meta import ObjectMeta, ObjectT
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.cluster.kube.cluster import KubeCluster, connect
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.cluster.port import ApiError, Gone, Listed, Unavailable
from virt_dra.cluster.watching.informer import Informer, NoInformerObserver, running

pytestmark = pytest.mark.control_plane

QUICK = ClientLimits(qps=0, patience=20, silence=30)


@asynccontextmanager
async def through_a_proxy(plane: ControlPlane, folder: Path) -> AsyncIterator[tuple[KubeCluster, CuttingProxy]]:
    async with cutting_proxy("127.0.0.1", plane.port) as proxy:
        path = folder / "kubeconfig"
        path.write_text(Path(plane.kubeconfig).read_text().replace(f":{plane.port}", f":{proxy.port}"))
        async with connect(str(path), limits=QUICK) as cluster:
            yield cluster, proxy


class Mirror:
    """What listening alone tells; every telling must follow from the one before."""

    def __init__(self, informer: Informer[ResourceClaim]) -> None:
        self.objects: dict[str, ResourceClaim] = {}
        informer.on_change(self.tell)

    def tell(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        shown = new or old
        assert shown is not None
        assert self.objects.get(shown.name) == old
        if new is None:
            del self.objects[shown.name]
        else:
            self.objects[shown.name] = new


class Restarts(NoInformerObserver):
    def __init__(self) -> None:
        self.lists = 0
        self.reasons: list[str] = []

    def listed(self, kind: str, objects: int, seconds: float) -> None:
        self.lists += 1

    def restarted(self, kind: str, reason: str) -> None:
        self.reasons.append(reason)


def fresh(cluster: KubeCluster, namespace: str) -> tuple[Informer[ResourceClaim], Mirror]:
    informer = Informer(cluster, ResourceClaim, namespace, first_pause=0.05, longest_pause=0.5)
    return informer, Mirror(informer)


async def same_as_listed(
    cluster: KubeCluster, namespace: str, informer: Informer[ResourceClaim], mirror: Mirror
) -> None:
    async def check() -> None:
        try:
            listed = {obj.name: obj for obj in (await cluster.list(ResourceClaim, namespace)).items}
        except Unavailable as error:
            raise AssertionError(str(error)) from error
        assert {obj.name: obj for obj in informer.store.values()} == listed
        assert mirror.objects == listed

    await eventually(check)


async def test_under_cuts_the_store_ends_up_as_a_list(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    rng = random.Random(7)
    async with (
        connect(str(control_plane.kubeconfig), limits=QUICK) as direct,
        through_a_proxy(control_plane, tmp_path) as (far, proxy),
    ):
        informer, mirror = fresh(far, namespace)
        async with running(informer):
            for number in range(120):
                name = f"c-{rng.randrange(12)}"
                there = informer.store.get(name, namespace)
                try:
                    match rng.randrange(4):
                        case 0 if there is not None:
                            await direct.delete(ResourceClaim, name, namespace)
                        case 1 if there is not None:
                            await direct.patch(
                                ResourceClaim, name, namespace, merge={"metadata": {"labels": {"n": str(number)}}}
                            )
                        case _:
                            await direct.create(claim(namespace, name))
                except ApiError:
                    pass  # the informer's copy is late: the object is there or gone already
                if number % 15 == 0:
                    proxy.refuse = number % 30 == 0
                    proxy.cut()
                elif number % 15 == 7:
                    proxy.refuse = False
            proxy.refuse = False
            await same_as_listed(direct, namespace, informer, mirror)
            assert proxy.connections >= 5


async def test_a_restarted_api_server_is_found_again(control_plane: ControlPlane, namespace: str) -> None:
    """Its watch cache is new: sometimes it knows the informer's version, sometimes the informer has to list again."""

    async with connect(str(control_plane.kubeconfig), limits=QUICK) as cluster:
        informer, mirror = fresh(cluster, namespace)
        async with running(informer):
            for name in ("kept", "deleted"):
                await cluster.create(claim(namespace, name))
            await asyncio.to_thread(control_plane.stop_api_server)
            starting = asyncio.create_task(asyncio.to_thread(control_plane.start_api_server))
            # Waits for the server within the client's patience, and is then before the informer's next attempt or after
            # it.
            await asyncio.wait({starting})
            await cluster.delete(ResourceClaim, "deleted", namespace)
            await cluster.create(claim(namespace, "created"))
            await same_as_listed(cluster, namespace, informer, mirror)
            assert sorted(mirror.objects) == ["created", "kept"]


async def test_a_version_from_before_the_history_is_gone(control_plane: ControlPlane, namespace: str) -> None:
    async with connect(str(control_plane.kubeconfig), limits=QUICK) as cluster:
        with pytest.raises(Gone, match=r"^too old resource version: 1 "):
            await anext(aiter(cluster.watch(ResourceClaim, namespace, resource_version="1")))


class OneOldVersion(KubeCluster):
    """Whose first list names a version that is too old to watch from."""

    listed = False

    async def pages(
        self, kind: type[ObjectT], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Listed[ObjectT]]:
        async for page in super().pages(kind, namespace, labels=labels, fields=fields):
            yield page if self.listed else Listed(page.items[1:], "1")
        self.listed = True


async def test_an_informer_whose_version_is_too_old_lists_again(control_plane: ControlPlane, namespace: str) -> None:
    async with connect(str(control_plane.kubeconfig), limits=QUICK) as cluster:
        for name in ("a", "b"):
            await cluster.create(claim(namespace, name))
        await asyncio.to_thread(control_plane.restart_api_server)  # it remembers no change from before its start
        seen = Restarts()
        informer = Informer(OneOldVersion(cluster.transport), ResourceClaim, namespace, first_pause=0.01, observer=seen)
        mirror = Mirror(informer)
        async with running(informer):
            assert sorted(mirror.objects) == ["b"]
            await same_as_listed(cluster, namespace, informer, mirror)
            assert (sorted(mirror.objects), seen.lists, seen.reasons) == (["a", "b"], 2, ["Expired"])


async def test_requests_survive_a_restart(control_plane: ControlPlane, namespace: str) -> None:
    async with connect(str(control_plane.kubeconfig), limits=QUICK) as cluster:
        await cluster.create(claim(namespace, "c"))
        await asyncio.to_thread(control_plane.stop_api_server)
        asking = asyncio.create_task(cluster.get(ResourceClaim, "c", namespace))
        await asyncio.to_thread(control_plane.start_api_server)
        assert (await asking).name == "c"


async def test_slices_by_the_hundred_come_in_pages_and_share_what_is_equal(
    control_plane: ControlPlane, namespace: str
) -> None:
    async with connect(str(control_plane.kubeconfig), limits=ClientLimits(qps=0, page=7)) as cluster:
        slices = [resource_slice(namespace, f"s{number:02}", node="n1") for number in range(30)]
        await asyncio.gather(*(cluster.create(_with_model(obj)) for obj in slices))
        try:
            informer = Informer(cluster, ResourceSlice, labels=f"contract.example.com/run={namespace}")
            async with running(informer):
                stored = sorted(informer.store.values(), key=lambda obj: obj.name)
                assert [obj.name for obj in stored] == [f"{namespace}-s{number:02}" for number in range(30)]
                models = {id(obj.spec.devices[0].attributes["model"]) for obj in stored}
                assert len(models) == 1
                assert stored[0].spec.devices[0].attributes["model"].string == "A100"
        finally:
            for obj in slices:
                await cluster.delete(ResourceSlice, obj.name)


def _with_model(obj: ResourceSlice) -> ResourceSlice:
    raw = obj.to_wire()
    raw["spec"]["devices"] = [{"name": "gpu-0", "attributes": {"model": {"string": "A100"}}}]
    return ResourceSlice.from_wire(raw)


async def test_changes_survive_conflicts(control_plane: ControlPlane, namespace: str) -> None:
    async with connect(str(control_plane.kubeconfig), limits=QUICK) as cluster:
        await cluster.create(claim(namespace, "c", meta=ObjectMeta(annotations={"n": "0"})))

        def counted(obj: ResourceClaim) -> ResourceClaim:
            annotations = {**obj.metadata.annotations, "n": str(int(obj.metadata.annotations["n"]) + 1)}
            return obj.with_(metadata=obj.metadata.with_(annotations=annotations))

        await asyncio.gather(
            *(update_with_retry(cluster, ResourceClaim, (namespace, "c"), counted, attempts=50) for _ in range(8))
        )
        assert (await cluster.get(ResourceClaim, "c", namespace)).metadata.annotations["n"] == "8"
