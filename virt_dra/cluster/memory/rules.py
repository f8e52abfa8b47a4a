"""The default admission: defaults and validation of :mod:`virt_dra.api`, with the compilers of :mod:`virt_dra.cel`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from virt_dra.api.core_v1 import Pod
from virt_dra.api.defaults import apply_defaults
from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.api.policies.pod_defaults import with_core_defaults
from virt_dra.api.policies.pod_updates import strict_pod_update
from virt_dra.api.scheduling_v1 import POD_GROUP_FINALIZER, PodGroup, Workload
from virt_dra.api.schemas.field_dropping import without_disabled_fields, without_disabled_status
from virt_dra.api.validation import FieldError, Rules, validate_create, validate_status_update, validate_update
from virt_dra.api.validation.pods import FIXED_FIELDS
from virt_dra.cel.validation import COMPILED
from virt_dra.cluster import refusals
from virt_dra.cluster.port import StatusCause


class KindRules:
    """Implements :class:`virt_dra.cluster.memory.admission.Admission` (C-2.5, C-13.4, C-14). ``rules``: compilers of
    expressions, feature gates. ``strict``: pods have all their defaults and change only as on a real API server;
    otherwise only their claims are checked."""

    def __init__(self, rules: Rules = COMPILED, *, strict: bool = False) -> None:
        self._rules = rules
        self._strict = strict

    def defaulted(self, obj: TypedObject, now: str) -> TypedObject:
        defaulted = apply_defaults(with_core_defaults(obj) if self._strict else obj, now)
        if (
            self._rules.gates.pod_group_preemption_policy
            and isinstance(defaulted, PodGroup)
            and defaulted.spec.preemption_policy is None
        ):
            return defaulted.with_(spec=defaulted.spec.with_(preemption_policy="PreemptLowerPriority"))
        return defaulted

    def permitted(self, new: ObjectT, old: ObjectT | None) -> ObjectT:
        """Raises :class:`NotFound` for a new object of a kind that needs a gate that is off."""
        if isinstance(new, PodGroup | Workload) and old is None and not self._rules.gates.generic_workload:
            raise refusals.no_such_subresource()
        permitted = without_disabled_fields(new, old, self._rules.gates)
        return _protected(permitted) if old is None else permitted

    def permitted_status(self, new: ObjectT, old: ObjectT) -> ObjectT:
        return without_disabled_status(new, old, self._rules.gates)

    def on_create(self, obj: TypedObject) -> Sequence[StatusCause]:
        return causes(validate_create(obj, self._rules))

    def on_update(self, new: TypedObject, old: TypedObject) -> Sequence[StatusCause]:
        errors = validate_update(new, old, self._rules)
        if self._strict and isinstance(new, Pod) and isinstance(old, Pod):
            others = (
                error for error in errors if error.detail != FIXED_FIELDS
            )  # the strict rules say more exactly what may not change
            errors = tuple(dict.fromkeys((*others, *strict_pod_update(new, old))))
        return causes(errors)

    def on_status_update(self, new: TypedObject, old: TypedObject) -> Sequence[StatusCause]:
        return causes(validate_status_update(new, old, self._rules))


def _protected(obj: ObjectT) -> ObjectT:
    """A new PodGroup gets the finalizer that a loop of the control plane removes (plugin PodGroupProtection)."""
    if not isinstance(obj, PodGroup) or POD_GROUP_FINALIZER in obj.metadata.finalizers:
        return obj
    return obj.with_finalizer(POD_GROUP_FINALIZER)


def causes(errors: Iterable[FieldError]) -> tuple[StatusCause, ...]:
    """The errors as an API server's refusal lists them."""
    return tuple(StatusCause(error.field, error.type.value, error.message) for error in errors)
