"""The embedded cluster against a real API server: Kubernetes 1.37.1 answered ``recorded/*.jsonl`` (made by
devtools/upstream/apiserver).

Compared are code, reason, faults with path, type and text, the message, and the object, in the version that was asked
for. ``answers`` come from a server with every DRA gate on; ``plain`` is there where one with plain gates answered
differently from it, ``off`` where one without any gate that can be switched off answered differently from the plain
one. Witness of C-13.11 (metadata), C-13.12 (patches), C-13.14 (null), C-14.1 to C-14.6 (validation) and C-2.3
(versions).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from devtools.upstream.apiserver.replay import DIFFERENT, GATES, differences, replay
from devtools.upstream.apiserver.scenarios import scenarios
from devtools.upstream.apiserver.steps import Json

RECORDED = {
    line["id"]: line
    for path in sorted((Path(__file__).parent / "recorded").glob("*.jsonl"))
    for line in map(
        json.loads, path.read_text(encoding="utf-8").strip().split("\n")
    )  # some texts have other line ends in them
}
SCENARIOS = dict(scenarios())


def test_every_scenario_is_recorded() -> None:
    assert SCENARIOS.keys() == RECORDED.keys()


@pytest.mark.parametrize("server", GATES)
@pytest.mark.parametrize("group", sorted({name.partition("/")[0] for name in SCENARIOS}))
async def test_memory_answers_as_the_api_server(group: str, server: str) -> None:
    faults = []
    for name, steps in SCENARIOS.items():
        if (
            name.partition("/")[0] == group
            and name not in DIFFERENT
            and (server == "answers" or not _changes_server(steps))
        ):
            answers = await replay(steps, server)
            faults += [
                f"{name}[{index}]: {fault}"
                for index, fault in enumerate(differences(steps, recorded(name, server), answers))
                if fault
            ]
    assert not faults, f"{len(faults)} answers differ:\n" + "\n".join(faults)


@pytest.mark.parametrize("name", DIFFERENT)
async def test_known_differences_are_still_there(name: str) -> None:
    assert any(differences(SCENARIOS[name], recorded(name, "answers"), await replay(SCENARIOS[name], "answers")))


def recorded(name: str, server: str) -> list[Json]:
    line = RECORDED[name]
    plain = line.get("plain", line["answers"])
    answers: list[Json] = {"answers": line["answers"], "plain": plain, "off": line.get("off", plain)}[server]
    return answers


def _changes_server(steps: list[Json]) -> bool:
    return any("server" in step for step in steps)
