"""The default admission: the defaults and the validation of :mod:`virt_dra.api`, with selectors compiled by :mod:`virt_dra.cel`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from virt_dra.api.defaults import apply_defaults
from virt_dra.api.meta import TypedObject
from virt_dra.api.validation import FieldError, Rules, validate_create, validate_status_update, validate_update
from virt_dra.cel import CompileError, compile_selector
from virt_dra.cluster.port import Cause


def selector_fault(expression: str) -> str | None:
    """What keeps a selector from compiling, in the API server's words (C-14.1)."""
    try:
        compile_selector(expression)
    except CompileError as error:
        return str(error)
    return None


COMPILED = Rules(check_selector=selector_fault)


class KindRules:
    """Implements :class:`virt_dra.cluster.admission.Admission` (C-2.5, C-14).

    ``rules`` tell what lies above validation: compilers of expressions, feature gates.
    """

    def __init__(self, rules: Rules = COMPILED) -> None:
        self._rules = rules

    def defaulted(self, obj: TypedObject, now: str) -> TypedObject:
        return apply_defaults(obj, now)

    def on_create(self, obj: TypedObject) -> Sequence[Cause]:
        return _causes(validate_create(obj, self._rules))

    def on_update(self, new: TypedObject, old: TypedObject) -> Sequence[Cause]:
        return _causes(validate_update(new, old, self._rules))

    def on_status_update(self, new: TypedObject, old: TypedObject) -> Sequence[Cause]:
        return _causes(validate_status_update(new, old, self._rules))


def _causes(errors: Iterable[FieldError]) -> tuple[Cause, ...]:
    return tuple(Cause(error.field, error.type.value, error.message) for error in errors)
