"""``python -m devtools.classic [RELEASE…]``: the answers of real control planes of classic DRA beside the embedded one.

``--record`` only writes the real answers to ``tests/classic/answers``; without it they must be the recorded ones, and
ours but for the scenarios of ``deviations.yaml``. ``--only PATTERN``: scenarios whose name has a match of it. Releases
whose programs are missing are named, and left out.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

from devtools.classic.embedded import play_embedded
from devtools.classic.real import classic_plane, play_really
from devtools.classic.scenario import deviations, read, recorded, write_recorded
from devtools.cluster.programs import CLASSIC, CLASSIC_DRIVER, binary
from virt_dra.simulator.scenario.comparing import differences


def _compare(release: str, only: re.Pattern[str], *, record: bool) -> int:
    """How many scenarios differ."""
    differing = 0
    with classic_plane(release) as plane:
        for scenario in (scenario for scenario in read(release) if only.search(scenario.name)):
            real, lines = play_really(scenario, plane), []
            if record:
                write_recorded(release, real)
            else:
                lines = [f"recorded: {line}" for line in differences(recorded(release).get(scenario.name), real)]
            if not record and scenario.name not in deviations(release):
                lines += differences(real, play_embedded(scenario))
            differing += bool(lines)
            word = "recorded" if record else "DIFFERS" if lines else "same"
            sys.stdout.write("\n    ".join([f"{word:8} {release} {scenario.name}", *lines]) + "\n")
            sys.stdout.flush()
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
        else:
            differing += _compare(release, re.compile(given.only), record=given.record)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
