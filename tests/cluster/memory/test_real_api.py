"""The embedded cluster against a real API server, asked live: what one accepts the other does, and what one refuses
with which paths.

The scenarios are those whose answers ``test_recorded`` keeps; here the server of this run answers. As a default some of
them, always the same; all of them, on a server with the gates nobody touched too: ``pytest --all-scenarios``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from devtools.cluster.control_plane import ALL_DRA_GATES, ControlPlane, require
from devtools.upstream.apiserver.compare import compare
from devtools.upstream.apiserver.record import ASKED, Server
from devtools.upstream.apiserver.replay import DIFFERENT, GATES, differences, replay
from devtools.upstream.apiserver.steps import Json, normalized, prepared
from tests.cluster.memory.test_recorded import SCENARIOS
from virt_dra.cluster.kinds import resource_of

pytestmark = pytest.mark.control_plane

SAMPLED = 3
"""One scenario of so many."""
RANDOM_CASES, SEED = 300, 137
DRA_KINDS = {kind.KIND for kind in ASKED if resource_of(kind).group == "resource.k8s.io"}
SERVER_GATES = {"answers": ALL_DRA_GATES, "plain": {}}
WRITES = ("create", "update", "updateStatus", "patch")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    everything = metafunc.config.getoption("--all-scenarios") and "random" not in metafunc.function.__name__
    metafunc.parametrize("asked", SERVER_GATES if everything else ["answers"], indirect=True, scope="module")


@pytest.fixture(scope="module")
def asked(request: pytest.FixtureRequest) -> Iterator[tuple[str, Server]]:
    """A server of this module's own: what scenarios leave is deleted wholesale, and nobody else must write here. With
    its gates' name."""
    gates: str = request.param
    require()
    with ControlPlane(gates=SERVER_GATES[gates]) as running:
        server = Server(running.port, running.context)
        admin = {"metadata": {"name": "admin", "labels": {"resource.kubernetes.io/admin-access": "true"}}}
        assert server.ask("POST", "/api/v1/namespaces", admin)[0] == 201
        yield gates, server
        server.close()


def live(server: Server, steps: list[Json]) -> list[Json]:
    raw: list[Json] = []
    for step in steps:
        raw.append(server.answer(prepared(step, raw)))
    named = {step.get("kind") or step.get("object", {}).get("kind") for step in steps}
    server.forget(kind for kind in ASKED if kind.KIND in named)
    return normalized(raw)


def chosen(everything: bool) -> list[str]:
    names = [
        name
        for name, steps in SCENARIOS.items()
        if name not in DIFFERENT and not any("server" in step for step in steps)
    ]
    return names if everything else names[::SAMPLED]


def kind_of(step: Json, answers: list[Json]) -> str:
    written: Json = answers[step["base"]]["object"] if "base" in step else step.get("object", step)
    return str(written.get("kind", ""))


async def test_verdicts_paths_and_objects_agree(asked: tuple[str, Server], request: pytest.FixtureRequest) -> None:
    gates, server = asked
    assert gates in GATES
    judged: Counter[tuple[str, bool]] = Counter()
    faults = []
    for name in chosen(request.config.getoption("--all-scenarios")):
        steps = SCENARIOS[name]
        answers = live(server, steps)
        replayed = await replay(steps, gates)
        faults += [
            f"{name}[{index}]: {fault}" for index, fault in enumerate(differences(steps, answers, replayed)) if fault
        ]
        judged.update(
            (kind_of(step, answers), answer["code"] < 400)
            for step, answer in zip(steps, answers, strict=True)
            if step["verb"] in WRITES and answer["code"]
        )
    assert not faults, f"{len(faults)} answers differ:\n" + "\n".join(faults)
    assert {(kind, good) for kind in DRA_KINDS for good in (True, False)} <= judged.keys()
    assert sum(count for (kind, good), count in judged.items() if kind in DRA_KINDS and good) >= 200
    assert sum(count for (kind, good), count in judged.items() if kind in DRA_KINDS and not good) >= 200


async def test_random_objects_are_judged_alike(asked: tuple[str, Server], capsys: pytest.CaptureFixture[str]) -> None:
    """The cases are made for a server with all gates."""
    assert await compare(asked[1], Random(SEED), RANDOM_CASES) == 0, capsys.readouterr().out
