"""Receiving the bodies of requests, within limits on their size: of one, of all together, and of those from one
address."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from aiohttp import web

from webhooks.review import BadReview, check_content_type


@dataclass
class ReceivedBody:
    """A body that is being received. ``group``: the address group whose share it takes from; None for a verified
    client."""

    group: str | None
    size: int = 0


class Bodies:
    """The bodies in memory. ``limit``: bytes of one; ``buffered_limit``: of all that are being received or decided."""

    def __init__(self, limit: int, buffered_limit: int) -> None:
        self._limit, self._buffered_limit = limit, buffered_limit
        self._by_group: Counter[str] = Counter()
        """Bytes by address group, of clients that aren't verified."""
        self.buffered = 0

    def check(self, request: web.BaseRequest) -> None:
        """Refuses what can be refused before any of the body is read. Raises :class:`BadReview`."""
        if request.method != "POST":
            raise BadReview(405, "MethodNotAllowed", "only POST is possible here")
        check_content_type(request.headers.get("Content-Type", ""))
        if "Content-Encoding" in request.headers:
            raise BadReview(415, "UnsupportedMediaType", "Content-Encoding is not supported; send plain JSON")
        if (request.content_length or 0) > self._limit:
            raise self._too_large()

    async def receive(self, request: web.BaseRequest, body: ReceivedBody) -> bytes:
        """The content of a body. Only bytes that have arrived count, since announcing a size costs a client nothing."""
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        parts: list[bytes] = []
        try:
            async for part in request.content.iter_any():
                self._hold(body, len(part))
                if body.size > self._limit:
                    raise self._too_large()
                parts.append(part)
        except web.RequestPayloadError as error:
            raise BadReview(400, "BadRequest", f"the body could not be received: {error}") from None
        return b"".join(parts)

    def release(self, body: ReceivedBody) -> None:
        """Stop counting a body."""
        self._hold(body, -body.size)

    def _hold(self, body: ReceivedBody, size: int) -> None:
        """Count bytes of a body. Raises :class:`BadReview` if there are too many of all, or of one address."""
        body.size += size
        self.buffered += size
        if body.group is not None:
            self._by_group[body.group] += size
            if not self._by_group[body.group]:
                del self._by_group[body.group]
        of_address = self._by_group[body.group] if body.group is not None else 0
        if size > 0 and (self.buffered > self._buffered_limit or of_address > self._buffered_limit // 2):
            raise BadReview(503, "ServiceUnavailable", "too many large requests at once; try again")

    def _too_large(self) -> BadReview:
        message = f"the body is larger than {self._limit} bytes, the limit of this server"
        return BadReview(413, "RequestEntityTooLarge", message)
