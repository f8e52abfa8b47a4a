"""The topology as one HTML page, which loads nothing: cards to filter, for light and dark, keyboard and print."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template
from typing import Final

from virt_dra.api.counting import counted
from virt_dra.api.go_text import visible
from virt_dra.cli.shared.filter_script import FILTER_SCRIPT
from virt_dra.cli.topology.card_style import CARD_STYLE
from virt_dra.cli.topology.drawing import card_svg
from virt_dra.cli.topology.looks import LOOKS, words_of
from virt_dra.inventory.topology import NodeFold
from virt_dra.report_server.content_policy import policy_element

SHOWN: Final = 2000
"""Cards of a page at most."""
_SEARCHED: Final = 4000
"""Characters of a card that the filter looks at."""

_STYLE: Final = (
    """
:root { color-scheme: light dark; --line: #8886; } body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
max-width: 84rem; padding: 0 1rem; } header { display: flex; flex-wrap: wrap; gap: 1rem; align-items: baseline; } h1
{ font-size: 1.4rem; margin: 0; } input { font: inherit; padding: .3rem .6rem; border: 1px solid var(--line);
border-radius: 6px; min-width: 16rem; } .cards { display: flex; flex-wrap: wrap; gap: 1rem; margin-top: 1rem;
align-items: flex-start; } [hidden] { display: none !important; } @media print { input { display: none; } .card {
break-inside: avoid; } }
"""
    + CARD_STYLE
)

_PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
$policy
<title>Devices by node</title>
<style>$style</style>
</head>
<body>
<header><h1>Devices by node</h1><label>Filter <input id="filter" type="search" placeholder="node, model, VM, state"
autofocus></label> <span id="count" role="status"></span></header>
<p>$count: $legend. / goes to the filter, Escape clears it. Point at a box for its device.</p>
<main class="cards">
$cards
</main>
<script>$script</script>
</body>
</html>
""")


def topology_page(folds: Sequence[NodeFold]) -> str:
    """The page; of more than SHOWN cards the first."""
    shown = folds[:SHOWN]
    cards = "\n".join(map(fold_card, shown))
    legend = ", ".join(f"{look.sign} {word}" for word, look in LOOKS.items())
    left_out = f", of which the first {len(shown):,} are shown" if len(shown) < len(folds) else ""
    count = f"{counted(len(folds), 'group')} of like nodes{left_out}"
    return _PAGE.substitute(
        policy=policy_element(_STYLE, FILTER_SCRIPT),
        style=_STYLE,
        script=FILTER_SCRIPT,
        cards=cards,
        legend=legend,
        count=count,
    )


def fold_card(fold: NodeFold) -> str:
    """The card of like nodes, with the text that a page's filter looks at."""
    devices = " ".join(
        f"{device.row.id} {device.label} {device.row.address} {words_of(device)}" for device in fold.example.devices
    )
    searched = visible(f"{fold.title} {' '.join(fold.nodes[:100])} {devices}".lower()[:_SEARCHED])
    return f'<div class="card" data-text="{escape(searched)}">{card_svg(fold)}</div>'
