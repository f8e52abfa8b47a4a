"""Files at http and https addresses, as ``kubectl apply -f URL`` reads them: bounded in time and size."""

from __future__ import annotations

import http.client
import io
import queue
import ssl
import threading
import urllib.error
import urllib.request
from typing import Final
from urllib.parse import urlsplit

from virt_dra.cluster.web_addresses import NotFetchedError, is_address

ANSWER_SECONDS: Final = 30.0
"""Seconds that a server may take for each read, the first one included."""
WHOLE_SECONDS: Final = 300.0
"""Seconds that a whole file may take."""
MOST_BYTES: Final = 128 * 1024 * 1024
"""Bytes of a file."""
_PIECE: Final = 1024 * 1024


def fetched(address: str) -> bytes:
    """The content behind an address. Proxies are those of the environment, as for all programs.

    Raises: NotFetchedError: the address can't be used, its server can't be reached, doesn't answer in time, answers
        with an error or with too much.
    """
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises for a port that isn't a number
    except ValueError as error:
        raise NotFetchedError(f"not an address: {error}") from None
    if not parts.hostname:
        raise NotFetchedError("not an address: it names no server")
    if parts.username is not None or parts.password is not None:
        raise NotFetchedError(
            "an address can't have a password, which messages would show; fetch "
            "the file with another program, and give it with -f -"
        )
    outcomes: queue.SimpleQueue[bytes | NotFetchedError] = queue.SimpleQueue()
    # A thread, which is left behind: timeouts of sockets begin anew with each byte, also of a header.
    threading.Thread(target=lambda: outcomes.put(_outcome(address)), daemon=True).start()
    try:
        outcome = outcomes.get(timeout=WHOLE_SECONDS)
    except queue.Empty:
        raise NotFetchedError(f"not there after {WHOLE_SECONDS:g} s") from None
    if isinstance(outcome, NotFetchedError):
        raise outcome
    return outcome


def _outcome(address: str) -> bytes | NotFetchedError:
    try:
        return _answered(address)
    except NotFetchedError as error:
        return NotFetchedError(str(error))  # without the connection that the other's context has


def _answered(address: str) -> bytes:
    request = urllib.request.Request(address, headers={"User-Agent": "virt-dra", "Accept-Encoding": "identity"})
    try:
        with urllib.request.build_opener(_WebOnly).open(request, timeout=ANSWER_SECONDS) as answer:
            return _read(answer)
    except urllib.error.HTTPError as error:
        error.close()
        raise NotFetchedError(f"the server answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise NotFetchedError(_sentence(error.reason if isinstance(error.reason, Exception) else error)) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotFetchedError(_sentence(error)) from None


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follows a redirection to another http or https address, and no other (urllib would follow one to ftp)."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: object,
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if not is_address(newurl):
            raise NotFetchedError("the server redirects to an address that is neither http nor https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _read(answer: http.client.HTTPResponse) -> bytes:
    content, size = io.BytesIO(), 0
    while piece := answer.read1(_PIECE):
        size += len(piece)
        if size > MOST_BYTES:
            raise NotFetchedError(
                f"larger than {MOST_BYTES // 2**20} MiB; fetch it with another program, and give its files"
            )
        content.write(piece)
    if answer.length:  # what of the announced length is still to come; None where none was announced
        raise NotFetchedError("the connection ended before the file did")
    return content.getvalue()


def _sentence(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"the server doesn't answer within {ANSWER_SECONDS:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate isn't trusted: {error.verify_message}"
    if isinstance(error, http.client.HTTPException) and not isinstance(error, http.client.InvalidURL):
        return "the server's answer isn't HTTP, or ends too early"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
