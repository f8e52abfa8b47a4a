"""Random JSON for the wire types: every kind, with fields nobody knows, in canonical spelling so that it survives
unchanged."""

from __future__ import annotations

import types
import typing
from random import Random
from typing import Any

from hypothesis import strategies as st

from virt_dra.api.meta import TypedObject
from virt_dra.api.quantity import Quantity
from virt_dra.api.wire import Json, Wire

WORDS = ("a", "gpu-0", "example.com/x", "Ω", "with space", "0", "true", "null", "\u2028", "spec")
QUANTITIES = ("0", "1", "80Gi", "500m", "1e3", "2k", "-1")


def random_json(rng: Random, depth: int = 2) -> Any:
    kinds: list[Any] = [None, True, False, rng.randint(-(2**40), 2**40), 0.5, rng.choice(WORDS)]
    if depth > 0:
        kinds.append([random_json(rng, depth - 1) for _ in range(rng.randint(0, 2))])
        kinds.append({rng.choice(WORDS): random_json(rng, depth - 1) for _ in range(rng.randint(0, 2))})
    return rng.choice(kinds)


def random_value(annotation: object, rng: Random) -> Any:
    """JSON that the annotation reads and writes again as it is: no null for a list or map, quantities in canonical
    form."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        (only,) = (argument for argument in arguments if argument is not type(None))
        return None if rng.random() < 0.1 else random_value(only, rng)
    if origin is typing.Annotated:
        return random_value(arguments[0], rng)
    if origin is tuple:
        return [random_value(arguments[0], rng) for _ in range(rng.randint(0, 2))]
    if origin is dict:
        return {rng.choice(WORDS): random_value(arguments[1], rng) for _ in range(rng.randint(0, 2))}
    if annotation is typing.Any:
        return random_json(rng)
    assert isinstance(annotation, type), annotation
    if issubclass(annotation, Wire):
        return random_fields(annotation, rng)
    if issubclass(annotation, Quantity):
        return rng.choice(QUANTITIES)
    return {str: rng.choice(WORDS), bool: rng.random() < 0.5, int: rng.randint(-3, 2**31 - 1)}[annotation]


def random_fields(kind: type[Wire], rng: Random) -> Json:
    raw: Json = {}
    for name, field in kind.model_fields.items():
        if field.is_required() or rng.random() < 0.6:
            raw[field.serialization_alias or field.alias or name] = random_value(field.annotation, rng)
    if rng.random() < 0.3:
        raw["fieldOfTheFuture"] = random_json(rng)
    return raw


def random_object(kind: type[TypedObject], rng: Random) -> Json:
    fields = {field: value for field, value in random_fields(kind, rng).items() if field not in ("apiVersion", "kind")}
    head = (kind.API_VERSION or "example.com/v1", kind.KIND or "Thing")
    return {"apiVersion": head[0], "kind": head[1], **fields}


RANDOMS = st.randoms(use_true_random=False, note_method_calls=False)
"""What :func:`random_object` draws from; hypothesis reports and repeats its seed."""
