"""A large JSON object, such as the List of ``kubectl get -o json``, read item by item, so that the length of each item is known.

An item with few brackets can't be nested too deeply, and a short one can't be too large an object: looking for that in every value takes
as long as reading it. What isn't certain is left to the reader of any text (``json_text``), which also describes every fault.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from virt_dra.api.reading.document_error import MAX_DEPTH, is_deeper
from virt_dra.api.reading.json_members import decode_object

_OUTER_LEVELS: Final = 2
"""Around an item of a list that is a member of the object."""


@dataclass(frozen=True)
class LargeObject:
    """``longest_item``: as that of ``Parsed``."""

    value: dict[str, object]
    longest_item: int | None


def read_large_object(text: str, decoder: json.JSONDecoder) -> LargeObject | None:
    """The object that a text is. None if the text has something else or something wrong.

    ``decoder`` refuses with a ValueError whatever it won't have.
    """
    measuring = _MeasuringDecoder(decoder)
    try:
        value = decode_object(text, measuring, {"items": measuring.note_item}, _refuse_repeated)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    return LargeObject(value, len(text) - measuring.length_of_items + measuring.longest_item if measuring.longest_item else None)


def _refuse_repeated(name: str) -> NoReturn:
    raise ValueError(f"{name} is given twice")


class _MeasuringDecoder(json.JSONDecoder):
    """Decodes as another decoder does, and notes lengths. Raises ValueError for values that are nested too deeply."""

    def __init__(self, decoder: json.JSONDecoder) -> None:
        super().__init__()
        self._decode = decoder.raw_decode
        self._length = self.length_of_items = self.longest_item = 0

    def note_item(self, item: object, _: int) -> object:
        """The item, which was decoded last."""
        self.length_of_items += self._length
        self.longest_item = max(self.longest_item, self._length)
        return item

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        value, end = self._decode(s, idx)
        self._length = end - idx
        levels = MAX_DEPTH - _OUTER_LEVELS
        if self._length > levels and s.count("{", idx, end) + s.count("[", idx, end) > levels and is_deeper(value, levels):
            raise ValueError("nested too deeply")
        return value, end
