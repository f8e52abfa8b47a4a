"""The worlds of this package's tests. KubeVirt's kinds are one of a kind in a cluster, so there is one world at a time,
and tests are ordered by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from devtools.cluster.control_plane import CONTROLLERS, SCHEDULER, ControlPlane, require
from devtools.deployed import worlds
from devtools.deployed.worlds import World, Worlds
from devtools.libvirt import witness as libvirt_witness
from tests.e2e import cases

InWorld = Callable[[str], World]
"""``standalone``, or a KubeVirt version: the world beside it."""

ORDER = (*cases.VERSIONS, cases.STANDALONE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = [index for index, item in enumerate(items) if item.path.parent == Path(__file__).parent]
    for index, item in zip(places, sorted((items[index] for index in places), key=_place), strict=True):
        items[index] = item


def _place(item: pytest.Item) -> int:
    """By the test's parameter ``place``, else by its module's ``PLACE``."""
    assert isinstance(item, pytest.Function)
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return ORDER.index(parameters.get("place", getattr(item.module, "PLACE", ORDER[0])))


@pytest.fixture(scope="package")
def known_worlds(control_plane: ControlPlane) -> Iterator[Worlds]:
    require(SCHEDULER, CONTROLLERS)
    libvirt_witness.require_binding()
    found = Worlds()
    yield found
    found.close()


@pytest.fixture
def in_world(known_worlds: Worlds, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> InWorld:
    """A world in which the VMs of all its cases start as soon as it is there."""

    def found(place: str) -> World:
        here = cases.of(place)
        return known_worlds.get(place, partial(_made, control_plane, place, here, tmp_path_factory))

    return found


def _made(
    plane: ControlPlane, place: str, here: tuple[cases.Case, ...], folders: pytest.TempPathFactory
) -> worlds.Maker:
    make = worlds.standalone if place == cases.STANDALONE else partial(worlds.beside_kubevirt, version=place)
    return make(plane, hardware=cases.hardware(here), folder=folders.mktemp("e2e"), then=partial(cases.create, here))
