"""An admission without defaults and rules, for tests that are about something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from virt_dra.api.meta import TypedObject
from virt_dra.cluster.port import StatusCause

O = TypeVar("O", bound=TypedObject)  # noqa: E741 - the object type, as in port


class AdmitAll:
    """No defaults, no rules: for tests that are about something else."""

    def defaulted(self, obj: TypedObject, now: str) -> TypedObject:
        return obj

    def permitted(self, new: O, old: O | None) -> O:
        return new

    def permitted_status(self, new: O, old: O) -> O:
        return new

    def on_create(self, obj: TypedObject) -> Sequence[StatusCause]:
        return ()

    def on_update(self, new: TypedObject, old: TypedObject) -> Sequence[StatusCause]:
        return ()

    def on_status_update(self, new: TypedObject, old: TypedObject) -> Sequence[StatusCause]:
        return ()
