"""``python -m devtools.scenarios FILE…``: the answers of real control planes of Kubernetes 1.37.1 to scenarios, beside
the embedded ones.

One control plane for each set of gates and timers. ``--record FILE`` writes the answers, a line each; ``--embedded``
plays on the embedded cluster only; ``--show`` prints whole answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from devtools.cluster.control_plane import ControlPlane
from virt_dra.api.reading.documents import read_documents
from virt_dra.api.wire import Json
from virt_dra.cluster.kube.cluster import connect
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.simulator.scenario.comparing import differences
from virt_dra.simulator.scenario.embedded_target import play_embedded
from virt_dra.simulator.scenario.player import Play
from virt_dra.simulator.scenario.reading import ScenarioError, read_scenario
from virt_dra.simulator.scenario.scenario import Scenario
from virt_dra.simulator.scenario.server_target import server_target

CONTROLLERS: Final = (
    "resourceclaim-controller",
    "garbage-collector-controller",
    "device-taint-eviction-controller",
    "resourcequota-controller",
)
GATED: Final[Mapping[str, str]] = {
    "DRAResourcePoolStatus": "resourcepoolstatusrequest-controller",
    "GenericWorkload": "podgroup-protection-controller",
}
"""Gate -> the controller that only runs with it."""


def scheduler_configuration(timers: Mapping[str, float]) -> Json:
    """A KubeSchedulerConfiguration with a back-off of one second, always, and the timers of the plugin
    DynamicResources."""
    arguments = {name: f"{seconds:g}s" for name, seconds in timers.items()}
    configuration: Json = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "leaderElection": {"leaderElect": False},
    }
    if arguments:
        given = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "DynamicResourcesArgs", **arguments}
        configuration["profiles"] = [
            {"schedulerName": "default-scheduler", "pluginConfig": [{"name": "DynamicResources", "args": given}]}
        ]
    return configuration


@contextmanager
def scenario_plane(gates: Mapping[str, bool], timers: Mapping[str, float]) -> Iterator[ControlPlane]:
    """A real control plane as docs/spec/scenarios.md wants it."""
    with ControlPlane(gates=gates) as plane:
        plane.start_scheduler(scheduler_configuration(timers))
        plane.start_controllers(*CONTROLLERS, *(controller for gate, controller in GATED.items() if gates.get(gate)))
        yield plane


async def play_on(plane: ControlPlane, scenario: Scenario) -> Json:
    """The real answer."""
    return (await performed_on(plane, scenario)).answer()


async def performed_on(
    plane: ControlPlane, scenario: Scenario, drive: Callable[[str, Json], None] | None = None
) -> Play:
    """The play on a real control plane. ``drive``: see :func:`server_target`."""
    async with (
        connect(str(plane.kubeconfig), limits=ClientLimits(qps=0, attempts=1)) as cluster,
        server_target(cluster, scenario, drive) as target,
    ):
        play = Play(scenario, target)
        await play.perform()
    return play


def read(paths: Sequence[str]) -> list[Scenario]:
    """All scenarios of files: YAML documents, JSON lines. Raises ScenarioError with the file and line."""
    scenarios = []
    for path in paths:
        for document in read_documents(Path(path).read_bytes(), path):
            try:
                scenarios.append(read_scenario(document.raw))
            except ScenarioError as error:
                raise SystemExit(f"{document.source}: {error}") from None
    return scenarios


def answers_of_real_planes(scenarios: Sequence[Scenario]) -> Iterator[tuple[Scenario, Json]]:
    """The answers, grouped by what a control plane must be started with."""
    groups: dict[str, list[Scenario]] = {}
    for scenario in scenarios:
        key = json.dumps([scenario.gate_texts, scenario.timers], sort_keys=True)
        groups.setdefault(key, []).append(scenario)
    for group in groups.values():
        with scenario_plane(group[0].gate_texts, group[0].timers) as plane:
            for scenario in group:
                yield scenario, asyncio.run(play_on(plane, scenario))
                if "bindingConditions" in json.dumps(scenario.given):
                    # Its pod may wait for ten minutes, and the scheduler keeps its devices for it, whatever is deleted.
                    plane.stop_scheduler()
                    plane.start_scheduler(scheduler_configuration(scenario.timers))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m devtools.scenarios", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--record", metavar="FILE", help="write the real answers, a line each")
    parser.add_argument("--only", metavar="NAME", help="scenarios whose name contains this")
    parser.add_argument("--embedded", action="store_true", help="the embedded cluster only")
    parser.add_argument("--show", action="store_true", help="print whole answers")
    given = parser.parse_args(arguments)
    scenarios = [scenario for scenario in read(given.files) if given.only is None or given.only in scenario.name]
    if given.embedded:
        for scenario in scenarios:
            print(json.dumps(play_embedded(scenario), indent=1))  # noqa: T201 - a command
        return 0
    differing = 0
    recorded = []
    for scenario, real in answers_of_real_planes(scenarios):
        begin = time.monotonic()
        own = play_embedded(scenario)
        took = time.monotonic() - begin
        differing_lines = list(differences(real, own))
        differing += bool(differing_lines)
        recorded.append(json.dumps(real, ensure_ascii=False))
        print(f"{'DIFFERS' if differing_lines else 'same   '} {scenario.name} ({took:.2f} s embedded)", flush=True)  # noqa: T201 - a command
        for line in differing_lines:
            print(f"    {line}")  # noqa: T201 - a command
        if given.show:
            print(json.dumps(real, indent=1))  # noqa: T201 - a command
    if given.record:
        Path(given.record).write_text("".join(f"{line}\n" for line in recorded), encoding="utf-8")
    print(f"{len(scenarios)} scenarios, {differing} differ")  # noqa: T201 - a command
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
