"""``python -m devtools.classic [RELEASE…]``: the answers of real control planes of classic DRA beside the embedded one.

``--record`` only writes the real answers to ``tests/classic/answers``; without it they must be the recorded ones, and
ours. What differs is played again, since upstream has races: it counts if it differs twice. Scenarios of
``deviations.yaml`` are left out then. ``--only PATTERN``: scenarios whose name has a match of it. ``--random N``: so
many random scenarios (``--seed S``) in place of the recorded ones; where two real answers differ, it is upstream's
chance. Releases whose programs are missing are named, and left out.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

from devtools.classic.answers import deviations, read, recorded, recorded_form, write_recorded
from devtools.classic.random_scenarios import random_scenarios
from devtools.classic.real import classic_plane, play_really
from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.programs import CLASSIC, CLASSIC_DRIVER, binary
from virt_dra.simulator.scenario.comparing import differences
from virt_dra.simulator.scenario.embedded_target import performed
from virt_dra.simulator.scenario.scenario import Scenario


def _say(release: str, word: str, scenario: Scenario, lines: Sequence[str] = ()) -> None:
    sys.stdout.write("\n    ".join([f"{word:8} {release} {scenario.name}", *lines]) + "\n")
    sys.stdout.flush()


def _record(release: str, scenarios: Sequence[Scenario], plane: ControlPlane) -> None:
    for scenario in scenarios:
        write_recorded(release, play_really(scenario, plane))
        _say(release, "recorded", scenario)


def _differing(release: str, scenario: Scenario, plane: ControlPlane) -> list[str]:
    real = play_really(scenario, plane)
    before = recorded(release).get(scenario.name)
    return [
        *(f"recorded: {line}" for line in differences(before, real)),
        *differences(real, recorded_form(performed(scenario))),
    ]


def _compare(release: str, scenarios: Sequence[Scenario], plane: ControlPlane) -> int:
    """How many scenarios differ."""
    differing = 0
    for scenario in scenarios:
        if scenario.name not in deviations(release):
            lines = _differing(release, scenario, plane) and _differing(release, scenario, plane)
            differing += bool(lines)
            _say(release, "DIFFERS" if lines else "same", scenario, lines)
    return differing


def _compare_random(release: str, scenarios: Sequence[Scenario], plane: ControlPlane) -> int:
    """How many scenarios differ, and not by chance."""
    differing = 0
    for scenario in scenarios:
        own, real = recorded_form(performed(scenario)), play_really(scenario, plane)
        lines = list(differences(real, own))
        word = "same"
        if lines:
            word = "DIFFERS" if play_really(scenario, plane) == real else "chance"
        differing += word == "DIFFERS"
        _say(release, word, scenario, lines)
    return differing


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m devtools.classic", description=__doc__)
    parser.add_argument("releases", nargs="*", metavar="RELEASE", default=CLASSIC)
    parser.add_argument("--record", action="store_true", help="write the real answers")
    parser.add_argument("--only", default="", metavar="PATTERN", help="scenarios whose name has a match of it")
    parser.add_argument("--random", type=int, metavar="N", help="random scenarios in place of the recorded ones")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first random scenario (default 1)")
    given = parser.parse_args(arguments)
    differing = 0
    for release in given.releases:
        if binary(CLASSIC_DRIVER, release) is None:
            sys.stdout.write(f"no control plane {release}: tools/control-plane.sh {release} gets it\n")
            continue
        made = read(release) if given.random is None else random_scenarios(release, given.random, given.seed)
        scenarios = [scenario for scenario in made if re.search(given.only, scenario.name)]
        with classic_plane(release) as plane:
            if given.random is not None:
                differing += _compare_random(release, scenarios, plane)
            elif given.record:
                _record(release, scenarios, plane)
            else:
                differing += _compare(release, scenarios, plane)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
