"""The README's recording shows what the command prints today, moves by CSS alone, and stands still with the end where
nothing may move."""

from __future__ import annotations

import re
from typing import Final

import pytest
from lxml import etree

from devtools.site.recording import COLUMNS, ROOT, ROWS, TARGET, Span, animated, lines_of, recording, run, steady

SVG: Final = "{http://www.w3.org/2000/svg}"


def _texts(svg: str) -> list[str]:
    return ["".join(map(str, element.itertext())) for element in etree.fromstring(svg.encode()).iter(f"{SVG}text")]


@pytest.mark.slow
def test_the_recording_is_what_the_command_prints() -> None:
    kept = TARGET.read_text(encoding="utf-8")
    again = recording()
    assert _texts(kept) == _texts(again), "run: python -m devtools.site.recording"
    assert kept == again, "run: python -m devtools.site.recording"
    assert _texts(kept)[:5] == [
        "virt-dra",
        "$ ",
        "virt-dra run examples/contention",
        "examples/contention (KubeVirt 1.9)",
        "VM               READY   NODE     DEVICES            REMARKS",
    ]
    assert _texts(kept)[-3] == "2 of 3 VMs ready"
    assert [text.split(":")[0] for text in _texts(kept)[-2:]] == ["Not known"] * 2
    assert max(map(len, _texts(kept))) <= COLUMNS


def test_the_readme_shows_it() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"!\[[^\]]{{20,}}\]\({TARGET.relative_to(ROOT)}\)", readme)


def test_generated_names_are_replaced_in_the_order_in_which_they_appear() -> None:
    printed = (
        "pod virt-launcher-first-dghrm: virt-launcher-first-dghrm-gpu-f6jk6\nvirt-launcher-third-x2x2x "
        "node-22222 virt-launcher-first-dghrm"
    )
    assert steady(printed) == (
        "pod virt-launcher-first-bbbbb: virt-launcher-first-bbbbb-gpu-bbbbc\nvirt-launcher-third-bbbbd "
        "node-22222 virt-launcher-first-bbbbb"
    )


def test_colors_become_looks() -> None:
    plain, empty, mixed = lines_of("a\n\n\x1b[1;31mFAILED\x1b[0m b \x1b[32mready\x1b[0m\x1b[2m (x)\x1b[0m\n\n")
    assert (plain, empty) == ((Span("a"),), ())
    assert mixed == (Span("FAILED", ("bold", "red")), Span(" b "), Span("ready", ("green",)), Span(" (x)", ("dim",)))


def test_without_animation_the_end_stands_there() -> None:
    lines = [(Span(f"line <{number}>"),) for number in range(ROWS + 4)]
    svg = animated("c", lines)
    assert f".lines {{ transform: translateY({-18 * 5}px); animation: scroll " in svg
    assert f"100% {{ transform: translateY({-18 * 5}px); }}" in svg
    assert "@media (prefers-reduced-motion: reduce) { * { animation: none !important; } }" in svg
    assert _texts(svg) == ["virt-dra", "$ ", "c", *(f"line <{number}>" for number in range(ROWS + 4))]
    # Hidden only by animations: no rule but those of keyframes has an opacity.
    assert re.findall(r"opacity", re.sub(r"@keyframes \w+ \{( [^{}]+\{[^{}]*\})+ \}", "", svg)) == []


def test_a_command_that_cannot_run_is_an_error() -> None:
    with pytest.raises(
        RuntimeError, match=r"^virt-dra run no-such-folder ended with 2: error: no-such-folder: no such file or folder$"
    ):
        run(("virt-dra", "run", "no-such-folder"))
