"""What the page as a file and the live page have in common and apart: style, script and policy. Light to import: the
serving process reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from virt_dra.cli.shared.filter_script import FILTER_SCRIPT
from virt_dra.cli.topology.card_style import CARD_STYLE
from virt_dra.report_server.content_policy import policy_element

STYLE: Final = (
    """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; --bad: light-dark(#a11a12, #ff9a92); --good:
light-dark(#0b6b2b, #7fdc9d); } body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 84rem;
padding: 0 1rem 4rem; } header { position: sticky; top: 0; background: Canvas; padding: .8rem 0; border-bottom: 1px
solid var(--line); z-index: 1; } h1 { font-size: 1.3rem; margin: 0 0 .4rem; } h2 { font-size: 1.1rem; margin: 2rem 0
.6rem; } nav a { margin-right: 1rem; } input { font: inherit; padding: .3rem .6rem; border: 1px solid var(--line);
border-radius: 6px; min-width: 16rem; } .numbers { display: flex; flex-wrap: wrap; gap: .8rem; margin-top: 1rem; }
.number { border: 1px solid var(--line); border-radius: 8px; padding: .4rem .9rem; } .number b { font-size: 1.3rem;
display: block; } .cards { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; } table {
border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid
var(--line); vertical-align: top; } td:first-child, .short { white-space: nowrap; } .wide { overflow-x: auto; } .bad
{ color: var(--bad); } .good { color: var(--good); } details { border: 1px solid var(--line); border-radius: 8px;
padding: .5rem .8rem; margin: .5rem 0; } summary { cursor: pointer; } .bar { vertical-align: middle; margin-right:
.5rem; fill: #2f5fb3; } #leave { display: inline; } [hidden] { display: none !important; } @media print { header {
position: static; } input { display: none; } .card, details { break-inside: avoid; } }
"""
    + CARD_STYLE
)


@dataclass(frozen=True)
class PageForm:
    """What the page as a file and the live page have apart. ``policy``: the policy's element; ``live``: a template, in
    the header."""

    policy: str
    script: str
    live: str = ""


FILE: Final = PageForm(policy_element(STYLE, FILTER_SCRIPT), FILTER_SCRIPT)
