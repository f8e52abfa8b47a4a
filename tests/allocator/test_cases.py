"""Every case under cases/: `given` and `features` in, then `want`: devices, a refusal's text, or an error (see
cases/README.md)."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from devtools.allocator import build
from virt_dra.allocator import (
    DEFAULT,
    DEFAULT_EFFORT,
    Allocated,
    AllocationError,
    Allocator,
    Effort,
    Features,
    NodeError,
)
from virt_dra.allocator.explain import lines

CASES = Path(__file__).parent / "cases"
FILES = sorted(CASES.glob("*/*.yaml"))


def _features(given: dict[str, bool]) -> Features:
    names = {field.name for field in fields(Features)}
    assert given.keys() <= names, f"unknown features {given.keys() - names}"
    return replace(DEFAULT, **given)


def _got(case: dict[str, Any], want: dict[str, Any], effort: Effort) -> dict[str, Any]:
    """The outcome, in the words of `want`, with exactly the parts that `want` mentions."""
    given = case["given"]
    node = build.node(want.get("at", given.get("node", "n1")))
    claims = [build.claim({"name": f"claim{i}", **claim}) for i, claim in enumerate(given["claims"])]
    got: dict[str, Any] = {"at": want["at"]} if "at" in want else {}
    limits = {"step_limit": case["steps"]} if "steps" in case else {}
    try:
        features = _features(case.get("features", {}))
        outcome = Allocator(build.snapshot(given), claims, features, effort=effort, **limits).allocate(node)
    except AllocationError as error:
        kind = "node_error" if isinstance(error, NodeError) else "fatal"
        return got | {kind: str(error)}
    if not isinstance(outcome, Allocated):
        assert outcome.explanation is not None
        got |= {"why": outcome.explanation.summary} if "why" in want else {}
        return got | {"refused": lines(outcome.explanation)}
    wires = [result.to_wire() for result in outcome.results]
    if "devices" in want:
        got["devices"] = [
            [f"{r['request']} {r['driver']}/{r['pool']}/{r['device']}" for r in wire["devices"]["results"]]
            for wire in wires
        ]
    if "shares" in want:
        got["shares"] = [[_share(result) for result in wire["devices"]["results"]] for wire in wires]
    if "results" in want:
        got["results"] = wires
    if "config" in want:
        got["config"] = [
            [
                f"{c['source']} {c['opaque']['parameters']['text']} {';'.join(c.get('requests', ()))}".strip()
                for c in w["devices"].get("config", ())
            ]
            for w in wires
        ]
    if "node_selector" in want:
        got["node_selector"] = [wire.get("nodeSelector") for wire in wires]
    return got if len(got) > ("at" in want) else got | {"devices": wires}


def _share(result: dict[str, Any]) -> str:
    """Request, device, and what the share takes of it."""
    consumed = [f"{name}={amount}" for name, amount in result.get("consumedCapacity", {}).items()]
    return " ".join([result["request"], result["device"], *(consumed if "shareID" in result else ["exclusive"])])


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_case(file: Path) -> None:
    _check(file, DEFAULT_EFFORT)


def _check(file: Path, effort: Effort) -> None:
    case = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    wants = case["want"] if isinstance(case["want"], list) else [case["want"]]
    assert [_got(case, want, effort) for want in wants] == wants


@pytest.mark.parametrize(
    "file", [file for file in FILES if "refused:" not in file.read_text(encoding="utf-8")], ids=lambda file: file.stem
)
def test_pruning_at_once_changes_nothing_but_how_far_a_search_came(file: Path) -> None:
    _check(file, Effort(patience=0, look_ahead=0))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_without_pruning_the_search_gives_the_same_answers(file: Path) -> None:
    """Unless plain backtracking takes too long, which is what pruning is for."""
    case = {"steps": 100_000} | yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    for want in case["want"] if isinstance(case["want"], list) else [case["want"]]:
        got = _got(case, want, Effort(patience=None))
        assert got == want or got["fatal"].startswith("filter operation aborted: no decision within "), got
