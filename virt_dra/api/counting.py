"""Numbers of things in messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number with its noun in singular or plural.

    >>> counted(1, "device"), counted(0, "device"), counted(2, "more address")
    ('1 device', '0 devices', '2 more addresses')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{'es' if noun.endswith(('s', 'x', 'ch')) else 's'}"
