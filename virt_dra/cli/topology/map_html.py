"""The map of devices as pages have it: its place, its legend and the data that the page's script draws it of; and the
page that is nothing but the map. Pages load nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from virt_dra.api.counting import counted
from virt_dra.api.wire import Json
from virt_dra.cli.topology.colours import LOOKS, STATE_STYLE
from virt_dra.cli.topology.looks import state_shown
from virt_dra.cli.topology.map_data import LitAnswer, map_data, verdict_answer
from virt_dra.html.frame import PageForm, data_element, form, framed, text
from virt_dra.inventory.topology import PLACES, TopologyNode, folded, unfolded

_MARKS: Final = (("way", "in the way"), ("takes", "it has or would get"), ("frees", "would be freed"))


@cache
def topology_form() -> PageForm:
    return form(STATE_STYLE, "page.js", "map.js")


def topology_page(nodes: Sequence[TopologyNode], source: str, asked: str = "", *, fold: bool = True) -> str:
    """The topology as one page, with a search. ``source``: what was read, and when; ``asked``: whose answer is laid
    over the devices, if one is."""
    answers = [verdict_answer(nodes, f"waits/{asked}")] if asked else []
    numbers = sum(node.name not in PLACES for node in nodes)
    devices = sum(len(node.devices) for node in nodes)
    over = f'<details class="wait" id="waits/{text(asked)}" open><summary><b>The answer for {text(asked)}</b></summary>'
    overlay = f"{over}</details>" if asked else ""
    main = f'<section class="panel"><h2>Devices by node</h2>{overlay}{map_html(nodes, answers, fold=fold)}</section>'
    title = f"{counted(devices, 'device')} of {counted(numbers, 'node')}"
    return framed(topology_form(), main, title, source, "node, model, VM, state, address")


def map_html(nodes: Sequence[TopologyNode], answers: Sequence[LitAnswer] = (), *, fold: bool = True) -> str:
    """``answers``: what lights up when it is chosen."""
    folds = folded(nodes) if fold else unfolded(nodes)
    signs: Json = {word: look.sign for word, look in LOOKS.items()}
    return (
        f"{_legend(nodes, marks=bool(answers))}<div id='map'><noscript>The map needs JavaScript.</noscript></div>"
        f"{data_element('signs', signs)}{data_element('data', map_data(nodes, folds, answers))}"
    )


def _legend(nodes: Iterable[TopologyNode], *, marks: bool) -> str:
    there = {state_shown(device) for node in nodes for device in node.devices}
    items = [(f"s-{word}", look.sign, word) for word, look in LOOKS.items() if word in there]
    items += [(mark, "", said) for mark, said in _MARKS] if marks else []
    listed = "".join(
        f'<li><span class="device {style}" aria-hidden="true">{sign}</span> {text(said)}</li>'
        for style, sign, said in items
    )
    return f'<ul class="legend" aria-label="Legend">{listed}</ul>'
