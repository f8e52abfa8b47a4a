"""resource.Quantity: exact numbers with a unit suffix, as Kubernetes reads, computes and writes them. (Skeleton: being written.)"""

from __future__ import annotations

from functools import lru_cache, total_ordering
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


@total_ordering
class Quantity:
    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self._text == other._text

    def __lt__(self, other: Quantity) -> bool:
        return self._text < other._text

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def _validate(cls, value: object) -> Quantity:
        return value if isinstance(value, Quantity) else _parsed(str(value))


@lru_cache(maxsize=65536)
def _parsed(text: str) -> Quantity:
    return Quantity(text)
