"""The embedded classic control plane gives the answers that real ones of 1.30.14 and 1.31.14 gave, with a driver on
Kubernetes' own library (C-18).

``answers/*.jsonl`` are recorded by ``python -m devtools.classic --record``; ``deviations.yaml`` names the scenarios in
which ours deliberately answers otherwise, with the reason: they must still differ.
"""

from __future__ import annotations

import pytest

from devtools.classic.embedded import play_embedded
from devtools.classic.real import classic_plane, play_really
from devtools.classic.scenario import ClassicScenario, deviations, read, recorded
from devtools.cluster.programs import CLASSIC, require_classic
from virt_dra.simulator.scenario.comparing import differences

SCENARIOS = [scenario for release in CLASSIC for scenario in read(release)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: f"{scenario.release} {scenario.name}")
def test_ours_answers_as_the_real_control_plane_did(scenario: ClassicScenario) -> None:
    """C-18."""
    differing = list(differences(recorded(scenario.release)[scenario.name], play_embedded(scenario)))
    if scenario.name in deviations(scenario.release):
        assert differing, f"{scenario.name} no longer differs: take it off the list"
    else:
        assert differing == []


@pytest.mark.parametrize("release", CLASSIC)
def test_every_scenario_is_recorded_and_every_deviation_is_about_one(release: str) -> None:
    names = [scenario.name for scenario in read(release)]
    assert sorted(names) == sorted(recorded(release))
    assert deviations(release).keys() <= set(names)
    assert all(len(reason) > 20 for reason in deviations(release).values())


@pytest.mark.control_plane
@pytest.mark.slow
@pytest.mark.parametrize("release", CLASSIC)
def test_a_real_control_plane_answers_as_recorded(release: str) -> None:
    require_classic(release)
    played = [scenario for scenario in read(release) if scenario.name in ("one pod, one claim", "refused contexts")]
    with classic_plane(release) as plane:
        for scenario in played:
            assert play_really(scenario, plane) == recorded(release)[scenario.name]
