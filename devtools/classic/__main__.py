"""``python -m devtools.classic [RELEASE…]``: the answers of real control planes of classic DRA beside the embedded one.

``--record`` only writes the real answers to ``tests/classic/answers``; without it they must be the recorded ones, and
ours. What differs is played again, since upstream has races: it counts if it differs twice. Scenarios of
``deviations.yaml`` are left out then. ``--only PATTERN``: scenarios whose name has a match of it. Releases whose
programs are missing are named, and left out.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

from devtools.classic.answers import deviations, read, recorded, recorded_form, write_recorded
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


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m devtools.classic", description=__doc__)
    parser.add_argument("releases", nargs="*", metavar="RELEASE", default=CLASSIC)
    parser.add_argument("--record", action="store_true", help="write the real answers")
    parser.add_argument("--only", default="", metavar="PATTERN", help="scenarios whose name has a match of it")
    given = parser.parse_args(arguments)
    differing = 0
    for release in given.releases:
        if binary(CLASSIC_DRIVER, release) is None:
            sys.stdout.write(f"no control plane {release}: tools/control-plane.sh {release} gets it\n")
            continue
        scenarios = [scenario for scenario in read(release) if re.search(given.only, scenario.name)]
        with classic_plane(release) as plane:
            if given.record:
                _record(release, scenarios, plane)
            else:
                differing += _compare(release, scenarios, plane)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
