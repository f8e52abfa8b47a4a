"""Why a VMI lacks what its line of profiles stands for: reasons of its condition ProfilesApplied. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LINE_REFUSED: Final = "DevicesLineRefused"
"""The line can't be read, or asks for profiles that don't exist or aren't for the namespace."""
DEVICES_NOT_WRITTEN: Final = "DevicesNotWritten"
"""The VMI lacks devices of its line: nobody wrote them into it when it was created."""
TEMPLATE_NAME_TAKEN: Final = "ClaimTemplateNameTaken"
"""Another ResourceClaimTemplate has the name of one that the VMI needs."""
TEMPLATE_BEING_DELETED: Final = "ClaimTemplateBeingDeleted"
"""The template of an earlier VMI of this name has to go first (P-8)."""
TEMPLATE_REFUSED: Final = "ClaimTemplateRefused"
"""The API server refuses the template, for example for a quota (P-12)."""
LINE_CHANGED: Final = "DevicesLineChanged"
"""The VM asks for something else than when it was started (P-11)."""
PROFILE_CHANGED: Final = "DeviceProfileChanged"
"""A profile was changed since the VM was started."""
PROFILE_DELETED: Final = "DeviceProfileDeleted"
"""A profile was deleted since the VM was started."""
REASONS: Final = (
    LINE_REFUSED, DEVICES_NOT_WRITTEN, TEMPLATE_NAME_TAKEN, TEMPLATE_BEING_DELETED, TEMPLATE_REFUSED, LINE_CHANGED,
    PROFILE_CHANGED, PROFILE_DELETED,
)  # fmt: skip
"""Every reason of a problem."""
NOT_ALIGNED: Final = "DevicesNotAligned"
"""True: the VMI has what its line stands for, but devices apart that a profile prefers together."""
APPLIED: Final = "AsAsked"
"""True: the VMI has what its line stands for."""


@dataclass(frozen=True)
class ProfileProblem:
    """A problem with a VMI's line. ``reason``: a constant of this module; ``message``: what it is about, what helps."""

    reason: str
    message: str
