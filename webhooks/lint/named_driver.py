"""The driver that a selector's text names, which is known before any device is published."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_NAMED: Final = re.compile(
    r"""\s*device\.driver\s*==\s*(["'])([a-z0-9]([-a-z0-9.]*[a-z0-9])?)\1\s*(?:&&.*)?""", re.DOTALL
)
"""A comparison with the driver's name, alone or first, as classes have it. A conjunction after it only narrows it
down."""


def named_driver(expressions: Iterable[str]) -> str | None:
    """The only driver whose devices the selectors can match, derived from their texts; None if it can't be derived.

    >>> named_driver(['device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].type == "vfio"'])
    'gpu.example.com'
    >>> named_driver(['device.driver == "a.example.com" || true', "true"])
    """
    for text in expressions:
        named = _NAMED.fullmatch(text)
        if named is not None and "||" not in text and "?" not in text:
            return named[2]
    return None
