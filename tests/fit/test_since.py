"""Since when a device is held is one answer: what ``get devices`` shows, ``explain`` says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from virt_dra.cli.main import cli

FILE = str(Path(__file__).with_name("held.yaml"))
SINCE = {
    "gpu.example.com/n1/gpu-0": "2026-11-20T10:00:00Z",
    "gpu.example.com/n1/gpu-1": "2026-11-20T09:00:00Z",
    "gpu.example.com/n1/gpu-2": "2026-11-20T07:00:00Z",
}


def _printed(*arguments: str) -> Any:
    return json.loads(CliRunner().invoke(cli, [*arguments, "-f", FILE, "-o", "json"]).stdout)


def test_get_devices_and_explain_say_the_same() -> None:
    rows = _printed("get", "devices")["items"]
    shown = {f"{row['driver']}/{row['pool']}/{row['device']}": row["heldBy"][0]["since"] for row in rows}
    explained = {held["device"]: held["since"] for held in _printed("explain", "claim", "team/waiting")["held"]}
    assert (shown, explained) == (SINCE, SINCE)
