"""``python -m devtools.scenario_table``: each scenario of ``tests/scenarios``, with the embedded cluster's answer
beside the real one.

``--write`` puts the table into ``docs/scenarios.md``. The real answers are the recorded ones.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from virt_dra.api.counting import counted
from virt_dra.api.wire import Json
from virt_dra.simulator.scenario.comparing import differences
from virt_dra.simulator.scenario.embedded_target import play_embedded
from virt_dra.simulator.scenario.reading import read_scenario

ROOT: Final = Path(__file__).parent.parent
SCENARIOS: Final = ROOT / "tests" / "scenarios"
PAGE: Final = ROOT / "docs" / "scenarios.md"
HEADING: Final = "| scenario | rules | embedded | real | same |\n|---|---|---|---|---|\n"


def outcome(answer: Json) -> str:
    """The end of a scenario in short: pods, claims, refusals, Events."""
    end = answer["states"]["end"]
    pods, claims = _objects(end, "Pod"), _objects(end, "ResourceClaim")
    bound = sum(1 for pod in pods if pod.get("nodeName"))
    parts = []
    if pods:
        parts.append(f"{bound} of {counted(len(pods), 'pod')} bound")
    if claims:
        parts.append(
            f"{sum(1 for claim in claims if 'allocation' in claim)} of {counted(len(claims), 'claim')} allocated"
        )
    if answer["refusals"]:
        parts.append(counted(len(answer["refusals"]), "refusal"))
    if end.get("events"):
        parts.append(counted(len(end["events"]), "event"))
    return ", ".join(parts) or "nothing left"


def _objects(state: Json, kind: str) -> list[Json]:
    """Those of a kind; interchangeable ones stand in lists."""
    values = state.get(kind, {}).values()
    return [obj for value in values for obj in (value if isinstance(value, list) else [value])]


def scenarios() -> Iterator[tuple[str, Json]]:
    """Group (the file's name) and scenario."""
    for path in sorted((SCENARIOS / "cases").glob("*.yaml")):
        for raw in yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader):
            yield path.stem, raw


def recorded() -> dict[str, Json]:
    """The real answers by name."""
    lines = (
        line
        for path in sorted((SCENARIOS / "answers").glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").split("\n")
    )
    return {answer["name"]: answer for answer in map(json.loads, filter(None, lines))}


def row(raw: Json, real: Json) -> str:
    """One line of the table."""
    name, rules = raw["name"].replace("|", "\\|"), ", ".join(raw.get("rules", ()))
    if raw["name"] in pending():
        return f"| {name} | {rules} | – | {outcome(real)} | pending |\n"
    embedded = play_embedded(read_scenario(raw))
    same = "no" if list(differences(real, embedded)) else "yes"
    return f"| {name} | {rules} | {outcome(embedded)} | {outcome(real)} | {same} |\n"


@cache
def pending() -> frozenset[str]:
    """The names of those that wait for a part of the embedded cluster."""
    return frozenset(yaml.safe_load((SCENARIOS / "pending.yaml").read_text(encoding="utf-8")) or ())


def page() -> str:
    """The whole document."""
    answers = recorded()
    groups: dict[str, list[str]] = {}
    for group, raw in scenarios():
        if raw["name"] in answers:
            groups.setdefault(group, []).append(row(raw, answers[raw["name"]]))
    rows = [line for lines in groups.values() for line in lines]
    same = sum(line.endswith("| yes |\n") for line in rows)
    listed = "".join(
        f"\n## {group.replace('_', ' ').replace('-', ' ')}\n\n{HEADING}{''.join(lines)}"
        for group, lines in groups.items()
    )
    return f"""# Scenarios: embedded and real

Each scenario of `tests/scenarios/cases` was played on a real control plane (etcd, kube-apiserver, kube-scheduler and
kube-controller-manager 1.37.1) and is played on the embedded cluster;
"same" means equal as JSON in the [normal form](spec/scenarios.md), messages included.
The columns show the end in short. `python -m devtools.scenario_table --write` makes this page, a test keeps its rows
true; `tests/scenarios/differences.yaml` says why an answer differs; those of `pending.yaml` wait for a part of the
embedded cluster.
How to write and play scenarios: [the guide](guides/scenarios.md).

{same} of {len(rows)} are the same.
{listed}"""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m devtools.scenario_table", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/scenarios.md")
    text = page()
    if parser.parse_args(arguments).write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)  # noqa: T201 - a command
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
