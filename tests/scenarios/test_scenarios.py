"""Scenarios of the control loops (``cases/*.yaml``): the embedded cluster gives the answers that a real control plane
1.37.1 gave.

``answers/*.jsonl`` are recorded by ``python -m devtools.scenarios`` with ``tests/scenarios/cases/NAME.yaml`` and
``--record``. ``pending.yaml`` names those of parts that are not there yet: they are played, and may differ.
``differences.yaml`` names the scenarios that are known to differ, with the reason; they must still differ.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
import yaml

from devtools.scenario_table import recorded, scenarios
from virt_dra.api.wire import Json
from virt_dra.simulator.scenario.comparing import differences
from virt_dra.simulator.scenario.embedded_target import play_embedded
from virt_dra.simulator.scenario.reading import read_scenario

HERE = Path(__file__).parent
KNOWN: dict[str, str] = yaml.safe_load((HERE / "differences.yaml").read_text(encoding="utf-8")) or {}
"""Scenario -> why the embedded cluster's answer is another one."""

PENDING: dict[str, str] = yaml.safe_load((HERE / "pending.yaml").read_text(encoding="utf-8")) or {}
"""Scenario -> the part that it waits for."""


@cache
def cases() -> dict[str, Json]:
    """All scenarios by name."""
    by_name: dict[str, Json] = {}
    for _, raw in scenarios():
        assert raw["name"] not in by_name, raw["name"]
        by_name[raw["name"]] = raw
    return by_name


real_answers = cache(recorded)


@pytest.mark.parametrize("name", cases())
def test_the_embedded_cluster_answers_as_a_real_one(name: str) -> None:
    unequal = list(differences(real_answers()[name], play_embedded(read_scenario(cases()[name]))))
    if name in KNOWN:
        assert unequal, f"{name} no longer differs: take it off the list"
    elif name not in PENDING:
        assert unequal == []


def test_every_scenario_is_recorded_and_every_known_difference_is_about_one() -> None:
    assert cases().keys() == real_answers().keys()
    assert KNOWN.keys() | PENDING.keys() <= cases().keys()
    assert all(isinstance(reason, str) and len(reason) > 20 for reason in KNOWN.values())


def test_a_scenario_has_one_answer() -> None:
    """Embedded, a play is deterministic."""
    for raw in list(cases().values())[::10]:
        scenario = read_scenario(raw)
        assert json.dumps(play_embedded(scenario)) == json.dumps(play_embedded(scenario))
