"""Names the server makes: ``generateName`` plus five characters of an alphabet without vowels and look-alikes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from random import Random

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
NAME_LENGTH = 63
ATTEMPTS = 8
"""Names tried before a collision is reported."""


def generated(prefix: str, suffix: str) -> str:
    """The prefix is cut so that the name has at most 63 characters."""
    return prefix[: NAME_LENGTH - SUFFIX_LENGTH] + suffix


def random_suffixes(random: Random) -> Callable[[], str]:
    """A source of suffixes that draws from ``random``."""
    return lambda: "".join(random.choice(ALPHABET) for _ in range(SUFFIX_LENGTH))


def counted_suffixes() -> Callable[[], str]:
    """``bbbbb``, ``bbbbc``, …: reproducible and free of collisions."""

    def suffixes() -> Iterator[str]:
        for number in count():
            digits = (number // len(ALPHABET) ** place % len(ALPHABET) for place in reversed(range(SUFFIX_LENGTH)))
            yield "".join(ALPHABET[digit] for digit in digits)

    source = suffixes()
    return lambda: next(source)
