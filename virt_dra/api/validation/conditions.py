"""Validation of lists of metav1.Condition."""

from __future__ import annotations

import re
from collections.abc import Sequence

from virt_dra.api.meta import Condition
from virt_dra.api.names import byte_length
from virt_dra.api.validation.field_errors import Errors, invalid, not_supported, required, too_long, too_many
from virt_dra.api.validation.formats import label_name, time, unique_items

REASON_MAX = 1024
MESSAGE_MAX = 32 * 1024

_REASON = re.compile("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_RULE = (
    "a condition reason must start with alphabetic character, optionally followed "
    "by a string of alphanumeric characters or '_,:', "
    "and must end with an alphanumeric character or '_' (e.g. 'my_name',  or "
    "'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or "
    f"'ReasonA:ReasonB', regex used for validation is '{_REASON.pattern}')"
)


def conditions(entries: Sequence[Condition], path: str, limit: int) -> Errors:
    """The faults of a list of conditions. One over its limit is still checked entry by entry, as upstream."""
    if len(entries) > limit:
        yield too_many(path, len(entries), limit)
    yield from unique_items(entries, path, _condition, lambda entry: entry.type)


def _condition(condition: Condition, path: str) -> Errors:
    if condition.type:
        yield from label_name(condition.type, f"{path}.type")
    else:
        yield required(f"{path}.type", "is required")
    if not condition.status:
        yield required(f"{path}.status")
    elif condition.status not in ("False", "True", "Unknown"):
        yield not_supported(f"{path}.status", condition.status, ("False", "True", "Unknown"))
    if (condition.observed_generation or 0) < 0:
        yield invalid(
            f"{path}.observedGeneration", condition.observed_generation, "must be greater than or equal to zero"
        )
    if condition.last_transition_time is None:
        yield required(f"{path}.lastTransitionTime")
    yield from time(condition.last_transition_time, f"{path}.lastTransitionTime")
    if not condition.reason:
        yield required(f"{path}.reason")
    else:
        if not _REASON.fullmatch(condition.reason):
            yield invalid(f"{path}.reason", condition.reason, _REASON_RULE)
        if byte_length(condition.reason) > REASON_MAX:
            yield too_long(f"{path}.reason", REASON_MAX)
    if byte_length(condition.message) > MESSAGE_MAX:
        yield too_long(f"{path}.message", MESSAGE_MAX)
