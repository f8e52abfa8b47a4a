"""A large List, as ``kubectl get -o json`` writes it: each item is handed on as soon as it is decoded, so that the
whole is never in memory as JSON, which takes ten times as much as the text.

Cheap tests save costly ones: an item with few opening brackets can't be nested too deeply, and one with a short text
can't be too large an object. A text that isn't plainly such a List, or has a fault, is left to the reader of any text
(``json_text``), which describes the fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from virt_dra.api.reading.document_error import MAX_DEPTH, is_deeper
from virt_dra.api.reading.json_members import decode_object

TakeItem = Callable[[object, int, int], object]
"""Takes an item, its index and the length of its text in characters. Raises ValueError for one that it won't have."""

_KIND: Final = "List"
"""Only this kind: the items of typed lists (``PodList``) don't give their own kinds."""
_OTHER_KIND_FIRST: Final = re.compile(rf'\s*\{{\s*"kind"\s*:\s*"(?!{_KIND}")')
"""So begin the API server's typed lists, which needn't be decoded to be ruled out."""
_OUTER_LEVELS: Final = 2
"""Around an item."""


def take_items(text: str, decoder: json.JSONDecoder, take: TakeItem) -> bool:
    """Whether the text is a List and nothing else, and all its items were taken. If not, those that were taken must be
    forgotten.

    ``decoder`` refuses with a ValueError whatever it won't have.
    """
    if _OTHER_KIND_FIRST.match(text):
        return False
    measuring = _MeasuringDecoder(decoder)
    try:
        value = decode_object(
            text, measuring, {"items": lambda item, index: take(item, index, measuring.length)}, _refuse_repeated
        )
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("kind") == _KIND and isinstance(value.get("items"), list)


def _refuse_repeated(name: str) -> NoReturn:
    raise ValueError(f"{name} is given twice")


class _MeasuringDecoder(json.JSONDecoder):
    """Decodes as another decoder does. Raises ValueError for values that are nested too deeply."""

    def __init__(self, decoder: json.JSONDecoder) -> None:
        super().__init__()
        self._decode = decoder.raw_decode
        self.length = 0
        """Of the value that was decoded last."""

    def decode(self, s: str, _w: object = None) -> NoReturn:
        """Refuses what isn't one object: the reader of any text decodes it whole."""
        raise ValueError("not one object")

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        value, end = self._decode(s, idx)
        self.length = end - idx
        levels = MAX_DEPTH - _OUTER_LEVELS
        if (
            self.length > levels
            and s.count("{", idx, end) + s.count("[", idx, end) > levels
            and is_deeper(value, levels)
        ):
            raise ValueError("nested too deeply")
        return value, end
