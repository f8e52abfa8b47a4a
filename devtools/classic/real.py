"""Real control planes of classic releases, with a driver on Kubernetes' own library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from devtools.classic.answers import DRIVER, recorded_form
from devtools.cluster.control_plane import ControlPlane
from devtools.scenarios import performed_on, scheduler_configuration
from virt_dra.api.wire import Json
from virt_dra.simulator.scenario.scenario import Scenario

_GATES: Final[Mapping[str, Mapping[str, bool]]] = {
    "1.30.14": {"DynamicResourceAllocation": True},
    "1.31.14": {"DynamicResourceAllocation": True, "DRAControlPlaneController": True},
}


@contextmanager
def classic_plane(release: str) -> Iterator[ControlPlane]:
    """While in it, the control plane of a release runs."""
    with ControlPlane(version=release, gates=_GATES[release]) as plane:
        plane.start_scheduler(scheduler_configuration({}))
        plane.start_controllers("resourceclaim-controller", "garbage-collector-controller")
        yield plane


def play_really(scenario: Scenario, plane: ControlPlane) -> Json:
    """The answer of a control plane that has nothing of another scenario, and is left so."""
    file = plane.folder / "classic-driver.json"

    def drive(driver: str, settings: Json) -> None:
        new = file.with_suffix(".new")
        new.write_text(json.dumps(settings), encoding="utf-8")
        new.replace(file)  # the driver never reads half of it

    drive(DRIVER, scenario.drivers[DRIVER])
    plane.start_classic_driver(DRIVER, file)
    try:
        return recorded_form(asyncio.run(performed_on(plane, scenario, drive)))
    finally:
        plane.stop_classic_driver()
