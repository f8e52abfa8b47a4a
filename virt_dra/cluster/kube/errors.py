"""An API server's refusals as the port's exceptions, and what can go wrong before there is a server that refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic_core import from_json

from virt_dra.cluster.port import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    StatusCause,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)

_KINDS: Final[tuple[type[ApiError], ...]] = (
    BadRequest, Unauthorized, Forbidden, NotFound, AlreadyExists, Conflict, Gone, TooLarge, TooManyRequests,
    Unavailable,
)  # fmt: skip
_BY_REASON: Mapping[str, type[ApiError]] = {kind.reason: kind for kind in _KINDS} | {
    "Gone": Gone, "ServerTimeout": Unavailable, "Timeout": Unavailable,
}  # fmt: skip
_BY_STATUS: Mapping[int, type[ApiError]] = {kind.status: kind for kind in _KINDS} | {502: Unavailable, 504: Unavailable}
"""409 is a conflict, where no reason says otherwise."""
_SHOWN = 200
"""Characters of an answer that is no Status."""
_LONGEST = 32 * 1024
"""Characters of a Status's texts. What a lying server writes goes to terminals and logs."""
_MOST_CAUSES = 1000

ProblemReason = Literal["NoConfiguration", "BadConfiguration", "Unreachable", "TLS", "Unauthorized", "Forbidden"]


class ConnectionProblem(Exception):
    """No cluster can be reached. The text names what was tried and the remedy; ``reason`` is for programs."""

    def __init__(self, reason: ProblemReason, message: str) -> None:
        super().__init__(message)
        self.reason: ProblemReason = reason


def refusal(status: int, body: bytes, retry_after: str = "") -> ApiError:
    """The exception for an HTTP answer that is no success. ``retry_after`` is the header's value."""
    try:
        answer: object = from_json(body)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and answer.get("kind") == "Status":
        return of_status(answer, status, retry_after)
    text = body[: 4 * _SHOWN].decode(errors="replace").strip()
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    message = f"the server answered {status}{f': {shown}' if shown else ''}"
    return _made(_BY_STATUS.get(status, ApiError), message, status, "", _seconds(retry_after))


def of_status(answer: Mapping[str, Any], status: int = 0, retry_after: str = "") -> ApiError:
    """The exception for a ``Status`` object, of an answer or of a watch's ERROR event."""
    code = answer.get("code")
    status = status or (code if isinstance(code, int) else 500)
    reason = _text(answer.get("reason"))
    message = _text(answer.get("message")) or f"the server answered {status}"
    details = answer.get("details")
    details = details if isinstance(details, dict) else {}
    listed = details.get("causes")
    listed = listed[:_MOST_CAUSES] if isinstance(listed, list) else []
    causes = tuple(_cause(cause) for cause in listed if isinstance(cause, dict))
    if reason == "Invalid" or (not reason and status == 422):
        return Invalid(message, causes)
    seconds = details.get("retryAfterSeconds")
    waits = float(seconds) if isinstance(seconds, int | float) and seconds > 0 else _seconds(retry_after)
    return _made(_BY_REASON.get(reason) or _BY_STATUS.get(status, ApiError), message, status, reason, waits)


def unavailable(message: str, retry_after: float | None = None) -> Unavailable:
    error = Unavailable(message)
    error.retry_after = retry_after
    return error


def _made(kind: type[ApiError], message: str, status: int, reason: str, retry_after: float | None) -> ApiError:
    error = kind(message)
    if kind is ApiError:  # the subclasses set their own
        error.status, error.reason = status, reason
    error.retry_after = retry_after
    return error


def _cause(raw: Mapping[str, Any]) -> StatusCause:
    return StatusCause(_text(raw.get("field")), _text(raw.get("reason")), _text(raw.get("message")))


def _text(value: object) -> str:
    if not isinstance(value, str):
        return ""
    return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"


def _seconds(header: str) -> float | None:
    """Only the form in seconds: Kubernetes sends no dates."""
    return float(header) if header.isascii() and header.isdigit() and len(header) < 10 else None
