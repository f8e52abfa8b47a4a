"""Informers over the embedded cluster, whole and with faults put in: what is told, what the store holds, what happens
in gaps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cluster.contract.running import claim, device_class, pod
from tests.sampling import sample
from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import ObjectMeta, ObjectT
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import Gone, Listed, NotFound, Unavailable, WatchEvent
from virt_dra.cluster.watching.informer import Informer, InformerStore, ListerWatcher, running

Told = list[tuple[str, str]]


async def run(test: Callable[[MemoryCluster], Awaitable[None]]) -> None:
    async with asyncio.timeout(60):
        await test(MemoryCluster.deterministic())


def quick(cluster: ListerWatcher, kind: type[ObjectT], namespace: str = "", **more: object) -> Informer[ObjectT]:
    """An informer that doesn't wait long after failures."""
    return Informer(cluster, kind, namespace, first_pause=0.001, longest_pause=0.002, **more)  # type: ignore[arg-type]  # checked by each test's use


def noted(informer: Informer[ObjectT]) -> Told:
    """What is told, in short: ``+`` new, ``~`` changed, ``-`` gone, and the name with the version known afterwards."""
    changes: Told = []

    def tell(old: ObjectT | None, new: ObjectT | None) -> None:
        shown = new or old
        assert shown is not None
        assert informer.store.get(shown.name, shown.namespace) == new
        changes.append(("+" if old is None else "-" if new is None else "~", shown.name))

    informer.on_change(tell)
    return changes


async def settled() -> None:
    """Everything that can happen without time passing has happened."""
    for _ in range(50):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


async def test_what_is_there_and_every_change_is_told() -> None:
    async def test(cluster: MemoryCluster) -> None:
        await cluster.create(claim("n", "a"))
        informer = quick(cluster, ResourceClaim)
        told = noted(informer)
        assert (informer.has_synced, len(informer.store), informer.age) == (False, 0, float("inf"))
        async with running(informer):
            assert (informer.has_synced, told) == (True, [("+", "a")])
            await cluster.create(claim("n", "b"))
            await cluster.create(claim("m", "b"))
            changed = await cluster.patch(ResourceClaim, "b", "n", merge={"metadata": {"labels": {"x": "y"}}})
            await cluster.delete(ResourceClaim, "a", "n")
            await settled()
            assert told == [("+", "a"), ("+", "b"), ("+", "b"), ("~", "b"), ("-", "a")]
            assert informer.store.get("b", "n") == changed
            assert sorted(informer.store.keys()) == [("m", "b"), ("n", "b")]
            assert informer.age < 5

    await run(test)


async def test_who_listens_later_is_told_what_is_there() -> None:
    async def test(cluster: MemoryCluster) -> None:
        for name in "ab":
            await cluster.create(claim("n", name))
        informer = quick(cluster, ResourceClaim)
        async with running(informer):
            assert sorted(noted(informer)) == [("+", "a"), ("+", "b")]

    await run(test)


async def test_only_what_is_selected_is_followed() -> None:
    async def test(cluster: MemoryCluster) -> None:
        informer = quick(cluster, ResourceClaim, "n", labels="tier=gold")
        told = noted(informer)
        async with running(informer):
            await cluster.create(claim("n", "a", meta=ObjectMeta(labels={"tier": "gold"})))
            await cluster.create(claim("n", "b"))
            await cluster.create(claim("m", "c", meta=ObjectMeta(labels={"tier": "gold"})))
            await cluster.patch(ResourceClaim, "b", "n", merge={"metadata": {"labels": {"tier": "gold"}}})
            await cluster.patch(ResourceClaim, "a", "n", merge={"metadata": {"labels": {"tier": "tin"}}})
            await settled()
            assert told == [("+", "a"), ("+", "b"), ("-", "a")]

    await run(test)


