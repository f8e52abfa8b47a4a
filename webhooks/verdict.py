"""The result of an admission review: a verdict with its causes (K-2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from virt_dra.api.wire import Json

AdmissionCauseType = Literal[
    "FieldValueInvalid",
    "FieldValueRequired",
    "FieldValueDuplicate",
    "FieldValueNotFound",
    "FieldValueNotSupported",
    "FieldValueTooMany",
    "FieldValueForbidden",
    "FieldValueTooLong",
]
Refuser = Literal["api-server", "kubevirt"]

INVALID: AdmissionCauseType = "FieldValueInvalid"
REQUIRED: AdmissionCauseType = "FieldValueRequired"
DUPLICATE: AdmissionCauseType = "FieldValueDuplicate"
NOT_FOUND: AdmissionCauseType = "FieldValueNotFound"
NOT_SUPPORTED: AdmissionCauseType = "FieldValueNotSupported"


@dataclass(frozen=True)
class AdmissionCause:
    """One reason to refuse an object: its kind, the message for the user, the path of the field, and the component that
    refuses."""

    type: AdmissionCauseType
    message: str
    field: str
    by: Refuser = "kubevirt"


@dataclass(frozen=True)
class FieldIssue:
    """A fault of one field: its path, and one sentence or two that say what is wrong, where, and what to do."""

    field: str
    message: str


@dataclass(frozen=True)
class Verdict:
    """The decision on an object. ``warnings`` are shown to the user whether or not it is admitted.

    ``patch``: operations (RFC 6902) on an admitted object; () for none.
    """

    allowed: bool
    causes: tuple[AdmissionCause, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[Json, ...] = ()

    @property
    def message(self) -> str:
        """The response's one message: all causes, in order (K-2.1)."""
        return ", ".join(cause.message for cause in self.causes)
