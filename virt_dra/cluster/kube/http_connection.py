"""One connection over which HTTP/1.1 requests are made, and answers that are read as they come. httptools parses.

A larger client takes 8 MiB, which a node driver doesn't have (docs/decisions/0013-asking-an-api-server.md).
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable, Iterable
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

_READ_AHEAD: Final = 2**21
"""Bytes of a body that are kept before somebody reads them; then the server has to wait."""
_PIECE: Final = 2**18
"""Bytes that are decompressed at once, at most."""
_MOST_HEAD: Final = 2**16
"""Bytes without a body that are taken: a head, or what follows the last chunk."""
_GZIP: Final = 31
_CONTINUES: Final = 200
"""Answers with a lower status precede the one that counts."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

Headers = Iterable[tuple[str, str]]


class ConnectionLost(ConnectionError):
    """The connection was lost before the end of the answer, or what came is no HTTP."""


def request_bytes(method: str, target: str, headers: Headers, body: bytes | None = None) -> bytes:
    """Raises ValueError for what would end a line: it would be another header, or another request."""
    if not target.isascii() or re.search(r"[\x00-\x20\x7f]", target):
        raise ValueError(f"no target of a request: {target!r}")
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in headers:
        if _CONTROL.search(value):
            raise ValueError(f"the header {name} has a character that none may have: {value!r}")
        lines.append(f"{name}: {value}")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, "", "")).encode() + (body or b"")


