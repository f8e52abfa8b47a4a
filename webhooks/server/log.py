"""The server's log: one JSON object a line. Texts of users are values in it and can't become lines or members of their
own."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TextIO

LOGGER: Final = "virt_dra.webhook"
_MAX_TEXT: Final = 512
_FIELDS: Final = "fields"
_MAX_REMEMBERED: Final = 1000


class JsonFormatter(logging.Formatter):
    """``{"time", "level", "logger", "message", ...}`` with the members given as ``extra={"fields": {...}}``; ASCII, one
    line."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry: dict[str, object] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": cut(record.getMessage()),
        }
        fields = getattr(record, _FIELDS, None)
        if isinstance(fields, dict):
            texts = {key: cut(value) if isinstance(value, str) else value for key, value in fields.items()}
            entry = {**texts, **entry}
        if record.exc_info and record.exc_info[1] is not None:
            # By its kind and place: a traceback would carry users' values over many lines.
            entry["error"] = cut(f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}")
            entry["at"] = _place(record.exc_info[1])
        return json.dumps(entry, default=str)


def cut(text: str) -> str:
    """A text of bounded length."""
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


class Repeats:
    """Rate limit of log lines, for clients that retry forever, or flood the server.

    Lines with the same key are logged once in ``every`` seconds, all lines together at most ``rate`` a second, in
    bursts of ``burst``. The others are counted: ``suppressed`` of the next line.
    """

    def __init__(
        self, clock: Callable[[], float], *, every: float = 60.0, rate: float = 20.0, burst: float = 200.0
    ) -> None:
        self._clock = clock
        self._every, self._rate, self._burst = every, rate, burst
        self._logged: OrderedDict[object, float] = OrderedDict()
        self._room, self._filled = burst, clock()
        self._suppressed = 0

    def suppressed_before(self, key: object) -> int | None:
        """The number of lines suppressed since the last one; None if this one is suppressed, too."""
        now = self._clock()
        self._room = min(self._burst, self._room + (now - self._filled) * self._rate)
        self._filled = now
        last = self._logged.get(key)
        if self._room < 1 or (last is not None and now - last < self._every):
            self._suppressed += 1
            return None
        self._room -= 1
        self._logged[key] = now
        self._logged.move_to_end(key)
        if len(self._logged) > _MAX_REMEMBERED:
            self._logged.popitem(last=False)
        before, self._suppressed = self._suppressed, 0
        return before


def json_logging(stream: TextIO, level: int) -> logging.Handler:
    """Log everything in this process as JSON to a stream. Returns the handler, to be removed again."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
    return handler


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}" if trace is not None else ""
