"""What an admission review answers: a verdict with its causes (K-2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from virt_dra.api.wire import Json

CauseType = Literal[
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

INVALID: CauseType = "FieldValueInvalid"
REQUIRED: CauseType = "FieldValueRequired"
DUPLICATE: CauseType = "FieldValueDuplicate"
NOT_FOUND: CauseType = "FieldValueNotFound"
NOT_SUPPORTED: CauseType = "FieldValueNotSupported"


@dataclass(frozen=True)
class Cause:
    """One reason to refuse an object: which kind of fault, the text shown to the user, the path of the field, and who refuses."""

    type: CauseType
    message: str
    field: str
    by: Refuser = "kubevirt"


@dataclass(frozen=True)
class Verdict:
    """The answer to a review. ``warnings`` are shown to the user whether or not the object is admitted.

    ``patch``: operations (RFC 6902) on an object that is admitted; () leaves it as it is.
    """

    allowed: bool
    causes: tuple[Cause, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[Json, ...] = ()

    @property
    def message(self) -> str:
        """The response's one message: all causes, in order (K-2.1)."""
        return ", ".join(cause.message for cause in self.causes)
