"""What the live page is made of: how what waits was explained last, until it is explained anew."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from typing import Any

from tests.simulator.explaining.clusters import claim, classes, gpu, node, pod, user
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.scheme import read_object
from virt_dra.cli.report.settings import ReportSettings
from virt_dra.cli.report_server.render import LiveReport

AT = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


def _objects(*late: str) -> list[TypedObject]:
    waiting = [part for name in late for part in (claim(f"{name}-gpu"), pod(name, [f"{name}-gpu"]))]
    return [read_object(obj) for obj in [*classes(), *node("n1", [gpu("g0")]), *user("u", "n1", "g0"), *waiting]]


def _said(report: LiveReport, *late: str, explain: bool) -> tuple[list[str], list[str]]:
    """What is explained, and the notes."""
    document: dict[str, Any] = json.loads(report(_objects(*late), AT, explain=explain).document)
    return [row["subject"] for row in document["waiting"]], document["notes"]


def test_what_waits_is_shown_as_it_was_explained_last() -> None:
    report = pickle.loads(pickle.dumps(LiveReport(ReportSettings())))  # it gets to its process so
    assert _said(report, "a", "b", explain=False) == ([], ["What waits is being explained."])
    assert _said(report, "a", "b", explain=True) == (["pod team-a/a", "pod team-a/b"], [])
    note = "What waits was explained at 12:00:00 UTC; what is new follows."
    assert _said(report, "b", "c", explain=False) == (["pod team-a/b"], [note])
    assert _said(report, "b", "c", explain=True) == (["pod team-a/b", "pod team-a/c"], [])


def test_what_is_equal_has_one_version_whenever_it_is_rendered() -> None:
    report = LiveReport(ReportSettings())
    first, later = report(_objects(), AT, explain=True), report(_objects(), AT.replace(hour=13), explain=True)
    assert first.version == later.version
    assert b"last change 2026-11-20 12:00:00 UTC" in first.page
    assert report(_objects("a"), AT, explain=True).version != first.version
    assert f'data-version="{first.version}"'.encode() in first.page