async def test_indexes_follow_the_objects() -> None:
    async def test(cluster: MemoryCluster) -> None:
        def nodes(pod: Pod) -> list[str]:
            return [pod.spec.node_name] if pod.spec.node_name else []

        informer = quick(cluster, Pod, indexes={"node": nodes, "label": lambda pod: pod.metadata.labels.items()})
        async with running(informer):
            for name in "ba":
                bound = pod("n", name, labels={"x": "1", "y": "2"})
                await cluster.create(bound.with_(spec=bound.spec.with_(node_name="n1")))
            await cluster.create(pod("n", "c"))
            await settled()
            store = informer.store
            assert [pod.name for pod in store.by_index("node", "n1")] == ["a", "b"]
            assert (store.by_index("node", "n2"), store.index_values("node")) == ((), ("n1",))
            await cluster.patch(Pod, "a", "n", merge={"spec": {"nodeName": "n2"}, "metadata": {"labels": {"x": None}}})
            await cluster.delete(Pod, "b", "n")
            await settled()
            assert [pod.name for pod in store.by_index("node", "n2")] == ["a"]
            assert (store.by_index("node", "n1"), store.index_values("node"), store.index_values("label")) == (
                (),
                ("n2",),
                (("y", "2"),),
            )
            with pytest.raises(KeyError):
                store.by_index("nodes", "n1")

    await run(test)


async def test_what_is_stored_may_be_less_than_what_is_read() -> None:
    async def test(cluster: MemoryCluster) -> None:
        def slim(claim: ResourceClaim) -> ResourceClaim:
            return claim.with_(metadata=claim.metadata.without("annotations"))

        informer = quick(cluster, ResourceClaim, transform=slim)
        told = noted(informer)
        async with running(informer):
            await cluster.create(claim("n", "a", meta=ObjectMeta(annotations={"a": "long"}, labels={"b": "c"})))
            await settled()
            stored = informer.store.get("a", "n")
            assert stored is not None
            assert (stored.metadata.annotations, stored.metadata.labels, told) == ({}, {"b": "c"}, [("+", "a")])

    await run(test)


async def test_a_fault_of_a_listener_ends_the_body() -> None:
    async def test(cluster: MemoryCluster) -> None:
        informer = quick(cluster, ResourceClaim)

        def faulty(old: ResourceClaim | None, new: ResourceClaim | None) -> None:
            raise ZeroDivisionError

        informer.on_change(faulty)

        async def body() -> None:
            async with running(informer):
                await cluster.create(claim("n", "a"))
                await asyncio.sleep(5)

        with pytest.raises(ZeroDivisionError):
            await body()

    await run(test)


# --- faults -----------------------------------------------------------------------------------------------------------


