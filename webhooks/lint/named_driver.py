"""Which driver a selector names: what is known of a class before any device of it is published."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_NAMED: Final = re.compile(r"""\s*device\.driver\s*==\s*(["'])([a-z0-9]([-a-z0-9.]*[a-z0-9])?)\1\s*(?:&&.*)?""", re.DOTALL)
"""The driver's name alone or first, as classes are written. What follows only narrows it, unless it is an alternative."""


def named_driver(expressions: Iterable[str]) -> str | None:
    """The one driver whose devices the selectors can match, as far as a look at their texts tells; None where it doesn't.

    >>> named_driver(['device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].type == "vfio"'])
    'gpu.example.com'
    >>> named_driver(['device.driver == "a.example.com" || true', "true"])
    """
    for text in expressions:
        named = _NAMED.fullmatch(text)
        if named is not None and "||" not in text and "?" not in text:
            return named[2]
    return None
