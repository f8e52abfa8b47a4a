"""Why a claim can't be prepared or released now: a decision as a value, raised where a claim's work ends with it."""

from __future__ import annotations

from enum import StrEnum


class ClaimRefusalReason(StrEnum):
    BAD_NAME = "BadName"
    """A name that isn't one of Kubernetes': nothing of it reaches a path."""
    CLAIM_GONE = "ClaimGone"
    CLAIM_REPLACED = "ClaimReplaced"
    """Another claim has the name now: the UID differs."""
    API_UNAVAILABLE = "APIUnavailable"
    NOT_ALLOCATED = "NotAllocated"
    BAD_PARAMETERS = "BadParameters"
    NOT_PUBLISHED = "NotPublished"
    GONE = "Gone"
    """The device was published, and has left the node since."""
    HELD = "Held"
    """Another claim or pod has the device, or its group (D-43, D-47)."""
    UNCLEAN = "Unclean"
    OBSTACLE = "Obstacle"
    """The node uses the device (D-45)."""
    IN_USE = "InUse"
    """A process still has the device open, so that it can't be released."""
    FILES = "DriverFiles"
    """A CDI or metadata file can't be written."""


class ClaimRefusal(Exception):
    """``str(refusal)`` says what is wrong and what to do; it reaches the pod's Event (D-20)."""

    def __init__(self, reason: ClaimRefusalReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
