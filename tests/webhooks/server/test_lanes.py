"""The threads in which large reviews are decided: who sends many of them makes nobody else wait for all of his."""

from __future__ import annotations

import asyncio
import time

import pytest

from webhooks.review import namespace_hint
from webhooks.server.fair_thread import MAX_WAITING, FairThread, TooManyWaiting


def busy(name: str, seconds: float, order: list[str]) -> str:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    order.append(name)
    return name


async def test_who_has_used_the_thread_least_is_next() -> None:
    thread = FairThread("test")
    order: list[str] = []
    many = [asyncio.create_task(thread.run(("", "hostile"), busy, f"h{n}", 0.02, order)) for n in range(10)]
    while not order:  # until the first is being decided or has been
        await asyncio.sleep(0.001)
    few = [asyncio.create_task(thread.run(("", f"tenant-{n}"), busy, f"t{n}", 0.0, order)) for n in range(3)]
    assert await asyncio.gather(*few) == ["t0", "t1", "t2"]
    before = order.index("t2")
    assert before <= 3 + 3, f"tenants wait for a review that has begun, not for a queue: {order}"
    assert await asyncio.gather(*many) == [f"h{n}" for n in range(10)]
    thread.close()


async def test_one_address_with_many_namespaces_counts_as_one() -> None:
    thread = FairThread("test")
    order: list[str] = []
    many = [asyncio.create_task(thread.run(("192.0.2.1", f"n{n}"), busy, f"h{n}", 0.02, order)) for n in range(30)]
    while not order:  # until the first is being decided or has been
        await asyncio.sleep(0.001)
    await thread.run(("192.0.2.2", "n"), busy, "t", 0.0, order)
    assert order.index("t") < 10, order
    for each in many:
        each.cancel()
    await asyncio.gather(*many, return_exceptions=True)
    thread.close()


async def test_of_one_asker_so_many_wait_and_no_more() -> None:
    thread = FairThread("test")
    order: list[str] = []
    waiting = [asyncio.create_task(thread.run(("", "n"), busy, str(n), 0.001, order)) for n in range(MAX_WAITING + 1)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyWaiting):
        await thread.run(("", "n"), busy, "refused", 0.0, order)
    assert await thread.run(("", "other"), busy, "other", 0.0, order) == "other"
    waiting[-1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert "refused" not in order
    assert str(MAX_WAITING) not in order, "who has gone is not decided for"
    thread.close()


async def test_a_fault_is_the_callers() -> None:
    def fails() -> None:
        raise ValueError("no")

    thread = FairThread("test")
    with pytest.raises(ValueError, match=r"^no$"):
        await thread.run(("", "n"), fails)
    order: list[str] = []
    assert await thread.run(("", "n"), busy, "next", 0.0, order) == "next"
    thread.close()


@pytest.mark.parametrize(
    ("body", "namespace"),
    [
        (
            b'{"kind":"AdmissionReview","request":{"uid":"1","name":"x","namespace":"team-a","object":{"metadata":{"namespace":"b"}}}}',
            "team-a",
        ),
        (b'{"request": {"namespace" : "team-a"}}', "team-a"),
        (b'{"request": {}}', ""),
        (b'{"request": {"namespace": "UPPER"}}', ""),
        (b" " * 3000 + b'{"request": {"namespace": "late"}}', ""),
        (b"", ""),
    ],
)
def test_the_namespace_is_found_without_reading_the_body(body: bytes, namespace: str) -> None:
    assert namespace_hint(body) == namespace
