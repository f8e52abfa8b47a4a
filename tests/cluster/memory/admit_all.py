"""An admission without defaults and rules, for tests that are about something else."""

from __future__ import annotations

from collections.abc import Sequence

from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.cluster.port import StatusCause


class AdmitAll:
    """No defaults, no rules: for tests that are about something else."""

    def defaulted(self, obj: TypedObject, now: str) -> TypedObject:
        return obj

    def permitted(self, new: ObjectT, old: ObjectT | None) -> ObjectT:
        return new

    def permitted_status(self, new: ObjectT, old: ObjectT) -> ObjectT:
        return new

    def on_create(self, obj: TypedObject) -> Sequence[StatusCause]:
        return ()

    def on_update(self, new: TypedObject, old: TypedObject) -> Sequence[StatusCause]:
        return ()

    def on_status_update(self, new: TypedObject, old: TypedObject) -> Sequence[StatusCause]:
        return ()
