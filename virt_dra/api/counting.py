"""Numbers of things, and long texts, in messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_SAME_IN_PLURAL: Final = ("more", "other", "info", "ok")


def counted(number: int, noun: str) -> str:
    """A number with its noun in singular or plural.

    >>> counted(1, "device"), counted(0, "device"), counted(2400, "more address"), counted(5, "more")
    ('1 device', '0 devices', '2,400 more addresses', '5 more')
    """
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """The plural of a regular noun, of whose words only the last is inflected.

    >>> plural("new pod"), plural("policy"), plural("class"), plural("other")
    ('new pods', 'policies', 'classes', 'other')
    """
    if noun.rpartition(" ")[2] in _SAME_IN_PLURAL:
        return noun
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return f"{noun[:-1]}ies"
    return f"{noun}{'es' if noun.endswith(('s', 'x', 'ch')) else 's'}"


def cut_after(text: str, characters: int) -> str:
    """The text; of a longer one so many characters, and an ellipsis.

    >>> cut_after("gpu-0", 5), cut_after("gpu-10", 5)
    ('gpu-0', 'gpu-1…')
    """
    return text if len(text) <= characters else f"{text[:characters]}…"


def listed(names: Sequence[str], most: int) -> str:
    """The first of the names, and how many more there are.

    >>> listed(["a", "b"], 2), listed(["a", "b", "c", "d"], 2)
    ('a, b', 'a, b and 2 more')
    """
    shown = ", ".join(names[:most])
    return f"{shown} and {counted(len(names) - most, 'more')}" if len(names) > most else shown
