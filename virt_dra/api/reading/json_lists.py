"""A large List, as ``kubectl get -o json`` writes it: each item is handed on as soon as it is decoded, so that the whole is never in
memory as JSON, which takes ten times as much as the text.

The length of an item's text says what needn't be looked for in it: with few brackets it can't be nested too deeply, and a short one can't
be too large an object. What isn't certain is left to the reader of any text (``json_text``), which also describes every fault.
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
"""Items of lists of other kinds (``PodList``) don't say what they are."""
_OTHER: Final = re.compile(rf'\s*\{{\s*"kind"\s*:\s*"(?!{_KIND}")')
"""How the API server's own lists begin."""
_OUTER_LEVELS: Final = 2
"""Around an item."""


def take_items(text: str, decoder: json.JSONDecoder, take: TakeItem) -> bool:
    """Whether the text is a List and nothing else, and all its items were taken. If not, those that were taken must be forgotten.

    ``decoder`` refuses with a ValueError whatever it won't have.
    """
    if _OTHER.match(text):
        return False
    measuring = _MeasuringDecoder(decoder)
    try:
        value = decode_object(text, measuring, {"items": lambda item, index: take(item, index, measuring.length)}, _refuse_repeated)
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

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        value, end = self._decode(s, idx)
        self.length = end - idx
        levels = MAX_DEPTH - _OUTER_LEVELS
        if self.length > levels and s.count("{", idx, end) + s.count("[", idx, end) > levels and is_deeper(value, levels):
            raise ValueError("nested too deeply")
        return value, end
