"""The base of every wire type: an immutable, typed view of JSON that keeps what it does not know.

Contract:
* Field names in Python are snake_case, on the wire camelCase (explicit alias where the wire name is irregular).
* Fields that an API version unknown to us carries survive: they are kept and written again by :meth:`Wire.to_wire`.
* A field that was not given is not written; a field that was given is written, even when empty, so that
  ``model_fields_set`` answers "was this key present" (several KubeVirt rules need that, K-1.3).
* ``null`` for a list, a map or an object means "absent" as in Kubernetes, in a map it is an empty entry;
  types are never coerced (``"1"`` is not an integer).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError
from pydantic.alias_generators import to_camel

T = TypeVar("T")
W = TypeVar("W", bound="Wire")

Str = StrictStr
Bool = StrictBool
Int = Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)]
"""Of 64 bits, as every integer of Kubernetes' types."""
Int32 = Annotated[StrictInt, Field(ge=-(2**31), lt=2**31)]
Json = dict[str, Any]
"""A JSON object as ``json.loads`` gives it. Values are arbitrary JSON, hence ``Any``."""


def _empty_list_for_null(value: object) -> object:
    return () if value is None else value


def _empty_map_for_null(value: object) -> object:
    return {} if value is None else value


List = Annotated[tuple[T, ...], BeforeValidator(_empty_list_for_null)]
"""An atomic list; ``null`` reads as empty."""
Map = Annotated[dict[Str, T], BeforeValidator(_empty_map_for_null)]
"""A map with string keys; ``null`` reads as empty."""
EMPTY_MAP: Json = Field(default_factory=dict)
"""The default of a map. Unlike ``{}``, which pydantic copies deeply for each object, it costs next to nothing."""


class WireError(ValueError):
    """JSON that does not have the shape of its kind.

    ``problems`` holds one ``(path, message)`` per fault, the path in Kubernetes notation (``spec.devices[0].name``).
    """

    def __init__(self, kind: str, problems: tuple[tuple[str, str], ...]) -> None:
        self.kind = kind
        self.problems = problems
        super().__init__("; ".join(f"{path}: {message}" if path else message for path, message in problems))


