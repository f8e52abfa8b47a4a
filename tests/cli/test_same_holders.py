"""Commands that say who holds a device say the same, since when, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from virt_dra.api.wire import Json
from virt_dra.cli.main import cli

CLUSTER = Path(__file__).parents[2] / "examples" / "explain" / "cluster.yaml"


def answered(*words: str) -> Any:
    return json.loads(CliRunner().invoke(cli, [*words, "-o", "json"]).stdout)


def test_explain_get_and_topology_name_the_same_holders_of_undated_allocations() -> None:
    assert "allocationTimestamp" not in CLUSTER.read_text()
    file = str(CLUSTER)
    explained: list[Json] = answered("explain", "vmi", "vm-late", "-n", "team-a", "-f", file)["held"]
    assert explained

    def holders(rows: list[Json]) -> dict[str, Json]:
        """Without nulls, which get leaves out."""
        return {
            f"{row['driver']}/{row['pool']}/{row['device']}": _without_nulls(holder)
            for row in rows
            for holder in row["heldBy"]
        }

    listed = holders(answered("get", "devices", "-f", file)["items"])
    folds = answered("topology", "-f", file, "--no-fold")["folds"]
    assert listed == holders([row for fold in folds for group in fold["groups"] for row in group["devices"]])
    assert [(held["device"], held["vm"], held["since"]) for held in explained] == [
        (held["device"], f"{holder['namespace']}/{holder['vm']}" if "vm" in holder else None, holder["since"])
        for held in explained
        for holder in [listed[held["device"]]]
    ]
    assert all(held["since"] for held in explained)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