class Faulty:
    """A cluster whose lists and watches fail on demand."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.list_faults: list[Exception] = []
        """What the next lists raise."""
        self._breaks: list[asyncio.Future[None]] = []
        self.down = False
        """While so, watches end as soon as they begin."""
        self.lists = 0
        self.watched_from: list[str] = []

    @property
    def watching(self) -> bool:
        return bool(self._breaks)

    def break_watches(self, error: Exception | None) -> None:
        """Watches raise that, or end; they send no further events."""
        for broken in self._breaks:
            if not broken.done():
                if error is None:
                    broken.set_result(None)
                else:
                    broken.set_exception(error)
        self._breaks.clear()

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        return await self._cluster.get(kind, name, namespace)

    async def list(
        self, kind: type[ObjectT], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listed[ObjectT]:
        self.lists += 1
        if self.list_faults:
            raise self.list_faults.pop(0)
        return await self._cluster.list(kind, namespace, labels=labels, fields=fields)

    async def watch(
        self, kind: type[ObjectT], namespace: str = "", *, resource_version: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent[ObjectT]]:
        self.watched_from.append(resource_version)
        if self.down:
            raise Unavailable("down")
        broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._breaks.append(broken)
        events = self._cluster.watch(kind, namespace, resource_version=resource_version, labels=labels, fields=fields)
        try:
            while True:
                following: asyncio.Future[WatchEvent[ObjectT]] = asyncio.ensure_future(anext(aiter(events)))
                either: tuple[asyncio.Future[Any], ...] = (following, broken)
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if broken.done():
                    following.cancel()
                    await asyncio.wait({following})
                    broken.result()
                    return
                yield following.result()
        finally:
            broken.cancel()


async def test_a_cut_watch_goes_on_from_the_last_version() -> None:
    async def test(cluster: MemoryCluster) -> None:
        faulty = Faulty(cluster)
        informer = quick(faulty, ResourceClaim)
        told = noted(informer)
        async with running(informer):
            created = await cluster.create(claim("n", "a"))
            await settled()
            for error in (Unavailable("cut"), None):
                faulty.break_watches(error)
                await cluster.patch(ResourceClaim, "a", "n", merge={"metadata": {"labels": {"x": str(error)}}})
                await cluster.create(claim("n", f"b-{error}".lower()))
                await until(lambda: len(told) >= 3)
            await until(lambda: len(told) >= 5)
            assert told == [("+", "a"), ("~", "a"), ("+", "b-cut"), ("~", "a"), ("+", "b-none")]
            assert faulty.lists == 1
            assert faulty.watched_from[:2] == ["0", created.metadata.resource_version]

    await run(test)


async def test_a_version_that_is_too_old_is_followed_by_a_list_and_gaps_are_told() -> None:
    async def test(cluster: MemoryCluster) -> None:
        faulty = Faulty(cluster)
        informer = quick(faulty, ResourceClaim)
        for name in ("changed", "gone", "remade", "same"):
            await cluster.create(claim("n", name))
        told = noted(informer)
        async with running(informer):
            told.clear()
            faulty.break_watches(Gone("too old"))
            await cluster.patch(ResourceClaim, "changed", "n", merge={"metadata": {"labels": {"x": "y"}}})
            await cluster.delete(ResourceClaim, "gone", "n")
            await cluster.delete(ResourceClaim, "remade", "n")
            await cluster.create(claim("n", "remade"))
            await cluster.create(claim("n", "born"))
            await cluster.create(claim("n", "unseen"))
            await cluster.delete(ResourceClaim, "unseen", "n")
            await until(lambda: len(told) >= 5)
            assert sorted(told) == [("+", "born"), ("+", "remade"), ("-", "gone"), ("-", "remade"), ("~", "changed")]
            assert told.index(("-", "remade")) < told.index(("+", "remade"))

    await run(test)


async def test_failing_lists_are_tried_again_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test(cluster: MemoryCluster) -> None:
        faulty = Faulty(cluster)
        faulty.list_faults = [Unavailable("no route"), Unavailable("no route")]
        await cluster.create(claim("n", "a"))
        informer = quick(faulty, ResourceClaim, "n")
        async with running(informer):
            assert (len(informer.store), faulty.lists) == (1, 3)

    with caplog.at_level(logging.WARNING):
        await run(test)
    assert [record.getMessage() for record in caplog.records] == ["ResourceClaim in n: no route"] * 2


async def test_after_many_failures_the_list_is_made_anew_whatever_the_reason() -> None:
    """A server that was restored from a backup may not know our version, and says so in words of its own."""

    async def test(cluster: MemoryCluster) -> None:
        faulty = Faulty(cluster)
        informer = quick(faulty, ResourceClaim)
        async with running(informer):
            faulty.down = True
            faulty.break_watches(Unavailable("cut"))
            await until(lambda: faulty.lists > 1)

    await run(test)


@pytest.mark.parametrize("optional", [True, False])
async def test_a_kind_that_is_not_served_has_no_objects_if_it_is_optional(optional: bool) -> None:
    async def test(cluster: MemoryCluster) -> None:
        faulty = Faulty(cluster)
        not_served = NotFound("the server could not find the requested resource")
        faulty.list_faults = [not_served, not_served]
        informer = quick(faulty, ResourceClaim, optional=optional)
        told = noted(informer)
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(0)
        assert informer.has_synced is optional
        await cluster.create(claim("n", "a"))
        await until(lambda: bool(told))
        assert (informer.has_synced, told) == (True, [("+", "a")])
        faulty.list_faults = [not_served] * 1000  # its definition was removed
        faulty.break_watches(not_served)
        await until(lambda: len(told) >= 2)
        assert (told, len(informer.store)) == ([("+", "a"), ("-", "a")], 0)
        task.cancel()
        await asyncio.wait({task})

    await run(test)


async def test_several_kinds_run_together() -> None:
    async def test(cluster: MemoryCluster) -> None:
        await cluster.create(claim("n", "a"))
        await cluster.create(device_class("x", "b"))
        claims, classes = quick(cluster, ResourceClaim), quick(cluster, DeviceClass)
        async with running(claims, classes):
            assert (len(claims.store), [class_.name for class_ in classes.store.values()]) == (1, ["x-b"])

    await run(test)


class Seen:
    def __init__(self) -> None:
        self.lists: list[tuple[str, int]] = []
        self.events: list[tuple[str, str]] = []
        self.restarts: list[tuple[str, str]] = []

    def listed(self, kind: str, objects: int, seconds: float) -> None:
        assert seconds >= 0
        self.lists.append((kind, objects))

    def received(self, kind: str, event: str) -> None:
        self.events.append((kind, event))

    def restarted(self, kind: str, reason: str) -> None:
        self.restarts.append((kind, reason))


async def test_lists_events_and_restarts_are_observed() -> None:
    async def test(cluster: MemoryCluster) -> None:
        seen, faulty = Seen(), Faulty(cluster)
        informer = quick(faulty, ResourceClaim, observer=seen)
        async with running(informer):
            await cluster.create(claim("n", "a"))
            await settled()
            for number, error in enumerate((Unavailable("cut"), None, Gone("old")), start=1):
                faulty.break_watches(error)
                while len(seen.restarts) < number or not faulty.watching:
                    await asyncio.sleep(0.001)
        assert seen.lists == [("ResourceClaim", 0), ("ResourceClaim", 1)]
        assert seen.events == [("ResourceClaim", "ADDED")]
        assert seen.restarts == [("ResourceClaim", reason) for reason in ("ServiceUnavailable", "Ended", "Expired")]

    await run(test)


# --- properties -------------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "change", "delete", "remake", "cut", "end", "gone", "wait", "rest"]),
        st.sampled_from("abc"),
    ),
    max_size=40,
)


@settings(max_examples=sample(150))
@given(STEPS)
async def test_whatever_fails_the_store_ends_up_as_a_list_and_what_was_told_explains_it(
    steps: list[tuple[str, str]],
) -> None:
    async def test(cluster: MemoryCluster) -> None:
        faulty = Faulty(cluster)
        informer = quick(faulty, ResourceClaim)
        mirror: dict[str, ResourceClaim] = {}

        def tell(old: ResourceClaim | None, new: ResourceClaim | None) -> None:
            shown = new or old
            assert shown is not None
            assert mirror.get(shown.name) == old, "old is what was told before"
            if new is None:
                del mirror[shown.name]
                return
            if old is not None:
                assert old.metadata.uid == new.metadata.uid
                assert int(old.metadata.resource_version) < int(new.metadata.resource_version)
            mirror[shown.name] = new

        informer.on_change(tell)
        async with running(informer):
            for number, (step, name) in enumerate(steps):
                there = {claim.name for claim in (await cluster.list(ResourceClaim)).items}
                match step:
                    case "create" if name not in there:
                        await cluster.create(claim("n", name))
                    case "change" if name in there:
                        await cluster.patch(
                            ResourceClaim, name, "n", merge={"metadata": {"labels": {"x": str(number)}}}
                        )
                    case "delete" if name in there:
                        await cluster.delete(ResourceClaim, name, "n")
                    case "remake" if name in there:
                        await cluster.delete(ResourceClaim, name, "n")
                        await cluster.create(claim("n", name))
                    case "cut":
                        faulty.break_watches(Unavailable("cut"))
                    case "end":
                        faulty.break_watches(None)
                    case "gone":
                        faulty.break_watches(Gone("too old"))
                    case "wait":
                        await asyncio.sleep(0)
                    case "rest":
                        await asyncio.sleep(0.003)
            listed = {claim.name: claim for claim in (await cluster.list(ResourceClaim)).items}
            await until(lambda: {claim.name: claim for claim in informer.store.values()} == listed)
            await settled()
            assert {claim.name: claim for claim in informer.store.values()} == listed
            assert mirror == listed

    await run(test)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sets(st.integers(0, 3)), st.booleans()), max_size=25))
def test_indexes_are_what_the_objects_say(changes: list[tuple[str, set[int], bool]]) -> None:
    store: InformerStore[Pod] = InformerStore(
        {"ports": lambda pod: [label for label in pod.metadata.labels for _ in range(2)]}
    )
    there: dict[str, set[int]] = {}
    for name, ports, remove in changes:
        if remove:
            store.remove(("n", name))
            there.pop(name, None)
        else:
            store.put(pod("n", name, labels={str(port): "" for port in ports}))
            there[name] = ports
    for port in range(4):
        wanted = sorted(name for name, ports in there.items() if port in ports)
        assert [pod.name for pod in store.by_index("ports", str(port))] == wanted
    assert set(store.index_values("ports")) == {str(port) for ports in there.values() for port in ports}
    assert len(store) == len(there)
