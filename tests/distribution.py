"""How ``make test`` and ``make hardware`` divide the tests among their processes: in units that share what they start,
the longest first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import pytest
from xdist.scheduler import LoadFileScheduling

UNITS: Final[Mapping[str, tuple[str, ...]]] = {
    "tests/e2e": ("test_admission", "test_beside_kubevirt", "test_dump", "test_reports", "test_standalone"),
    "tests/hardware": ("test_data", "test_driver", "test_hotplug", "test_kinds", "test_network_functions"),
    "tests/manifests": (
        "test_crds_on_cluster",
        "test_doctor_on_cluster",
        "test_profiles_on_cluster",
        "test_rights",
        "test_thief",
    ),
    "tests/node_driver/real_kubelet": ("test_driver", "test_faults", "test_node"),
}
"""The files of a package that share its clusters. In one process, each cluster is started once and filled once; divided
among processes, each file would start its own."""

SECONDS: Final[Mapping[str, float]] = {
    "hardware": 30, "images": 10, "node": 10, "slow": 5, "control_plane": 3, "go": 3, "libvirt": 1
}  # fmt: skip
"""Estimated duration of a test by its marker, the longest that applies. Any of them may say it of a single test:
``slow(seconds=…)``."""

_QUICK: Final = 0.03

_UNIT_OF: Final = {f"{package}/{name}.py": package for package, names in UNITS.items() for name in names}


class UnitScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist publishes no types
    """xdist's distribution by file, in which the files of :data:`UNITS` stay together, too."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)


def unit(nodeid: str) -> str:
    """The package whose fixture a test's file shares, or the file."""
    file = nodeid.split("::", 1)[0]
    return _UNIT_OF.get(file, file)


def longest_first(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The tests unit by unit, in their order within a unit. A long unit that began last would leave the other processes
    idle."""
    units: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    seconds: defaultdict[str, float] = defaultdict(float)
    for item in items:
        units[unit(item.nodeid)].append(item)
        seconds[unit(item.nodeid)] += _estimate(item)
    return [item for name in sorted(units, key=lambda name: (-seconds[name], name)) for item in units[name]]


def _estimate(item: pytest.Item) -> float:
    """Seconds that a test may take."""
    markers = [marker for name in SECONDS if (marker := item.get_closest_marker(name)) is not None]
    said = [float(marker.kwargs["seconds"]) for marker in markers if "seconds" in marker.kwargs]
    return max(said or [SECONDS[marker.name] for marker in markers], default=_QUICK)
