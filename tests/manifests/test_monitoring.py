"""Alerts and dashboard ask for metrics that there are, with labels and values that they have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from virt_dra.operator.metrics import OperatorMetrics
from webhooks.server.metrics import Metrics

MONITORING = Path(__file__).parents[2] / "manifests" / "monitoring"
_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


class _Nothing:
    """Stands for the loop whose devices, VMs and informers are counted."""

    def devices_by_state(self) -> dict[str, float]:
        return {"Resolved": 1.0}

    def vmis_by_path(self) -> dict[str, float]:
        return {"native": 1.0}

    def informer_ages(self) -> dict[str, float]:
        return {"Pod": 1.0}


def series() -> set[str]:
    """Names under which Prometheus stores what the components tell."""
    text = told_by_components()
    metrics = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        if not name.endswith("_created"):
            metrics |= {
                name.removesuffix("_total") + suffix if kind == "counter" else name + suffix
                for suffix in _SUFFIXES[kind]
            }
    return metrics


def alerts() -> list[dict[str, Any]]:
    return [
        rule for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
    ]


def panels() -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    return panels


def expressions() -> Iterator[tuple[str, str]]:
    yield from ((rule["alert"], rule["expr"]) for rule in alerts())
    yield from ((panel["title"], target["expr"]) for panel in panels() for target in panel["targets"])


@pytest.mark.parametrize(("where", "expression"), list(expressions()), ids=lambda text: text if len(text) < 40 else "")
def test_every_metric_that_is_asked_for_is_there(where: str, expression: str) -> None:
    asked = set(re.findall(r"\bvirt_dra_\w+", expression))
    assert asked
    assert asked - series() == set(), where


def test_what_users_must_see_is_on_the_dashboard() -> None:
    shown = {
        name
        for panel in panels()
        for target in panel["targets"]
        for name in re.findall(r"\bvirt_dra_\w+", target["expr"])
    }
    wanted = {
        "virt_dra_devices",
        "virt_dra_vmis",
        "virt_dra_leader",
        "virt_dra_webhook_ready",
        "virt_dra_allocation_to_status_seconds_bucket",
    }
    assert wanted <= shown


def test_the_results_and_states_that_alerts_select_are_those_that_there_are() -> None:
    told = "".join(line for line in told_by_components().splitlines() if line.startswith("# HELP"))
    chosen = [
        (label, value)
        for rule in alerts()
        for label, values in re.findall(r'(\w+)=~?"([^"]+)"', rule["expr"])
        for value in values.split("|")
        if label in ("result", "state")
    ]
    assert chosen
    assert [pair for pair in chosen if pair[1] not in told] == []


def told_by_components() -> str:
    operator = OperatorMetrics()
    operator.count(_Nothing())
    return (operator.exposition() + Metrics().exposition()).decode()


def test_every_alert_says_what_and_how_bad() -> None:
    for rule in alerts():
        assert re.fullmatch(r"VirtDra[A-Za-z]+", rule["alert"])
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"].endswith((".", "}}"))
    assert len({rule["alert"] for rule in alerts()}) == len(alerts())


def test_panels_lie_side_by_side() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels()]
    assert len(set(places)) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels())
    assert [panel["id"] for panel in panels()] == list(range(1, len(panels()) + 1))
