"""The server's log: one JSON object a line. Texts of users are values in it and can't become lines or members of their own."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final, TextIO

LOGGER: Final = "virt_dra.webhook"
_MAX_TEXT: Final = 512
_FIELDS: Final = "fields"


class JsonFormatter(logging.Formatter):
    """``{"time", "level", "logger", "message", ...}`` with the members given as ``extra={"fields": {...}}``; ASCII, one line."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": cut(record.getMessage()),
        }
        fields = getattr(record, _FIELDS, None)
        if isinstance(fields, dict):
            entry.update((key, cut(value) if isinstance(value, str) else value) for key, value in fields.items() if key not in entry)
        if record.exc_info and record.exc_info[1] is not None:
            # By its kind and place: a traceback would carry users' values over many lines.
            entry["error"] = cut(f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}")
            entry["at"] = _place(record.exc_info[1])
        return json.dumps(entry, default=str)


def cut(text: str) -> str:
    """A text of bounded length."""
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


def json_logging(stream: TextIO, level: int) -> logging.Handler:
    """All logging of the process as JSON on a stream; the handler, to be removed again."""
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
