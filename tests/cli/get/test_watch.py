"""``virt-dra get --watch`` on a cluster in memory: which rows it shows when, and each format of a change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from tests.json_schema import faults, schema_named
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.cli.documents.rows import change_document
from virt_dra.cli.get.command import GetRequest
from virt_dra.cli.get.printing import ChangePrinter
from virt_dra.cli.get.watch import follow_rows
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.inventory.changes import RowChange
from virt_dra.inventory.fields import RowFilter
from virt_dra.inventory.kinds import RowKind, RowOptions
from virt_dra.live.reading import ReadScope

Step = Callable[[], Awaitable[object]]
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def claim(name: str) -> ResourceClaim:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    metadata = {"name": name, "namespace": "default"}
    return ResourceClaim.from_wire(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": metadata,
            "spec": {"devices": {"requests": requests}},
        }
    )


def request(kind: RowKind, *names: str) -> GetRequest:
    return GetRequest(kind, RowFilter(names), list, lambda: RowOptions(NOW))


async def watched(
    asked: GetRequest, scope: ReadScope, life: Callable[[MemoryCluster], list[Step]]
) -> list[list[RowChange]]:
    """What is shown at first, and after each step of a life; each step is over once something is shown."""
    cluster = MemoryCluster.deterministic(NOW)
    shown: asyncio.Queue[list[RowChange]] = asyncio.Queue()
    steps = life(cluster)
    await steps[0]()
    task = asyncio.create_task(follow_rows(asked, cluster, scope, shown.put_nowait))
    rows = [await asyncio.wait_for(shown.get(), 10)]
    for step in steps[1:]:
        await step()
        rows.append(await asyncio.wait_for(shown.get(), 10))
    task.cancel()
    await asyncio.wait({task})
    return rows


async def test_rows_are_shown_when_they_come_change_and_go() -> None:
    def life(cluster: MemoryCluster) -> list[Step]:
        async def reserve() -> None:
            found = await cluster.get(ResourceClaim, "a", "default")
            labels = found.metadata.with_(labels={"seen": "nowhere"})
            await cluster.update(found.with_(metadata=labels))  # no row shows labels
            result = {"request": "gpu", "driver": "d", "pool": "p", "device": "x"}
            status = {"allocation": {"devices": {"results": [result]}}}
            await cluster.patch(ResourceClaim, "a", "default", merge={"status": status}, subresource="status")

        return [
            lambda: cluster.create(claim("a")),
            lambda: cluster.create(claim("b")),
            reserve,
            lambda: cluster.delete(ResourceClaim, "b", "default"),
        ]

    batches = await watched(request("claims"), ReadScope({ResourceClaim: ""}), life)
    assert [[(change.type, change.row.identity) for change in batch] for batch in batches] == [
        [("ADDED", "default/a")],
        [("ADDED", "default/b")],
        [("MODIFIED", "default/a")],
        [("DELETED", "default/b")],
    ]
    assert change_document(batches[2][0])["object"]["state"] == "allocated"


async def test_rows_that_are_not_wanted_are_not_shown() -> None:
    def life(cluster: MemoryCluster) -> list[Step]:
        async def both() -> None:
            await cluster.create(claim("a"))
            await cluster.create(claim("b"))

        return [both]

    ((change,),) = await watched(request("claims", "b"), ReadScope({ResourceClaim: "", ResourceSlice: ""}), life)
    assert change.row.identity == "default/b"


async def _changes() -> list[RowChange]:
    def life(cluster: MemoryCluster) -> list[Step]:
        return [lambda: cluster.create(claim("a")), lambda: cluster.delete(ResourceClaim, "a", "default")]

    return [
        change for batch in await watched(request("claims"), ReadScope({ResourceClaim: ""}), life) for change in batch
    ]


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        (
            "text",
            [
                "NAMESPACE   NAME   STATE     DEVICES   NODE   FOR   SINCE",
                "default     a      pending   -         -      -     …",
                "default     a      pending   -         -      -     …   (deleted)",
            ],
        ),
        ("name", ["resourceclaim.resource.k8s.io/a"]),
        (
            "csv",
            [
                "NAMESPACE,NAME,STATE,DEVICES,NODE,FOR,SINCE,DRIVERS,CLASSES,PODS",
                "default,a,pending,,,,2026-11-23T12:00:00Z,,gpu,",
            ],
        ),
    ],
)
async def test_each_format_of_changes(output: str, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    show = ChangePrinter("claims", output)
    for change in await _changes():
        show([change])
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(lines)
    for line, wanted in zip(printed, lines, strict=True):
        begin, _, end = wanted.partition("…")
        assert line.startswith(begin)
        assert line.endswith(end)


async def test_documents_of_changes_say_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    changes = await _changes()
    ChangePrinter("claims", "json")(changes)
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for document in documents:
        assert faults(document, schema_named("get-line")) == []
        assert faults(document["object"], schema_named("inventory")) == []
    assert [(document["type"], document["object"]["metadata"]["name"]) for document in documents] == [
        ("ADDED", "a"),
        ("DELETED", "a"),
    ]
    ChangePrinter("claims", "yaml")(changes[:1])
    assert capsys.readouterr().out.startswith(
        "---\napiVersion: output.virt-dra.io/v1\nkind: RowChange\ntype: ADDED\n"
        "object:\n  apiVersion: output.virt-dra.io/v1\n  kind: InventoryClaim\n"
    )