class Wire(BaseModel):
    """An immutable wire type. See the module's contract."""

    model_config = ConfigDict(
        extra="allow",
        frozen=True,
        validate_by_name=True,
        validate_by_alias=True,
        alias_generator=to_camel,
        defer_build=True,
    )

    @classmethod
    def from_wire(cls, raw: object) -> Self:
        """Read one JSON value. Raises :class:`WireError` naming every faulty field."""
        try:
            return cls._read(raw)
        except ValidationError as error:
            # Looked for only now, so that reading the usual object costs nothing.
            nulls = [
                (problem["loc"], problem["type"])
                for problem in error.errors(include_url=False)
                if problem["loc"] and problem["input"] is None
            ]
            first = error
        try:
            if nulls:
                return cls._read(_without(cls, raw, nulls))
        except ValidationError as error:
            first = error
        raise WireError(
            cls.__name__, tuple((field_path(p["loc"]), describe(p)) for p in first.errors(include_url=False))
        )

    @classmethod
    def empty(cls) -> Self:
        """An object without fields. Unlike ``cls()`` it needs no compiled schema, so as a default it costs nothing."""
        instance: Self = cls.model_construct()  # type: ignore[assignment] # pydantic's plugin takes it for the base class
        return instance

    @classmethod
    def _read(cls, raw: object) -> Self:
        return cls.model_validate(raw, by_alias=True, by_name=False)

    def __deepcopy__(self, memo: object = None) -> Self:
        """Itself, as it never changes: pydantic copies the default of each field that isn't given."""
        return self

    def to_wire(self) -> Json:
        """The JSON object, with exactly the fields that were given."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def with_(self, **changes: object) -> Self:
        """A copy in which the given fields (Python names) have new values. Values are not validated."""
        return self.model_copy(update=changes)

    def replacing(self, **fields: object) -> Self:
        """A copy with those fields that are other objects; itself if none is: an absent default stays absent."""
        changes = {name: value for name, value in fields.items() if getattr(self, name) is not value}
        return self.with_(**changes) if changes else self

    def without(self, *fields: str) -> Self:
        """A copy in which the given fields (Python names, or unknown wire names) are absent; itself if they are."""
        extra = self.model_extra or {}
        there = [field for field in fields if field in self.model_fields_set or field in extra]
        if not there:
            return self
        bare = self.model_copy()
        for field in there:
            info = type(self).model_fields.get(field)
            if info is not None:
                bare.__dict__[field] = info.get_default(call_default_factory=True)
            elif bare.model_extra is not None:
                bare.model_extra.pop(field, None)
            bare.model_fields_set.discard(field)
        return bare

    def given(self, field: str) -> bool:
        """Whether the key of this field (Python name) was present, whatever its value."""
        return field in self.model_fields_set


_set = object.__setattr__


class Stamp(Generic[W]):
    """A maker of objects of a type, from values that are known to have their types: some times faster than the
    constructor, for what is made by the thousand. The values of fields that aren't given are shared, since they are
    never changed."""

    def __init__(self, kind: type[W], same: Mapping[str, object], *different: str) -> None:
        """``same``: field (Python name) -> its value in all of them. ``different``: fields that each object brings."""
        unset = {name: field.get_default(call_default_factory=True) for name, field in kind.model_fields.items()}
        self._kind = kind
        self._values = {**unset, **same}
        self._given = {*same, *different}

    def __call__(self, **different: object) -> W:
        """An object with these values. Raises nothing: wrong or missing values stay wrong."""
        made = self._kind.__new__(self._kind)
        _set(made, "__dict__", {**self._values, **different})
        _set(made, "__pydantic_fields_set__", self._given)
        _set(made, "__pydantic_extra__", {})
        _set(made, "__pydantic_private__", None)
        return made


def _without(kind: type[Wire], raw: object, nulls: Iterable[tuple[tuple[int | str, ...], str]]) -> object:
    """A copy of a JSON value of that kind without the named nulls (path and pydantic's type of error), as Kubernetes
    reads them: a member of an object that is null is absent, an entry of a map is there and empty.
    """
    copy = deepcopy(raw)
    for (*path, last), fault in nulls:
        owner: Any = copy
        for part in path:
            try:
                owner = owner[part]
            except (KeyError, IndexError, TypeError):
                owner = None
        if isinstance(owner, dict):
            if fault in _EMPTY and get_origin(_type_at(kind, path)) is dict:
                owner[str(last)] = _EMPTY[fault]()
            else:
                owner.pop(last, None)
    return copy


_EMPTY: Mapping[str, Callable[[], object]] = {"model_type": dict, "model_attributes_type": dict, "string_type": str}
"""The value of null in a map, by the type of pydantic's error."""


def _type_at(kind: object, path: Iterable[int | str]) -> object:
    """The declared type of what is at a path (wire names) in a value of a type; None if the type doesn't know it."""
    for part in path:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in (tuple, dict):
            kind = arguments[0 if origin is tuple else 1]
        elif isinstance(kind, type) and issubclass(kind, Wire):
            fields = (field.annotation for name, field in kind.model_fields.items() if part == (field.alias or name))
            kind = next(fields, None)
        else:
            return None
        kind = bare_type(kind)
    return kind


def bare_type(annotation: Any) -> Any:
    """The type without ``Annotated`` and ``| None``."""
    while get_origin(annotation) in (Annotated, Union, UnionType):
        annotation = next(argument for argument in get_args(annotation) if argument is not NoneType)
    return annotation


def field_path(location: tuple[int | str, ...]) -> str:
    """``("spec", "devices", 0, "name")`` -> ``spec.devices[0].name``. Other map keys become ``[key]``."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part.replace("_", "").replace("-", "").isalnum():
            path += f".{part}" if path else part
        else:
            path += f"[{part}]"
    return path


_EXPECTED: Mapping[str, str] = {
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "bool_type": "must be a boolean",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "missing": "is required",
}


def describe(problem: Mapping[str, Any]) -> str:
    """One sentence for a pydantic error: what is wrong and what was found."""
    if problem["type"] in ("greater_than_equal", "less_than"):
        bound = problem["ctx"].get("ge", problem["ctx"].get("lt"))
        return f"must fit into {32 if abs(bound) <= 2**31 else 64} bits"
    expected = _EXPECTED.get(problem["type"])
    if expected is None:
        return str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "missing":
        return expected
    given = problem.get("input")
    # Words such as y, no and on are booleans in YAML as Kubernetes reads it, which surprises whoever wrote a name.
    advice = "; put it in quotes" if problem["type"] == "string_type" and isinstance(given, bool) else ""
    return f"{expected}, not {JSON_TYPES.get(type(given), type(given).__name__)}{advice}"


JSON_TYPES: Mapping[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
"""What a value is called in a message."""


def changed_items(items: tuple[W, ...], change: Callable[[W], W]) -> tuple[W, ...]:
    """The items after a change; the same tuple if none is another object."""
    if not items:
        return items
    changed = tuple(change(item) for item in items)
    return items if all(new is old for new, old in zip(changed, items, strict=True)) else changed


class Object(Wire):
    """A Kubernetes object: has a kind, a version and metadata. Subclasses set the class variables."""

    API_VERSION: ClassVar[str] = ""
    KIND: ClassVar[str] = ""
    PLURAL: ClassVar[str] = ""
    NAMESPACED: ClassVar[bool] = True
    HAS_STATUS: ClassVar[bool] = True
    """Whether ``status`` is a subresource of its own (KubeVirt's VMI has a status but no such subresource, K-9.1)."""

    api_version: Str = ""
    kind: Str = ""

    def to_wire(self) -> Json:
        head = {"apiVersion": self.api_version or self.API_VERSION, "kind": self.kind or self.KIND}
        return {**head, **{k: v for k, v in super().to_wire().items() if k not in head}}


def present(fields: Mapping[str, Any]) -> Json:
    """The fields that have a value."""
    return {key: value for key, value in fields.items() if value is not None}
