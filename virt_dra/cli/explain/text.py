"""An explanation for people: the headline, what is in the way with the nearest first, who holds the devices, ways
out."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.api.counting import counted, listed
from virt_dra.api.go_text import visible
from virt_dra.scheduling.why.groups import RefusalGroup, group_text
from virt_dra.simulator.explaining.answer import WAITS, ExplainedAnswer

_SHOWN = 5
"""Groups of nodes that are shown unless all are asked for."""


def lines(answer: ExplainedAnswer, *, everything: bool = False) -> list[str]:
    """``everything``: all groups of nodes, with the devices that are their examples."""
    return [visible(line) for line in _lines(answer, everything)]


def _lines(answer: ExplainedAnswer, everything: bool) -> Iterator[str]:
    yield answer.headline
    yield from answer.unaligned
    if answer.keeping:
        yield ""
        yield "Kept devices:"
        yield from (f"  {text}" for text in answer.keeping)
    shown = answer.groups if everything or answer.verdict == WAITS else ()
    if len(shown) > 1 or any(reason.detail or reason.term for group in shown for reason in group.reasons) or everything:
        yield ""
        yield "In the way, the nearest first:"
        for group in shown if everything else shown[:_SHOWN]:
            yield from _group_lines(group, everything)
        if not everything and len(shown) > _SHOWN:
            yield f"  and {counted(len(shown) - _SHOWN, 'other group')} of nodes; -v shows all"
    if answer.held:
        yield ""
        yield "Held by:"
        for device, holder in answer.held:
            yield f"  {device}: {holder.description}"
    if answer.unknown:
        yield ""
        yield from map(str, answer.unknown)
    if answer.unjudged:
        yield ""
        yield f"Time ran out: {counted(answer.unjudged, 'node')} not looked at; --timeout gives more"
    if answer.verdict == WAITS:
        yield ""
        if answer.ways:
            yield "Ways out, each tried on a copy of this cluster:"
            yield from (f"  * {way.text}" for way in answer.ways)
        else:
            yield "No single change was found after which it would start."
    if answer.reason:
        yield ""
        yield f"More about it: virt-dra explain {answer.reason}"


def _group_lines(group: RefusalGroup, everything: bool) -> Iterator[str]:
    yield f"  {group_text(group)}"
    for reason in group.reasons:
        if reason.term:
            yield f"    false: {reason.term}"
        if reason.detail:
            yield f"    {reason.detail}"
        if everything and group.examples.get(reason):
            yield f"    such as {', '.join(map(str, group.examples[reason]))}"
    if everything:
        yield f"    on {listed(group.nodes, 10)}"
    if group.others and everything:
        yield f"    {counted(group.others, 'device')} there {'is' if group.others == 1 else 'are'} further from fitting"
