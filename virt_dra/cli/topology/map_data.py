"""The data of a page's map: nodes, roots and devices, and what lights up on it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from virt_dra.allocator.model import DeviceId
from virt_dra.api.go_text import visible
from virt_dra.api.tolerations import taint_text
from virt_dra.api.wire import Json
from virt_dra.cli.topology.looks import state_shown
from virt_dra.inventory.topology import CHOSEN, PLACES, REFUSED, NodeFold, PlacedDevice, TopologyNode

_LIT: Final = 2000
"""Devices that light up for one answer at most."""


@dataclass(frozen=True)
class Lights:
    """Nodes and devices that light up together. ``why``: what is said of them."""

    why: str
    nodes: Sequence[str] = ()
    devices: Sequence[DeviceId] = ()


@dataclass(frozen=True)
class LitWay:
    """A way out: ``takes`` and ``frees`` are devices on ``node``, and others that would become free."""

    text: str
    node: str
    takes: Sequence[DeviceId] = ()
    frees: Sequence[DeviceId] = ()


@dataclass(frozen=True)
class LitAnswer:
    """What an answer lights up. ``key``: names it on the page; ``in_way``: the nearest first; ``takes``: devices that
    it has or would get."""

    key: str
    in_way: Sequence[Lights] = ()
    takes: Sequence[DeviceId] = ()
    ways: Sequence[LitWay] = ()


@dataclass
class _Strings:
    """Texts, each once; what refers to one has its number."""

    _numbers: dict[str, int] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        return list(map(visible, self._numbers))

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))


def map_data(nodes: Sequence[TopologyNode], folds: Iterable[NodeFold], answers: Iterable[LitAnswer] = ()) -> Json:
    """Members are short and texts numbered, as there may be 40,000 devices: a device is ``[driver, pool, name, model,
    address, state, all states, holders, more]``, each the number of a text. Other things are named by their place."""
    strings = _Strings()
    numbers: dict[DeviceId, int] = {}
    drawn = [_node(node, strings, numbers) for node in nodes]
    by_name = {node.name: number for number, node in enumerate(nodes)}
    return {
        "nodes": drawn,
        "folds": [[by_name[name] for name in fold.nodes] for fold in folds],
        "answers": {visible(answer.key): _answer(answer, by_name, numbers) for answer in answers},
        "texts": strings.texts,
    }


def verdict_answer(nodes: Iterable[TopologyNode], key: str) -> LitAnswer:
    """The answer that is laid over devices."""
    takes: list[DeviceId] = []
    refused: dict[str, list[DeviceId]] = {}
    for device in (device for node in nodes for device in node.devices):
        verdict = device.verdict
        if verdict is not None and verdict.word == CHOSEN:
            takes.append(device.row.id)
        elif verdict is not None and verdict.word == REFUSED:
            refused.setdefault(verdict.why, []).append(device.row.id)
    return LitAnswer(key, [Lights(why, (), devices) for why, devices in refused.items()], takes)


def _node(node: TopologyNode, strings: _Strings, numbers: dict[DeviceId, int]) -> Json:
    roots: list[Json] = []
    for group in node.groups:
        devices = []
        for device in group.devices:
            numbers[device.row.id] = len(numbers)
            devices.append([strings.number(said) for said in _device(device)])
        roots.append({"numa": group.numa, "root": group.root, "devices": devices})
    data: Json = {"name": visible(node.name), "roots": roots}
    if node.closed:
        data["closed"] = [visible(text) for text in node.closed]
    if node.name in PLACES:
        data["place"] = True
    return data


def _device(device: PlacedDevice) -> tuple[str, ...]:
    row = device.row
    more = [taint_text(taint) for taint in row.taints]
    more += [said for said in (row.health, row.problem) if said]
    holders = ", ".join(holder.user for holder in row.holders)
    states = ", ".join(row.states)
    return (*row.id, device.label, row.address, state_shown(device), states, holders, "; ".join(more))


def _answer(answer: LitAnswer, by_name: dict[str, int], numbers: dict[DeviceId, int]) -> Json:
    def devices(ids: Iterable[DeviceId]) -> list[int]:
        return [numbers[id] for id in ids if id in numbers][:_LIT]

    def nodes(names: Iterable[str]) -> list[list[int]]:
        return _ranges(by_name[name] for name in names if name in by_name)

    in_way = [
        {"why": visible(lights.why), "nodes": nodes(lights.nodes), "devices": devices(lights.devices)}
        for lights in answer.in_way
    ]
    ways = [
        {
            "text": visible(way.text),
            "node": by_name.get(way.node),
            "takes": devices(way.takes),
            "frees": devices(way.frees),
        }
        for way in answer.ways
    ]
    return {"way": in_way, "takes": devices(answer.takes), "ways": ways}


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    """``[[1, 3], [7, 7]]`` of 1, 2, 3 and 7."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges
