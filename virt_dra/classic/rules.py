"""The rules of an embedded cluster that also serves classic DRA: :class:`ClassicRules` in front of the usual ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.classic.validation import classic_faults, classic_status_faults, classic_update_faults, with_defaults
from virt_dra.cluster.memory.admission import Admission
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.plugins.chain import AdmissionPlugins
from virt_dra.cluster.memory.plugins.priority import check_default_class, with_priority
from virt_dra.cluster.memory.rules import KindRules, causes
from virt_dra.cluster.port import StatusCause


class ClassicRules:
    """Implements :class:`virt_dra.cluster.memory.admission.Admission`: :mod:`.validation`, then ``others``."""

    def __init__(self, others: Admission | None = None) -> None:
        self._others: Admission = KindRules() if others is None else others

    def defaulted(self, obj: TypedObject, now: str) -> TypedObject:
        return with_defaults(self._others.defaulted(obj, now))

    def permitted(self, new: ObjectT, old: ObjectT | None) -> ObjectT:
        return self._others.permitted(new, old)

    def permitted_status(self, new: ObjectT, old: ObjectT) -> ObjectT:
        return self._others.permitted_status(new, old)

    def on_create(self, obj: TypedObject) -> Sequence[StatusCause]:
        return (*self._others.on_create(obj), *causes(classic_faults(obj)))

    def on_update(self, new: TypedObject, old: TypedObject) -> Sequence[StatusCause]:
        return (*self._others.on_update(new, old), *causes(classic_update_faults(new, old)))

    def on_status_update(self, new: TypedObject, old: TypedObject) -> Sequence[StatusCause]:
        return (*self._others.on_status_update(new, old), *causes(classic_status_faults(new, old)))


def classic_cluster(
    clock: Callable[[], datetime], names: Callable[[], str], uids: Callable[[], str], *, graceful_deletion: bool = False
) -> MemoryCluster:
    """An empty embedded cluster that serves classic DRA, with the plugin Priority, as :class:`MemoryCluster`."""
    priority = AdmissionPlugins((with_priority,), (check_default_class,))
    return MemoryCluster(
        clock, names, uids, admission=ClassicRules(), graceful_deletion=graceful_deletion, plugins=priority
    )