class HttpAnswer:
    """An answer whose head is there. ``silence``: seconds that reading waits at most, each time; None: for ever."""

    def __init__(self, connection: HttpConnection) -> None:
        self.status = 0
        self.silence: float | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._connection: HttpConnection | None = connection
        """None at the answer's end: the connection may have another one by then."""
        self._pieces: list[bytes] = []
        self._size = 0
        self._error: OSError | None = None
        self._unzipping: zlib._Decompress | None = None
        self._changed = asyncio.Event()

    def header(self, name: str) -> str:
        """The first value, "" for none. ``name``: in lower case."""
        return next(iter(self.headers(name)), "")

    def headers(self, name: str) -> list[str]:
        wanted = name.encode()
        return [value.decode(errors="replace") for given, value in self._headers if given == wanted]

    async def readany(self) -> bytes:
        """What has come of the body, decompressed; b"" at its end. Raises OSError, and TimeoutError."""
        while True:
            if self._pieces:
                data = b"".join(self._pieces)
                self._pieces.clear()
                self._size = 0
                if self._unzipping is not None:
                    data = self._unzipped(data)
                if self._connection is not None and self._size < _READ_AHEAD:
                    self._connection.go_on()
                if data:
                    return data
            elif self._error is not None:
                raise self._error
            elif self._connection is None:
                return b"" if self._unzipping is None else self._rest_unzipped()
            else:
                await self._next()

    def abort(self) -> None:
        """Ends the connection unless the answer is complete. Closing would wait for the server, perhaps for ever."""
        if self._connection is not None:
            self._connection.abort()

    async def head(self) -> None:
        """Returns when the head is there. Raises as :meth:`readany`."""
        while not self.status:
            if self._error is not None:
                raise self._error
            await self._next()

    async def _next(self) -> None:
        self._changed.clear()
        async with asyncio.timeout(self.silence):
            await self._changed.wait()

    def _unzipped(self, data: bytes) -> bytes:
        """What the next part stands for, but for what is put back as it would be too much at once."""
        assert self._unzipping is not None
        try:
            opened = self._unzipping.decompress(data, _PIECE)
        except zlib.error as error:
            raise ConnectionLost(f"the compressed answer can't be read: {error}") from error
        if self._unzipping.unused_data:
            raise ConnectionLost("the compressed answer goes on after its end")
        if rest := self._unzipping.unconsumed_tail:
            self._pieces.append(rest)
            self._size = len(rest)
        return opened

    def _rest_unzipped(self) -> bytes:
        """What a decompressor may hold when all of the answer has been given to it."""
        assert self._unzipping is not None
        if self._unzipping.eof:
            return b""
        rest = self._unzipped(b"")
        if not rest:
            raise ConnectionLost("the compressed answer has no end")
        return rest

    # --- what the connection reports ----------------------------------------------------------------------------------

    def begun(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status, self._headers = status, headers
        coding = self.header("content-encoding").strip().lower()
        if coding == "gzip":
            self._unzipping = zlib.decompressobj(wbits=_GZIP)
        elif coding not in ("", "identity"):
            self.ended(ConnectionLost(f"the answer has an encoding that wasn't asked for: {coding[:40]!r}"))
        self._changed.set()

    def came(self, data: bytes) -> bool:
        """True if the server may go on."""
        self._pieces.append(data)
        self._size += len(data)
        self._changed.set()
        return self._size < _READ_AHEAD

    def ended(self, error: OSError | None = None) -> None:
        if self._error is None:
            self._error = error
        self._connection = None
        self._changed.set()


class HttpConnection(asyncio.Protocol):
    """A connection that carries one request at a time. ``ended``: called whenever it has answered a request, and when
    it is closed. ``tunnel``: its request is CONNECT, after whose answer it goes on whatever that says of its length and
    end (RFC 9110, 9.3.6)."""

    def __init__(self, ended: Callable[[HttpConnection], None], *, tunnel: bool = False) -> None:
        self._ended, self._tunnel = ended, tunnel
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answer: HttpAnswer | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._without_body = 0
        """Bytes that came since the last part of a body."""
        self._until_end = False
        """Whether the body ends with the connection."""
        self._last = False
        """Whether the server ends the connection after this answer."""

    @property
    def at_rest(self) -> bool:
        """Whether it is open and has nothing to answer."""
        return self._transport is not None and not self._transport.is_closing() and self._answer is None

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None, "a connection that isn't made yet, or is lost"
        return self._transport

    async def ask(self, request: bytes, silence: float | None = None) -> HttpAnswer:
        """The answer as soon as its head is there. Raises as :meth:`HttpAnswer.readany`."""
        answer = self._answer = HttpAnswer(self)
        answer.silence = silence
        try:
            self.transport.write(request)
            await answer.head()
        except BaseException:
            self.abort()
            raise
        return answer

    def go_on(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        self._end(ConnectionLost("it was ended"))
        if self._transport is not None:
            self._transport.abort()

    # --- of asyncio ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._parser is None or self._transport is None:
            return
        self._without_body += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._fail("the server goes over to another protocol")
            return
        except HttpParserError as error:
            self._fail(f"what came is no HTTP: {error.__context__ or error}")
            return
        if self._without_body > _MOST_HEAD:
            self._fail(f"what came is no HTTP: more than {_MOST_HEAD} bytes of a head")

    def eof_received(self) -> None:
        """The transport closes itself."""

    def connection_lost(self, error: Exception | None) -> None:
        # The parser refers to this object: without it nothing has to wait for the garbage collector.
        self._transport = self._parser = None
        if self._answer is not None:
            whole = self._until_end and error is None
            self._end(None if whole else ConnectionLost(str(error or "the server closed it")))
        self._ended(self)

    # --- of the parser ------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._headers = []
        if self._answer is None:
            raise ValueError("an answer to nothing")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._answer is not None and not self._answer.status:
            self._headers.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if self._answer is None or status < _CONTINUES:
            return
        self._without_body = 0
        names = {name for name, _ in self._headers}
        self._until_end = names.isdisjoint((b"content-length", b"transfer-encoding"))
        self._answer.begun(status, self._headers)

    def on_chunk_header(self) -> None:
        self._without_body = 0

    def on_body(self, data: bytes) -> None:
        self._without_body = 0
        if self._answer is not None and not self._answer.came(data):
            self.transport.pause_reading()

    def on_message_complete(self) -> None:
        assert self._parser is not None
        if self._answer is None or not self._answer.status:
            return
        self._last = not self._parser.should_keep_alive()
        self.go_on()  # so that its end is seen
        self._end(None)
        if self._last and not self._tunnel:
            self.abort()
        else:
            self._ended(self)

    def _fail(self, why: str) -> None:
        self._end(ConnectionLost(why))
        self.abort()

    def _end(self, error: OSError | None) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.ended(error)
