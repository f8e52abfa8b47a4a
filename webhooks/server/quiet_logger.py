"""The logger that aiohttp gets: clients can't fill the log."""

from __future__ import annotations

import logging

from aiohttp.http_exceptions import HttpProcessingError

from webhooks.server.log import Repeats


class QuietLogger(logging.LoggerAdapter[logging.Logger]):
    """The logger for aiohttp: requests that aren't HTTP are logged without a place in this process, since their clients
    are at fault."""

    def __init__(self, logger: logging.Logger, repeats: Repeats) -> None:
        super().__init__(logger, {})
        self._repeats = repeats

    def log(self, level: int, msg: object, *args: object, **kwargs: object) -> None:
        error = kwargs.get("exc_info")
        if isinstance(error, HttpProcessingError):
            suppressed = self._repeats.suppressed_before((error.code, error.message))
            if suppressed is not None:
                fields = {"code": error.code, "reason": error.message}
                fields |= {"suppressed": suppressed} if suppressed else {}
                self.logger.warning("not a request in HTTP", extra={"fields": fields})
            return
        # Clients that close connections in the middle of requests cause as many lines, which only differ in the
        # address.
        suppressed = self._repeats.suppressed_before((str(msg).partition(" from ")[0], type(error).__name__))
        if suppressed is not None:
            fields = {"suppressed": suppressed} if suppressed else {}
            reason = error if isinstance(error, BaseException) else None
            self.logger.log(level, msg, *args, exc_info=reason, extra={"fields": fields})
