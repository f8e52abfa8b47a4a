"""No text takes longer than in proportion to its length, in any reader: measured on repetitions of every token and pair
of tokens.

Time is the process's CPU time. A text is first read short, so that what grows without bound ends early; a time below
the allowance is fine whatever it is made of; a longer one must not have grown by more than ``GROWTH`` times what the
text has.
"""

from __future__ import annotations

import gc
import os
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, permutations

import pytest

from tests.security.readers import READERS, Reader
from virt_dra.api.quantity import Quantity
from virt_dra.api.reading.yaml_scalars import plain_scalar
from virt_dra.api.reading.yaml_writing import write_yaml
from virt_dra.api.semver import SemVer

pytestmark = pytest.mark.slow

FACTOR = 8
"""Between a text and the next longer one that is measured."""
GROWTH = 2.5
"""Times FACTOR: what the time may grow by. A square would be FACTOR times as much; twice is what a text that leaves the
processor's cache may cost, so the step from half the text must be too large, too."""
ALLOWANCE = 0.020
"""Seconds that any of these texts may take: some 5 times what the slowest reader needs for a short one."""
SINGLE, PAIR = 48 * 1024, 12 * 1024
"""Characters of the longest text made of one token, and of two."""
PAIRS = None if os.environ.get("VIRT_DRA_ALL_PAIRS") else 60
"""Pairs of tokens that are tried of each reader, always the same ones; all of them take some minutes."""
RUNS = 5
MEASURED = 3
"""Times that growth must be found: what grows with the square does so each time, a processor that others use as well
doesn't."""


def repeated(token: str, length: int) -> str:
    if "#" not in token or token.startswith("#") or token.endswith("# c\n"):
        return token * (length // len(token) + 1)
    parts: list[str] = []
    written = 0
    for number in count():
        parts.append(token.replace("#", str(number)))
        written += len(parts[-1])
        if written >= length:
            break
    return "".join(parts)


def texts(reader: Reader) -> Iterator[tuple[str, int, tuple[str, ...], str]]:
    """Opening, length, tokens and how they are put together."""
    for opening, closing in reader.openings:
        for token in reader.tokens:
            yield opening, SINGLE, (token,), closing
    pairs = list(permutations(reader.tokens, 2))
    for pair in pairs if PAIRS is None or len(pairs) <= PAIRS else random.Random(reader.name).sample(pairs, PAIRS):
        yield "", PAIR, pair, ""


def made(opening: str, tokens: tuple[str, ...], closing: str, length: int, alternating: bool) -> str:
    if alternating:
        return opening + repeated("".join(tokens), length) + closing
    return opening + "".join(repeated(token, length // len(tokens)) for token in tokens) + closing


def cost(reader: Reader, text: str) -> float:
    began = time.process_time()
    with suppress(*reader.refusals):
        reader.read(text)
    return time.process_time() - began


def least(reader: Reader, make: Callable[[int], str], lengths: tuple[int, ...]) -> list[float]:
    """Of several texts of each length, each a little longer than the one before, as readers remember texts. The lengths
    take turns, so that a machine that is slower for a moment is slower for all of them."""
    runs = [[cost(reader, make(length + number)) for length in lengths] for number in range(RUNS)]
    return [min(costs) for costs in zip(*runs, strict=True)]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_time_is_linear(reader: Reader) -> None:
    gc.collect()
    gc.freeze()  # so that what is collected between the texts is theirs only
    gc.disable()
    try:
        faults = [fault for fault in (_fault(reader, *text) for text in texts(reader)) if fault]
    finally:
        gc.enable()
    assert not faults, "\n".join(faults)


def _fault(reader: Reader, opening: str, longest: int, tokens: tuple[str, ...], closing: str) -> str:
    gc.collect()
    longest = min(longest, reader.limit or longest)
    for alternating in (True, False) if len(tokens) > 1 else (True,):
        for length in (longest // FACTOR**2, longest // FACTOR, longest):
            length -= len(opening) + len(closing) + RUNS + max(map(len, tokens)) + 8 if reader.limit else 0

            def make(size: int, alternating: bool = alternating) -> str:
                return made(opening, tokens, closing, size, alternating)

            once = cost(reader, make(length + RUNS))
            if once <= ALLOWANCE or once <= cost(reader, make(length // FACTOR + RUNS)) * FACTOR * 1.5:
                continue
            for _ in range(MEASURED):
                shorter, half, longer = least(reader, make, (length // FACTOR, length // 2, length))
                if longer <= ALLOWANCE or longer <= shorter * FACTOR * GROWTH or longer <= half * 2 * 1.5:
                    break
            else:
                return (
                    f"{reader.name}: {opening!r} {tokens!r} {closing!r}, "
                    f"{'alternating' if alternating else 'one after the other'}: "
                    f"{length // FACTOR:,} characters take {shorter:.4f} s, {length:,} take {longer:.4f} s"
                )
    return ""


def test_what_grows_with_the_square_is_found() -> None:
    def read(text: str) -> None:
        for end in range(0, len(text), 4):
            text.count("b", 0, end)

    fault = _fault(Reader("square", read, ("a",)), "", SINGLE, ("a",), "")
    assert fault.startswith("square: '' ('a',) '', alternating: 6,144 characters take ")


@pytest.mark.parametrize("read", [Quantity, lambda text: SemVer.parse(f"1.2.3-a{text}"), plain_scalar, write_yaml])
def test_long_texts_are_not_remembered(read: Callable[[str], object]) -> None:
    tracemalloc.start()
    try:
        for number in range(200):
            read("0" * 3000 + str(number))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()
