"""The topology as one HTML page, which loads nothing: cards to filter, for light and dark, keyboard and print."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template
from typing import Final

from virt_dra.api.go_text import visible
from virt_dra.cli.topology.drawing import CARD_STYLE, card_svg
from virt_dra.cli.topology.looks import LOOKS, words_of
from virt_dra.inventory.topology import NodeFold

SHOWN: Final = 2000
"""Cards of a page at most."""

_PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>Devices by node</title>
<style>
:root { color-scheme: light dark; --line: #8886; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 84rem; padding: 0 1rem; }
header { display: flex; flex-wrap: wrap; gap: 1rem; align-items: baseline; }
h1 { font-size: 1.4rem; margin: 0; }
input { font: inherit; padding: .3rem .6rem; border: 1px solid var(--line); border-radius: 6px; min-width: 16rem; }
.cards { display: flex; flex-wrap: wrap; gap: 1rem; margin-top: 1rem; align-items: flex-start; }
$card_style
.card[hidden] { display: none; }
@media print { input { display: none; } .card { break-inside: avoid; } }
</style>
</head>
<body>
<header><h1>Devices by node</h1><label>Filter <input id="filter" type="search" placeholder="node, model, VM, state" autofocus></label>
<span id="count" role="status">$count</span></header>
<p>$legend. / goes to the filter, Escape clears it. Point at a box for its device.</p>
<main class="cards">
$cards
</main>
<script>
const filter = document.getElementById("filter"), cards = [...document.querySelectorAll(".card")], count = document.getElementById("count");
function apply() {
  const words = filter.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let shown = 0;
  for (const card of cards) {
    card.hidden = !words.every(word => card.dataset.text.includes(word));
    shown += card.hidden ? 0 : 1;
  }
  count.textContent = shown + " of " + cards.length + " groups of nodes";
}
filter.addEventListener("input", apply);
document.addEventListener("keydown", event => {
  if (event.key === "/" && document.activeElement !== filter) { event.preventDefault(); filter.focus(); }
  if (event.key === "Escape") { filter.value = ""; apply(); }
});
</script>
</body>
</html>
""")


def topology_page(folds: Sequence[NodeFold]) -> str:
    """The page; of more than SHOWN cards the first."""
    shown = folds[:SHOWN]
    cards = "\n".join(f'<div class="card" data-text="{escape(_searched(fold))}">{card_svg(fold)}</div>' for fold in shown)
    legend = ", ".join(f"{look.sign} {word}" for word, look in LOOKS.items())
    count = f"{len(shown)} of {len(folds)} groups of nodes"
    return _PAGE.substitute(cards=cards, card_style=CARD_STYLE, legend=legend, count=count)


def _searched(fold: NodeFold) -> str:
    """What the filter looks at, in lower case."""
    names = " ".join(fold.nodes[:100])
    devices = " ".join(f"{device.row.id} {device.label} {device.row.address} {words_of(device)}" for device in fold.example.devices)
    return visible(f"{fold.title} {names} {devices}".lower())
