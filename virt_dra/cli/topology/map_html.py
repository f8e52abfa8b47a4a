"""The map of devices as pages have it: its place, its legend and the data that the page's script draws it of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from virt_dra.api.wire import Json
from virt_dra.cli.topology.colours import LOOKS
from virt_dra.cli.topology.looks import state_shown
from virt_dra.cli.topology.map_data import LitAnswer, map_data
from virt_dra.html.frame import data_element, text
from virt_dra.inventory.topology import TopologyNode, folded, unfolded

_MARKS: Final = (("way", "in the way"), ("takes", "it has or would get"), ("frees", "would be freed"))


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
