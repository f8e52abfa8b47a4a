"""The topology as one HTML page, which loads nothing: the map of devices, to search."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from virt_dra.api.counting import counted
from virt_dra.cli.topology.colours import STATE_STYLE
from virt_dra.cli.topology.map_data import verdict_answer
from virt_dra.cli.topology.map_html import map_html
from virt_dra.html.frame import PageForm, form, framed, text
from virt_dra.inventory.topology import PLACES, TopologyNode


@cache
def topology_form() -> PageForm:
    return form(STATE_STYLE, "page.js", "map.js")


def topology_page(nodes: Sequence[TopologyNode], source: str, asked: str = "", *, fold: bool = True) -> str:
    """``source``: what was read, and when; ``asked``: whose answer is laid over the devices, if one is."""
    answers = [verdict_answer(nodes, f"waits/{asked}")] if asked else []
    numbers = sum(node.name not in PLACES for node in nodes)
    devices = sum(len(node.devices) for node in nodes)
    over = f'<details class="wait" id="waits/{text(asked)}" open><summary><b>The answer for {text(asked)}</b></summary>'
    overlay = f"{over}</details>" if asked else ""
    main = f'<section class="panel"><h2>Devices by node</h2>{overlay}{map_html(nodes, answers, fold=fold)}</section>'
    title = f"{counted(devices, 'device')} of {counted(numbers, 'node')}"
    return framed(topology_form(), main, title, source, "node, model, VM, state, address")
