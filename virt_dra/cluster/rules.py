"""The default admission: the defaults and the validation of :mod:`virt_dra.api`."""

from __future__ import annotations

from collections.abc import Sequence

from virt_dra.api.defaults import apply_defaults
from virt_dra.api.meta import TypedObject
from virt_dra.cluster.port import Cause


class KindRules:
    """Implements :class:`virt_dra.cluster.admission.Admission` (C-2.5, C-14)."""

    def defaulted(self, obj: TypedObject, now: str) -> TypedObject:
        return apply_defaults(obj, now)

    def on_create(self, obj: TypedObject) -> Sequence[Cause]:
        return ()

    def on_update(self, new: TypedObject, old: TypedObject) -> Sequence[Cause]:
        return ()

    def on_status_update(self, new: TypedObject, old: TypedObject) -> Sequence[Cause]:
        return ()
